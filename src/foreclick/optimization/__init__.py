"""The best policy of one context: solvers on arrays, without tables or engines."""

CHANGED, UNSURE, IMPOSSIBLE = "changed", "nothing sure", "not possible"
"""Why a context has the policy that it has: a new one, or production's."""
