"""Questions through the public API, and the answers that they must keep."""
