"""The best policy that a log supports: chosen in each context, and judged by other records."""

from foreclick.optimize.best import Optimized, optimize

__all__ = ["Optimized", "optimize"]
