"""foreclick: know the clicks before you ship the ranking.

Reads the click logs a team already has and says how many clicks a new ranking would get. A log is
compressed in the engine where it lives; all statistics are computed from that. The estimators are
those of Li et al., "Offline Evaluation of Ranking Policies with Click Models" (KDD 2018).
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foreclick import datasets, errors, events, simulate
    from foreclick.estimators import Ladder, Weighted
    from foreclick.events import from_events
    from foreclick.logs import Log, read_log
    from foreclick.metrics import Metric, Ratio
    from foreclick.models import ClickModel
    from foreclick.optimization.explore import explore
    from foreclick.optimization.optimize import optimize
    from foreclick.optimization.selection import selection_bound
    from foreclick.options import Confidence, settings
    from foreclick.policies import Lists, Marginals, Observed, Policy, Ranking
    from foreclick.questions.answers import Evaluation
    from foreclick.questions.backtest import backtest
    from foreclick.questions.check import check, contexts
    from foreclick.questions.compare import compare
    from foreclick.questions.evaluate import evaluate
    from foreclick.questions.examination import examination
    from foreclick.questions.judgments import judgments
    from foreclick.questions.replay import replay
    from foreclick.questions.report import Report, report
    from foreclick.questions.support import support
    from foreclick.tallies.base import Tally, read_tally, tally

__version__ = "1.0.0rc2"

__all__ = [
    "ClickModel",
    "Confidence",
    "Evaluation",
    "Ladder",
    "Lists",
    "Log",
    "Marginals",
    "Metric",
    "Observed",
    "Policy",
    "Ranking",
    "Ratio",
    "Report",
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
    "replay",
    "report",
    "selection_bound",
    "settings",
    "simulate",
    "support",
    "tally",
]

_NAMES = {
    "estimators": "Ladder Weighted",
    "events": "from_events",
    "logs": "Log read_log",
    "metrics": "Metric Ratio",
    "models": "ClickModel",
    "optimization.optimize": "optimize",
    "optimization.selection": "selection_bound",
    "policies": "Lists Marginals Observed Policy Ranking",
    "options": "Confidence settings",
    "questions.backtest": "backtest",
    "questions.check": "check contexts",
    "questions.compare": "compare",
    "questions.answers": "Evaluation",
    "questions.evaluate": "evaluate",
    "questions.examination": "examination",
    "optimization.explore": "explore",
    "questions.judgments": "judgments",
    "questions.replay": "replay",
    "questions.report": "Report report",
    "questions.support": "support",
    "tallies.base": "Tally read_tally tally",
}
"""The names of each module, which is imported when one of them is first used."""

_MODULES = ("datasets", "errors", "events", "simulate")
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}


if not TYPE_CHECKING:  # which would take any name for one of ours

    def __getattr__(name):
        """Import a name when it is first used: NumPy and engines wait until there is work."""
        if name in _MODULES:
            return import_module(f"foreclick.{name}")
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'foreclick' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"foreclick.{_MODULE_OF[name]}"), name)
        return value


def __dir__() -> list[str]:
    return sorted(["__version__", *__all__])
