"""What to show next, so that a change can be told."""
