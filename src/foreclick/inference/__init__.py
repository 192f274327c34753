"""From a covariance to what can be said: intervals of a value, a change and a lift. NumPy only."""

from foreclick.inference.intervals import Interval, change, lift, quantile, value

__all__ = ["Interval", "change", "lift", "quantile", "value"]
