"""The best policy that a log supports: chosen in each context, and judged by other records."""

from foreclick.analysis.optimize.best import optimize
from foreclick.analysis.optimize.optimized import Optimized

__all__ = ["Optimized", "optimize"]
