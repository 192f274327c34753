"""What the answers are held against: an oracle, worlds with a computable truth, and the laws."""
