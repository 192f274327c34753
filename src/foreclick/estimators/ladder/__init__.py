"""The ladder: click rates from as much of the circumstances as the log has seen often enough."""
