# The public names, each from where it is defined. `__init__.py` reads these lines, and imports a
# module when one of its names is first used.

from foreclick import datasets as datasets
from foreclick import errors as errors
from foreclick import events as events
from foreclick import simulate as simulate
from foreclick.estimators import Ladder as Ladder
from foreclick.estimators import Weighted as Weighted
from foreclick.events import from_events as from_events
from foreclick.logs import Log as Log
from foreclick.logs import read_log as read_log
from foreclick.metrics import Metric as Metric
from foreclick.metrics import Ratio as Ratio
from foreclick.models import ClickModel as ClickModel
from foreclick.optimization.explore import explore as explore
from foreclick.optimization.optimize import optimize as optimize
from foreclick.optimization.selection import selection_bound as selection_bound
from foreclick.options import Confidence as Confidence
from foreclick.options import settings as settings
from foreclick.policies import Lists as Lists
from foreclick.policies import Marginals as Marginals
from foreclick.policies import Observed as Observed
from foreclick.policies import Policy as Policy
from foreclick.policies import Ranking as Ranking
from foreclick.questions.answers import Evaluation as Evaluation
from foreclick.questions.backtest import backtest as backtest
from foreclick.questions.check import check as check
from foreclick.questions.check import contexts as contexts
from foreclick.questions.compare import compare as compare
from foreclick.questions.evaluate import evaluate as evaluate
from foreclick.questions.examination import examination as examination
from foreclick.questions.judgments import judgments as judgments
from foreclick.questions.replay import replay as replay
from foreclick.questions.report import Report as Report
from foreclick.questions.report import report as report
from foreclick.questions.support import support as support
from foreclick.tallies.base import Tally as Tally
from foreclick.tallies.base import read_tally as read_tally
from foreclick.tallies.base import tally as tally

__all__: list[str]
__version__: str
RENDERER: str
