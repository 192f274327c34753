"""The best policy that a log supports: chosen in each context, and judged by other records."""

# Why a context has the policy that it has: a new one, or production's.
CHANGED, UNSURE, IMPOSSIBLE = "changed", "nothing sure", "not possible"
