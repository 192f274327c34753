"""Real logs, where they are at hand."""
