"""One module per question that is asked of a log."""
