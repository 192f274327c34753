"""What is in a log, and how far it can see of a candidate."""

from foreclick.diagnostics.contents import Check, check
from foreclick.diagnostics.sight import LATTICE, Support, support

__all__ = ["LATTICE", "Check", "Support", "check", "support"]
