"""Differential fuzzing: random logs and questions, answered by the library and by oracles."""
