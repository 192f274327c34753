"""foreclick: know the clicks before you ship the ranking.

Reads the click logs a team already has and says how many clicks a new ranking would get. A log is
compressed in the engine where it lives; all statistics are computed from that. The estimators are
those of Li et al., "Offline Evaluation of Ranking Policies with Click Models" (KDD 2018).
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foreclick import datasets, errors, events, simulate
    from foreclick.analysis.backtest import Backtest, backtest
    from foreclick.analysis.check import Check, check
    from foreclick.analysis.compare import Comparison, compare
    from foreclick.analysis.contexts import Contexts, contexts
    from foreclick.analysis.evaluate import Evaluation, evaluate
    from foreclick.analysis.examination import Examination, examination
    from foreclick.analysis.explore import Explored, explore
    from foreclick.analysis.judgments import Judgments, judgments
    from foreclick.analysis.optimize import Optimized, optimize
    from foreclick.analysis.report import Report, report
    from foreclick.analysis.support import Support, support
    from foreclick.estimators import Ladder, Weighted
    from foreclick.events import Bots, from_events
    from foreclick.logs import Log, read_log
    from foreclick.metrics import Metric, Ratio
    from foreclick.models import ClickModel
    from foreclick.policies import Lists, Marginals, Observed, Picker, PlackettLuce, Policy, Ranking
    from foreclick.tallies.base import Tally, tally
    from foreclick.tallies.parts import Tallies, write_tallies
    from foreclick.tallies.reading import read_tally

__version__ = "0.1.0"

__all__ = [
    "Backtest",
    "Bots",
    "Check",
    "ClickModel",
    "Comparison",
    "Contexts",
    "Evaluation",
    "Examination",
    "Explored",
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
    "Support",
    "Tallies",
    "Tally",
    "Weighted",
    "backtest",
    "check",
    "compare",
    "contexts",
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
    "simulate",
    "support",
    "tally",
    "write_tallies",
]

_HOMES = {
    "analysis.backtest": "Backtest backtest",
    "analysis.check": "Check check",
    "analysis.compare": "Comparison compare",
    "analysis.contexts": "Contexts contexts",
    "analysis.evaluate": "Evaluation evaluate",
    "analysis.examination": "Examination examination",
    "analysis.explore": "Explored explore",
    "analysis.judgments": "Judgments judgments",
    "analysis.optimize.best": "optimize",
    "analysis.optimize.optimized": "Optimized",
    "analysis.report": "Report report",
    "analysis.support": "Support support",
    "estimators": "Ladder Weighted",
    "events": "Bots from_events",
    "logs": "Log read_log",
    "metrics": "Metric Ratio",
    "models": "ClickModel",
    "policies": "Lists Marginals Observed Picker PlackettLuce Policy Ranking",
    "tallies.base": "Tally tally",
    "tallies.parts": "Tallies write_tallies",
    "tallies.reading": "read_tally",
}
"""The names of each module, which is imported when one of them is first used."""

_ROOMS = ("datasets", "errors", "events", "simulate")
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


if not TYPE_CHECKING:  # which would take any name for one of ours

    def __getattr__(name):
        """Import a name when it is first used: most of Ibis and NumPy waits until there is work."""
        if name in _ROOMS:
            return import_module(f"foreclick.{name}")
        if name not in _HOME:
            raise AttributeError(f"module 'foreclick' has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"foreclick.{_HOME[name]}"), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
