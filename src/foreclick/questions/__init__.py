"""The questions that users ask of a log, one file each."""
