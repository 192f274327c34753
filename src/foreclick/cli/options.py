"""What can be said on the command line. Shared options stand once, in the parents."""

from __future__ import annotations

import argparse
import importlib.metadata
from typing import TYPE_CHECKING, Any, NoReturn

import foreclick
from foreclick.analysis.judgment_files import FORMATS
from foreclick.cli.values import (
    Columns,
    above_zero,
    amount,
    candidate,
    clips,
    count,
    curve,
    from_zero,
    guardrail,
    least,
    names,
    ranks,
    reward,
    share,
    size,
    whole,
)
from foreclick.simulate import PRESETS

if TYPE_CHECKING:
    from collections.abc import Sequence

DESCRIPTION = "Know the clicks before you ship the ranking: offline evaluation from click logs."

_SPELLING = "Messages spell options as in Python: context='query' is --context query here."
_EPILOG = f"""\
foreclick COMMAND --help explains a command. An example, from a log to an answer:

  foreclick check    log.parquet --context query --period day
  foreclick tally    log.parquet --context query --period day -o tally.parquet
  foreclick backtest tally.parquet --clip 1..1000 --chart backtest.png
  foreclick evaluate tally.parquet candidate.parquet --metric dcg@10
  foreclick compare  tally.parquet --candidate a=a.parquet --candidate b=b.parquet
  foreclick optimize tally.parquet --metric dcg@10 -o policy.parquet

{_SPELLING}"""

BIG_WORLDS = tuple(name for name in PRESETS if name != "illustrative-query")
CANDIDATE_TYPES = ("ranking", "lists", "marginals", "plackett-luce", "observed")


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line; `command` is None where none was given."""
    parser = _Parser(prog="foreclick", usage="foreclick COMMAND …", description=DESCRIPTION)
    parser.epilog = _EPILOG
    general = parser.add_argument_group("options")
    general.add_argument(
        "--version", action="version", version=f"foreclick {_version()}", help="show the version"
    )
    general.add_argument("-h", "--help", action="help", help="show this help")
    commands = parser.add_subparsers(
        prog="foreclick", dest="command", title="commands", metavar="COMMAND"
    )
    log, question = _log(), _question()

    def add(
        name: str, words: str, summary: str, parents: Sequence[_Parser], *, engine: bool = True
    ) -> None:
        commands.add_parser(
            name,
            parents=[*parents, _output(engine=engine)],
            usage=f"foreclick {name} [options] {words}",
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=_SPELLING,
        )

    about = [log, _candidate(), question, _split(), _missing("error", "production", "drop")]
    add("check", "LOG…", "what is in a log, and what can be evaluated with it", [log])
    add(
        "convert",
        "DATASET PATH OUT",
        "write a public dataset, or the events of a tracker, and count what is odd",
        [_dataset()],
        engine=False,
    )
    add(
        "tally",
        "LOG… -o FILE | --into DIRECTORY",
        "compress logs to one small file, or part by part; add up tallies",
        [log, _destination()],
    )
    judged = [
        *about,
        _item_table(),
        _clip(),
        _logging(),
        _uncertainty(),
        _practical(),
        _guardrails(),
    ]
    judged += [_interval(), _cap()]
    add(
        "evaluate",
        "LOG… CANDIDATE",
        "how many clicks a candidate would get",
        [*judged, _picture()],
    )
    add(
        "gate",
        "LOG… CANDIDATE",
        "exit with 0 if a candidate is better, 1 if not, 3 if the log cannot tell",
        judged,
    )
    alone = [
        question,
        _item_table(),
        _missing("error", "production"),
        _clip(),
        _uncertainty(),
        _practical(),
        _cap(),
    ]
    add(
        "compare",
        "LOG… --candidate NAME=FILE…",
        "which of several candidates is better than which, and than production",
        [log, _candidate(several=True), *alone, _picture()],
    )
    add(
        "support",
        "LOG… CANDIDATE",
        "how much of what a candidate shows was ever shown",
        [*about, _cap(), _picture()],
    )
    add(
        "explore",
        "LOG… CANDIDATE",
        "how much traffic, where and for how long, until a candidate's change can be told",
        [log, _candidate(), _exploring(), _missing("error", "production"), _picture()],
    )
    add(
        "backtest",
        "LOG…",
        "which estimator would have been right on this log",
        [log, question, _item_table(), _clip(), _protocol(), _picture()],
    )
    add(
        "optimize",
        "LOG… -o FILE",
        "the best ranking policy that a log supports, and what it is honestly worth",
        [log, _choice(), _constraints(), _judgement(), _policy_file()],
    )
    add(
        "examination",
        "LOG…",
        "how much each position is looked at, from items that moved",
        [log, _places(), _split(), _uncertainty(), _picture()],
    )
    add(
        "judgments",
        "LOG… -o FILE",
        "grades of the items of each context, by click rates corrected for examination",
        [log, _grades(), _uncertainty()],
    )
    add(
        "simulate",
        "OUT",
        "write a log drawn from a world with a known truth",
        [_simulated_log(), _simulation(tuple(PRESETS), 0, "yandex-like")],
        engine=False,
    )
    add(
        "reproduce",
        "[LOG…]",
        "the experiments of the paper, on a Yandex log or a simulated one",
        [_log(nargs="*", context="query", period="day"), _simulation(BIG_WORLDS, 500), _figures()],
    )
    return parser


class _Parser(argparse.ArgumentParser):
    """A parser that sets its help wider, knows no abbreviations, and complains in one line."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - those of ArgumentParser
        settings.setdefault("formatter_class", _Help)
        super().__init__(**settings, add_help=False, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\nTry {self.prog} --help.\n")


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help with room for long options, and each subcommand on one line."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32)

    def _format_action(self, action: argparse.Action) -> str:
        text = super()._format_action(action)
        # Of the commands, leave out the line that only says COMMAND.
        return text.partition("\n")[2] if action.nargs == argparse.PARSER else text


# --- the groups of options ----------------------------------------------------------------------


def _log(nargs: str = "+", context: str = "context", period: str = "none") -> _Parser:
    """The log and its roles; how many files, and the columns of roles that are not named."""
    parent = _Parser()
    group = parent.add_argument_group(
        "log", "Which column plays which part. A tally knows its own."
    )
    add = group.add_argument
    add(
        "log",
        nargs=nargs,
        metavar="LOG",
        help="file or glob (Parquet, CSV, JSON), or tally; several are added up",
    )
    add("--context", metavar="COLUMN", help=f"the query, page or user group (default: {context})")
    add("--no-context", **_nothing("context"), help="one context for all")
    add(
        "--items",
        action=Columns,
        metavar="COLUMN",
        help="the list shown (default: items), or a column per position: a,b,c",
    )
    add("--clicks", action=Columns, metavar="COLUMN", help="its clicks, likewise (default: clicks)")
    add("--no-clicks", **_nothing("clicks"), help="the log has no clicks")
    add(
        "--period",
        metavar="COLUMN",
        help=f"day or week; a timestamp counts as its day (default: {period})",
    )
    add("--unit", metavar="COLUMN", help="user or session")
    add(
        "--segments",
        **_several(names),
        metavar="COLUMN",
        help="what results can be split by",
    )
    add("--weight", metavar="COLUMN", help="of a down-sampled log: for how many a row was kept")
    add("--count", metavar="COLUMN", help="of a counted log: how many equal records a row is")
    add(
        "--propensity",
        action=Columns,
        metavar="COLUMN",
        help="probability of the list shown, or of each slot",
    )
    add(
        "--reward",
        dest="rewards",
        action="append",
        type=reward,
        metavar="NAME=COLUMN",
        help="a further reward, for the metric NAME@3; repeatable",
    )
    add("--where", metavar="SQL", help="which rows of LOG count, such as country='NL'")
    add(
        "--sample",
        type=share,
        metavar="SHARE",
        help="read only so much of LOG, such as 0.01, for a first look",
    )
    add(
        "--sample-by",
        choices=("context", "unit"),
        metavar="context|unit",
        help="what is drawn (default: context)",
    )
    add(
        "--half-life",
        type=above_zero,
        metavar="DAYS",
        help="so much older than the latest period, a record counts half as much",
    )
    add(
        "--invalid",
        choices=("error", "drop"),
        metavar="error|drop",
        help="what to do with invalid rows (default: error)",
    )
    add(
        "--layout",
        choices=("lists", "long"),
        metavar="lists|long",
        help="one row a list (default), or one an impression, with:",
    )
    for role in ("list-id", "position", "item", "click"):
        add(f"--{role}", metavar="COLUMN", help=f"(default: {role.replace('-', '_')})")
    return parent


def _dataset() -> _Parser:
    parent = _Parser()
    add = parent.add_argument_group("dataset").add_argument
    add(
        "dataset",
        choices=(*foreclick.datasets.FORMATS, *foreclick.events.READERS),
        metavar="DATASET",
        help=", ".join(foreclick.datasets.FORMATS)
        + f"; or the tracker of events: {', '.join(foreclick.events.READERS)}",
    )
    add("path", metavar="PATH", help="file (plain or gzip), directory or glob")
    add("out", metavar="OUT", help="the Parquet file to write; of events it is a tally")
    add(
        "--events",
        metavar="PATH",
        help="of ubi and algolia: the table of events; PATH is then that of searches",
    )
    add(
        "--day-length",
        type=count,
        metavar="N",
        help="of relevance_prediction: how many units of time make a day (Naver: 86400000)",
    )
    return parent


def _simulated_log() -> _Parser:
    parent = _Parser()
    add = parent.add_argument_group("simulated log").add_argument
    add("out", metavar="OUT", help="a directory, for one file a day, or a .parquet file")
    add("--queries", type=count, metavar="N", help="how many queries (default: 1000)")
    return parent


def _simulation(worlds: Sequence[str], seed: int, default: str | None = None) -> _Parser:
    """What is simulated, with which seed; `default`: a world that need not be named."""
    parent = _Parser()
    add = parent.add_argument_group("simulation").add_argument
    add(
        "--world",
        choices=worlds,
        default=default,
        metavar="WORLD",
        help=f"{', '.join(worlds[:-1])} or {worlds[-1]} (default: {worlds[0]})",
    )
    add(
        "--records",
        type=count,
        metavar="N",
        help="how many records (default: 9 million, and 3553 of illustrative-query)",
    )
    add("--seed", type=whole, metavar="N", help=f"another is another world (default: {seed})")
    return parent


def _figures() -> _Parser:
    parent = _Parser()
    add = parent.add_argument_group("output").add_argument
    add("--out", metavar="DIR", help="also draw the figures into it (needs foreclick[charts])")
    return parent


def _candidate(*, several: bool = False) -> _Parser:
    """A candidate and its columns; or several, each with its name, and columns called alike."""
    parent = _Parser()
    group = parent.add_argument_group(
        "candidate", "Its columns are called as in the log, unless said otherwise."
    )
    add = group.add_argument
    if several:
        add(
            "--candidate",
            dest="candidates",
            action="append",
            required=True,
            type=candidate,
            metavar="NAME=FILE",
            help="a file, directory or glob, or a tally, and what to call it; repeatable",
        )
    else:
        add("candidate", metavar="CANDIDATE", help="a file, directory or glob; or a tally")
    add(
        "--candidate-type",
        choices=CANDIDATE_TYPES,
        metavar="TYPE",
        help=f"{', '.join(CANDIDATE_TYPES[:-1])} or {CANDIDATE_TYPES[-1]} (the frequencies of "
        "another log); by default told from its columns",
    )
    add("--candidate-context", metavar="COLUMN", help="the context")
    add("--candidate-items", action=Columns, metavar="COLUMN", help="the list of items")
    add("--candidate-item", metavar="COLUMN", help="the item, of scores and marginals")
    add("--candidate-position", metavar="COLUMN", help="the position, of marginals")
    add("--candidate-where", metavar="SQL", help="which of its rows count")
    add("--probability", metavar="COLUMN", help="of lists and marginals (default: probability)")
    add("--score", metavar="COLUMN", help="items are ranked by it (default: score)")
    add(
        "--temperature",
        type=float,
        metavar="T",
        help="draw items by exp(score / T), Plackett–Luce, instead of ranking them",
    )
    add("--k", type=count, metavar="K", help="how many items a list of scored items shows")
    return parent


def _question() -> _Parser:
    parent = _Parser()
    add = parent.add_argument_group(
        "question", "Several values: by commas, or by repeating the option."
    ).add_argument
    add(
        "-m",
        "--metric",
        dest="metrics",
        **_several(names),
        metavar="METRIC",
        help="clicks@K, dcg@K, success@K, mrr@K, REWARD@K, ctr@K, or a ratio of two such as "
        "REWARD@K/clicks@K (default: clicks@3,dcg@10)",
    )
    add(
        "-e",
        "--estimator",
        dest="estimators",
        **_several(names),
        metavar="NAME",
        help="ladder, ladder-prefix, ladder-ip, list, prefix, ip, item, pbm, rctr or rcm; of "
        "evaluate also all (default: ladder and ip)",
    )
    return parent


def _item_table() -> _Parser:
    parent = _Parser()
    parent.add_argument_group("question").add_argument(
        "--item-table",
        metavar="FILE",
        help="features of items, for ladders: columns item, perhaps context, and numbers",
    )
    return parent


def _uncertainty() -> _Parser:
    parent = _Parser()
    add = parent.add_argument_group("uncertainty").add_argument
    add("--confidence", type=float, metavar="SHARE", help="of the intervals (default: 0.95)")
    add(
        "--clusters",
        choices=("auto", "period", "unit", "record"),
        metavar="WHOSE",
        help="records that vary together: auto (default), period, unit, record",
    )
    return parent


def _practical() -> _Parser:
    parent = _Parser()
    add = parent.add_argument_group("uncertainty").add_argument
    add("--practical", type=float, metavar="CHANGE", help="the smallest change worth having")
    return parent


def _guardrails() -> _Parser:
    parent = _Parser()
    add = parent.add_argument_group("uncertainty").add_argument
    add(
        "--guardrail",
        type=guardrail,
        action="append",
        dest="guardrails",
        metavar="METRIC=SHARE",
        help="a metric that must not fall, and the share it may lose: orders@3=1%%",
    )
    return parent


def _interval() -> _Parser:
    parent = _Parser()
    add = parent.add_argument_group("uncertainty").add_argument
    add(
        "--interval",
        choices=("sampling", "anytime", "bernstein", "hoeffding"),
        metavar="KIND",
        help="sampling (default); anytime, for a log that is looked at as it grows; bernstein, "
        "hoeffding: guarantees, with --logging propensity and --clip",
    )
    add(
        "--backtest",
        action="store_true",
        help="let the verdict allow for how far off the estimator is in a backtest of the log",
    )
    return parent


def _exploring() -> _Parser:
    parent = _Parser()
    add = parent.add_argument_group("question").add_argument
    add("-m", "--metric", metavar="METRIC", help="clicks@K, dcg@K, REWARD@K (default: clicks@3)")
    add(
        "--effect",
        type=above_zero,
        metavar="SHARE",
        help="the change to be told from none, of production (default: 0.02)",
    )
    add("--share", type=above_zero, metavar="SHARE", help="of all traffic (default: 0.1)")
    add("--days", type=above_zero, metavar="N", help="how long it may take")
    add("--power", type=above_zero, metavar="SHARE", help="how often it is told (default: 0.8)")
    add("--most", type=above_zero, metavar="SHARE", help="of a single context (default: 0.5)")
    add(
        "--records-per-day",
        type=above_zero,
        metavar="N",
        help="of all contexts (default: those of the log over its periods)",
    )
    add("--rows", type=count, metavar="N", help="contexts that are named (default: 10)")
    add("--confidence", type=float, metavar="SHARE", help="of the interval (default: 0.95)")
    parent.add_argument_group("output").add_argument(
        "-o", "--out", metavar="FILE", help="where the policy to show goes, .parquet or .csv"
    )
    return parent


def _cap() -> _Parser:
    parent = _Parser()
    add = parent.add_argument_group("uncertainty").add_argument
    add("--cap", type=float, metavar="RATE", help="highest click rate of what was never shown")
    return parent


def _split() -> _Parser:
    parent = _Parser()
    add = parent.add_argument_group("question").add_argument
    add("--by", **_several(names), metavar="SEGMENT", help="split by a segment, or by period")
    return parent


def _missing(*rules: str) -> _Parser:
    parent = _Parser()
    add = parent.add_argument_group("question").add_argument
    add(
        "--missing",
        choices=rules,
        metavar="RULE",
        help=f"contexts the candidate lacks: {rules[0]} (default), {', '.join(rules[1:])}",
    )
    return parent


def _clip() -> _Parser:
    parent = _Parser()
    add = parent.add_argument_group("question").add_argument
    add(
        "--clip",
        **_several(clips),
        metavar="M",
        help="cut weights off at M; several to see each, 1..1000 for twenty between and inf "
        "(default: inf)",
    )
    return parent


def _logging() -> _Parser:
    parent = _Parser()
    add = parent.add_argument_group("question").add_argument
    add(
        "--logging",
        choices=("frequency", "propensity"),
        metavar="SOURCE",
        help="weigh by frequency or propensity (default: what suits the log)",
    )
    return parent


def _protocol() -> _Parser:
    parent = _Parser()
    group = parent.add_argument_group(
        "protocol", "Each period is held out and predicted from the others; so --period is needed."
    )
    add = group.add_argument
    add(
        "--ranks",
        type=ranks,
        metavar="N|N-N",
        help="only the most frequent contexts: 100, or 101-1000 for those after them",
    )
    add(
        "--min-records",
        type=amount,
        metavar="N",
        help="only contexts with at least so many records",
    )
    add(
        "--min-held",
        type=amount,
        metavar="N",
        help="judge a context in a period only with at least so many records there",
    )
    add("--block", type=count, metavar="N", help="hold out N periods at once, such as 7 days")
    add(
        "--forward",
        action="store_true",
        default=None,
        help="predict a period from earlier ones only",
    )
    add(
        "--count-by",
        choices=("pairs", "records"),
        metavar="pairs|records",
        help="every context and period counts alike (default), or by its records",
    )
    return parent


def _places() -> _Parser:
    parent = _Parser()
    add = parent.add_argument_group("question").add_argument
    add("--depth", type=count, metavar="K", help="down to which position (default: all)")
    add(
        "--slots",
        **_several(names),
        metavar="LABEL,LABEL,…",
        help="a label for each position; those with the same one are looked at alike",
    )
    add(
        "--within",
        choices=("auto", "context", "period"),
        metavar="auto|context|period",
        help="which moves of an item count: all within a context, or within a period of it",
    )
    add("--of", metavar="REWARD", help="what is counted as a click (default: clicks)")
    return parent


def _grades() -> _Parser:
    parent = _Parser()
    add = parent.add_argument_group("question").add_argument
    add(
        "--examination",
        **_several(curve),
        metavar="P,P,…",
        help="how much each position is examined (default: learnt from items that moved)",
    )
    add(
        "--max-error",
        type=above_zero,
        metavar="GRADES",
        help="how many grades an item with a grade may be off (default: 1)",
    )
    add("--of", metavar="REWARD", help="what is counted as a click (default: clicks)")
    add(
        "-o",
        "--out",
        required=True,
        metavar="FILE",
        help="where they go: .qrels (TREC), .json (OpenSearch), .csv (Quepid), .parquet (all)",
    )
    add(
        "--file-format",
        choices=FORMATS,
        metavar="|".join(FORMATS),
        help="of the file (default: by its ending)",
    )
    return parent


def _choice() -> _Parser:
    """By what a policy is the best."""
    parent = _Parser()
    add = parent.add_argument_group("question").add_argument
    add("-m", "--metric", metavar="METRIC", help="clicks@K, dcg@K, REWARD@K (default: dcg@10)")
    add(
        "-e",
        "--estimator",
        metavar="NAME",
        help="ladder-ip (default), ip, item, pbm, list or prefix",
    )
    add("--clip", type=above_zero, metavar="M", help="of the paper's estimators (default: none)")
    add(
        "--pessimism",
        type=from_zero,
        metavar="N",
        help="by how many standard errors click rates are lowered (default: 1)",
    )
    add(
        "--no-fallback",
        dest="fallback",
        action="store_const",
        const=False,
        help="a new policy also where none is sure to be better than production",
    )
    return parent


def _constraints() -> _Parser:
    parent = _Parser()
    add = parent.add_argument_group(
        "constraints",
        "Columns of files are called context, item, position, items; or as in the log.",
    ).add_argument
    add(
        "--max-change",
        type=float,
        metavar="SHARE",
        help="how much of a list may change, such as 0.2",
    )
    add(
        "--explore",
        type=float,
        metavar="SHARE",
        help="how often production's own list is shown instead, such as 0.05",
    )
    add(
        "--min-shown",
        type=amount,
        metavar="N",
        help="show only what was shown so often before, at that position",
    )
    add("--pinned", metavar="FILE", help="context, item, position: what must be where")
    add("--banned", metavar="FILE", help="item: what must not be shown; or context and item")
    add("--ban", **_several(names), metavar="ITEM", help="the same, here; by commas or repeated")
    add(
        "--at-least",
        action="append",
        type=least,
        metavar="FILE=SHARE",
        help="item: those which together get so much of all slots, new.csv=0.1; repeatable",
    )
    add(
        "--lists",
        metavar="logged|FILE",
        help="choose from the lists of the log, or from those of a file: context, items",
    )
    add("--max-lists", type=count, metavar="N", help="how many lists a context has at most")
    add("--deterministic", action="store_const", const=True, help="one list a context")
    return parent


def _judgement() -> _Parser:
    parent = _Parser()
    add = parent.add_argument_group(
        "judgement", "A policy is judged by records that had no say in choosing it."
    ).add_argument
    add("--judge", metavar="NAME", help="the estimator that judges (default: ladder)")
    add(
        "--folds",
        type=count,
        metavar="N",
        help="in how many parts the records are; 1: no judgement (default: 5)",
    )
    add("--confidence", type=float, metavar="SHARE", help="of the intervals (default: 0.95)")
    return parent


def _policy_file() -> _Parser:
    parent = _Parser()
    add = parent.add_argument_group("output").add_argument
    add(
        "-o",
        "--out",
        required=True,
        metavar="FILE",
        help="where the policy goes, .parquet or .csv; `evaluate` reads it as a CANDIDATE",
    )
    add(
        "--contexts",
        metavar="FILE",
        help="also what every context earns, would earn, and why it stays as it is",
    )
    add("--workers", type=count, metavar="N", help="processes that search (default: a core each)")
    return parent


def _picture() -> _Parser:
    parent = _Parser()
    add = parent.add_argument_group("output").add_argument
    add(
        "--chart",
        metavar="FILE",
        help="also draw it, to a .png, .svg or .pdf (needs foreclick[charts])",
    )
    return parent


def _destination() -> _Parser:
    parent = _Parser()
    one = parent.add_argument_group("output").add_mutually_exclusive_group(required=True)
    one.add_argument("-o", "--output", metavar="FILE", help="the Parquet file to write")
    one.add_argument(
        "--into",
        metavar="DIRECTORY",
        help="a tally for each file of LOG, or for each period of a single one; a run that was "
        "stopped goes on where it was",
    )
    return parent


def _output(*, engine: bool) -> _Parser:
    """Options of every command; `engine`: also those of the engine that answers."""
    parent = _Parser()
    add = parent.add_argument_group("output").add_argument
    add(
        "--format",
        choices=("answer", "table", "json", "csv"),
        default="answer",
        metavar="answer|table|json|csv",
        help="how to print it (default: answer)",
    )
    if engine:
        add(
            "--memory-limit",
            type=size,
            metavar="SIZE",
            help="of the engine, such as 2GB; beyond it, disk",
        )
        add("--threads", type=count, metavar="N", help="of the engine (default: all)")
    add("-h", "--help", action="help", help="show this help")
    return parent


def _several(parse: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"action": "extend", "type": parse}


def _nothing(role: str) -> dict[str, Any]:
    """Settings of a flag that says that no column plays the role: the empty name."""
    return {"dest": role, "action": "store_const", "const": ""}


def _version() -> str:
    try:
        return importlib.metadata.version("foreclick")
    except importlib.metadata.PackageNotFoundError:  # run from a source tree
        return foreclick.__version__
