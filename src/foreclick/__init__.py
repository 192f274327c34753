"""foreclick: know the clicks before you ship the ranking.

Reads the click logs a team already has and says how many clicks a new ranking would get. A log is
compressed in the engine where it lives; all statistics are computed from that. The estimators are
those of Li et al., "Offline Evaluation of Ranking Policies with Click Models" (KDD 2018).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from foreclick import errors
from foreclick.analysis.backtest import Backtest, backtest
from foreclick.analysis.check import Check, check
from foreclick.analysis.compare import Comparison, compare
from foreclick.analysis.evaluate import Evaluation, evaluate
from foreclick.analysis.examination import Examination, examination
from foreclick.analysis.explore import Explored, explore
from foreclick.analysis.judgments import Judgments, judgments
from foreclick.analysis.optimize import Optimized, optimize
from foreclick.analysis.report import Report, report
from foreclick.analysis.resample import Resampling, resample
from foreclick.analysis.support import Support, support
from foreclick.estimators import Items, Ladder, Weighted
from foreclick.events import Bots, from_events
from foreclick.logs import Log, read_log
from foreclick.metrics import Metric, Ratio
from foreclick.models import ClickModel, Window
from foreclick.policies import Lists, Marginals, Observed, Picker, PlackettLuce, Policy, Ranking
from foreclick.tallies.base import Tally, read_tally, tally
from foreclick.tallies.parts import Tallies, write_tallies

if TYPE_CHECKING:
    from foreclick import datasets, simulate

__version__ = "0.1.0"

__all__ = [
    "Backtest",
    "Bots",
    "Check",
    "ClickModel",
    "Comparison",
    "Evaluation",
    "Examination",
    "Explored",
    "Items",
    "Judgments",
    "Ladder",
    "Lists",
    "Log",
    "Marginals",
    "Metric",
    "Observed",
    "Optimized",
    "Picker",
    "PlackettLuce",
    "Policy",
    "Ranking",
    "Ratio",
    "Report",
    "Resampling",
    "Support",
    "Tallies",
    "Tally",
    "Weighted",
    "Window",
    "backtest",
    "check",
    "compare",
    "datasets",
    "errors",
    "evaluate",
    "events",
    "examination",
    "explore",
    "from_events",
    "judgments",
    "optimize",
    "read_log",
    "read_tally",
    "report",
    "resample",
    "simulate",
    "support",
    "tally",
    "write_tallies",
]

_LATER = ("datasets", "simulate")  # rooms that most sessions never ask for


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module
    """Import a room when it is first asked for."""
    if name in _LATER:
        return import_module(f"foreclick.{name}")
    raise AttributeError(f"module 'foreclick' has no attribute {name!r}")
