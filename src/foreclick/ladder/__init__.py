"""The ladder: click rates that lean on a regression on rank features."""
