"""Events: from a table of what was shown and a table of what users did to a log, in the engine."""

from collections.abc import Callable

from foreclick.events.events import from_events
from foreclick.events.readers import algolia, ga4, snowplow, ubi
from foreclick.events.shown import Ledger, Match
from foreclick.logs import Log

READERS: dict[str, Callable[..., Log]] = {f.__name__: f for f in (ubi, ga4, snowplow, algolia)}
"""Readers of trackers' tables by their names."""

__all__ = ["READERS", "Ledger", "Match", "algolia", "from_events", "ga4", "snowplow", "ubi"]
