"""Events: from a table of what was shown and a table of what users did to a log, in the engine."""

from foreclick.events.bots import Bots
from foreclick.events.events import from_events
from foreclick.events.ledger import Ledger
from foreclick.events.readers import algolia, baidu_ultr, ga4, snowplow, ubi

__all__ = ["Bots", "Ledger", "algolia", "baidu_ultr", "from_events", "ga4", "snowplow", "ubi"]
