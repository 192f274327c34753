"""Writes tables of the documentation from results/*.json: `python -m benchmarks evidence`.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`; the entry of that name in `TABLES`
has its headings, a template of its rows, and where these are found in the results of studies. Under
it stands what made them: the command, the commit, and how many commits have changed the estimators
since. The last number ages with every commit, so tests leave it out (tests/test_evidence.py); a
release renders it anew.
"""

from __future__ import annotations

import json
import re
import string
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.study import RESULTS, Row

DOCS = Path(__file__).parents[1] / "docs"
PAGES = (DOCS / "evidence.md", DOCS / "howto" / "large.md")
ESTIMATORS = ("ladder", "estimation", "estimators", "weighting", "run", "curves", "questions")
"""The packages whose changes make a figure old; `estimators` held some of them before."""


class Results:
    """The runs of all studies, and which of them a table has used."""

    def __init__(self, folder: Path = RESULTS) -> None:
        self.runs = {file.stem: json.loads(file.read_text()) for file in folder.glob("*.json")}
        self.used: list[dict[str, Any]] = []

    def rows(self, study: str, **key: Any) -> list[Row]:
        """The rows that have these values, of the latest run that has any."""
        for run in reversed(self.runs[study]):
            found = [row for row in run["rows"] if key.items() <= row.items()]
            if found:
                self.used += [] if run in self.used else [run]
                return found
        raise LookupError(f"results/{study}.json has no row with {key}")

    def row(self, study: str, **key: Any) -> Row:
        """The only such row, or the last."""
        return self.rows(study, **key)[-1]


# --- how numbers are printed ----------------------------------------------------------------------

FORMATS: dict[str, Callable[[Any], str]] = {
    "points": lambda share: f"{100 * share:+.1f}" if abs(share) > 5e-4 else "0.0",
    "percent": lambda share: f"{100 * share:.1f}",
    "whole": lambda share: f"{share:.1%}".replace(".0%", "%"),
    "count": lambda n: "–" if n is None else f"{n:,}" if isinstance(n, int) else n,
    "thirds": lambda value: f"{value:.3f}".removeprefix("0"),
}
"""Of shares: points with their sign, points, and percent; of counts, and of numbers below 1."""


class Template(string.Formatter):
    """Templates with these formats, which may have a goal: "percent<=.02" is bold if missed."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """A value in its format."""
        name, sign, goal = (*re.split(r"([<>])=", format_spec), "", "")[:3]
        own = FORMATS[name](value) if name in FORMATS else super().format_field(value, name)
        met = not goal or (value <= float(goal) if sign == "<" else value >= float(goal))
        return own if met else f"**{own}**"


class Table(NamedTuple):
    """Headings, a template of each row (if it is not ready), and where rows come from."""

    heads: str
    template: str
    rows: Callable[[Results], Iterable[Row | tuple[Any, ...]]]

    def lines(self, of: Results) -> Iterator[str]:
        """The table as Markdown."""
        columns = len(self.heads.split("|"))
        yield f"| {self.heads} |\n" + "|---" * columns + "|"
        for row in self.rows(of):
            yield f"| {filled(self.template or ' | '.join(['{}'] * columns), row)} |"


def filled(template: str, row: Row | tuple[Any, ...]) -> str:
    """A template with the values of a row, by name or in turn."""
    return Template().vformat(template, *((row, {}) if isinstance(row, tuple) else ((), row)))


def added(rows: Sequence[Row], name: str) -> int:
    """The sum of a column."""
    return sum(row[name] for row in rows)


# --- tables ---------------------------------------------------------------------------------------

SHOP = {
    "shop": ("ordinary shop, 5,000 queries", 0.8),
    "dbn": ("users stop reading at a good result (dbn)", 0.8),
    "head": ("500 queries (head)", 3),
    "tail": ("50,000 queries (tail)", 0.8),
    "flat": ("traffic spread more evenly (flat)", 0.8),
    "steep": ("traffic on fewer queries (steep)", 3),
    "small": ("50,000 lists (small)", 1.5),
    "deep pool": ("200 items a query (deep pool)", 1.5),
    "no nights": ("not retrained at night", 1.5),
    "one ranker": ("one ranker", 1.5),
    "eight rankers": ("eight rankers", 0.8),
    "users differ": ("users differ", 0.8),
    "feedback .25": ("feedback .25", 1.3),
    "feedback .5": ("feedback .5", 1.3),
    "feedback 1": ("feedback 1", 1.3),
    "feedback, dbn": ("feedback, dbn", 1.3),
    "personal": ("a context of its own for every record (personal)", 3),
    "alien, as good": ("items production cannot show, as good", None),
    "alien, worse": ("the same, worse", None),
    "alien, better": ("the same, better", None),
    "leaky": (
        "candidate trained on the log, with `trained_until=` (its lift after that day)",
        None,
    ),
    "leaky, untold": ("candidate trained on the log, without it", None),
}
"""What a regime is called, and the goal of its RMSE, in points."""

WORLDS = {
    "pbm": "position-based",
    "mnl": "choose one item of the list",
    "trust": "click at the top whatever stands there",
    "kinds": "of three kinds, by query",
    "grid": "position-based, in a grid",
    "devices": "half of them on phones",
    "abandon": "give up, sooner after a click",
    "twice": "stop after the second click",
    "ubm": "look further after a click",
}

CLICKS = {
    "PBM": "position-based",
    "DBN": "dynamic Bayesian",
    "Cascade": "cascade",
    "DCM": "dependent clicks",
}


def exam(of: Results) -> Iterator[tuple[Any, ...]]:
    """What was found, and the goals."""
    found = of.row("exam", estimator="ladder")
    template = "{rmse:percent<=.02} | {held:whole} | {wrong:whole} | {right:whole}"
    yield ("found", *filled(template, found).split(" | "))
    yield ("goal", "2", "88%", "3%", "")


def null(of: Results) -> Iterator[tuple[Any, ...]]:
    """Verdicts by kind of candidate, of both ways to ask."""
    for world, label in CLICKS.items():
        rows = [of.row("headline-null", lift=0.0, world=world, asked=a) for a in ("default", "ip")]
        said = (f"better {row['better']}, worse {row['worse']}" for row in rows)
        yield ("worth the same", label, rows[0]["logs"], *said)
    rows = of.rows("headline-segments")
    told = f"better or worse in any: {added(rows, 'logs with a verdict')}"
    what = "worth the same, in 20 meaningless segments"
    yield (what, "all four", added(rows, "logs"), told, "")
    sides = [of.rows("headline-null", lift=0.05, asked=asked) for asked in ("default", "ip")]
    better = (f"better in {added(rows, 'better')}" for rows in sides)
    yield ("worth 5 % more", "all four", added(sides[0], "logs"), *better)
    sides = [of.rows("headline-unseen", estimator=e) for e in ("ladder", "ip")]
    ladder, ip = (added(rows, "false verdicts") for rows in sides)
    what, told = "items that were never shown", f"{ladder} false verdicts"
    yield (what, "position-based", added(sides[0], "logs"), told, ip)
    sides = [of.rows("headline-order", estimator=e) for e in ("ladder", "ip")]
    misses = [[100 * (1 - row["held"]) for row in rows] for rows in sides]
    spans = [f"{min(mine):.2g} to {max(mine):.2g} %" for mine in misses]
    what, logs = "the same items in another order, six kinds of logs", f"6 × {sides[0][0]['logs']}"
    yield (what, "flat or position-based", logs, f"intervals miss in {spans[0]}", spans[1])


def dense(of: Results) -> Iterator[Row]:
    """Errors and coverage by world."""
    odd = {"ItemPosition": "item and position, no pattern", "ListSpecific": "a rate for each list"}
    for world in ("DBN", "Cascade", "DCM", "PBM", *odd):
        accuracy = of.row("ladder-accuracy", world=world)
        coverage = of.row("ladder-coverage", world=world, candidate="last day")
        yield {"label": odd.get(world, world)} | accuracy | coverage


def single(of: Results) -> Iterator[tuple[Any, ...]]:
    """The least and the largest coverage of each estimator of the paper."""
    for records, least, most in ((1_000, 0.89, 1.0), (10_000, 0.925, 0.975)):
        names = ("list", "prefix", "ip", "item", "pbm")
        rows = [of.row("coverage-single", records=records, estimator=name) for name in names]
        spans = (f"{100 * row['lowest']:.1f}–{row['highest']:.1%}" for row in rows)
        met = all(least <= row["lowest"] and row["highest"] <= most for row in rows)
        goal = f"{least:.1%} to {most:.1%}: {'met' if met else 'missed'}"
        yield (f"{records:,}", *spans, goal if met else f"**{goal}**")


def rewards(of: Results) -> Iterator[Row]:
    """The answers of both candidates, by regime and metric."""
    for regime in ("prices: clicks@3", "prices: orders@3", "prices: revenue@3", "bids: revenue@3"):
        found = {name: of.row("shop", regime=f"{regime}, {name}") for name in ("dear", "better")}
        both = {n: row | {"hits": row["held"] * row["answers"]} for n, row in found.items()}
        yield {"label": regime.removeprefix("prices: ")} | both


ASKED = [(log, m) for log in ("Yandex", "Naver") for m in ("clicks@2", "clicks@3", "dcg@10")]


def real(of: Results) -> Iterator[tuple[Any, ...]]:
    """The least error of some estimators, by log and metric."""
    for label, names, what in (
        ("`ip`", ["ip"], "rmse"),
        ("best of the paper's others", ["list", "prefix", "item", "pbm", "rctr"], "rmse"),
        ("`ladder`", ["ladder"], "rmse"),
        ("*floor*", ["ip"], "floor"),
    ):
        asked = ([of.row("real", log=o, metric=m, estimator=e) for e in names] for o, m in ASKED)
        yield (label, *(min(row[what] for row in rows) for rows in asked))


def scale(of: Results) -> Iterator[tuple[str, str]]:
    """What steps cost, and what drawing costs an answer."""
    cost = "{cpu:.0f} CPU s, {peak:.1f} GB"
    drawn = "off by {offset:.2f} half-widths, width {wider:.2f} ×, held {held:whole}"
    beside = cost + ", {beside:.1f} × SQL that counts queries by day"
    spark = "10 million lists, a million drawn, two Spark workers beside Spark SQL by hand"
    raw = "the paper from a raw file of 20 million lines in Kaggle's format"
    found = of.row("perf", log="shop, 1,000,000", step="report")
    yield ("a report of a million lists (goal 20)", filled("**{cpu:.0f}** CPU s", found))
    for regime, label in (("shop", "ordinary"), ("dbn", "dbn")):
        what = f"a million drawn from logs of 3 million lists, {label} shops"
        yield (what, filled(drawn, of.row("drawing", regime=regime)))
    for what, log, step, template in (
        (spark, "spark, 10,000,000", "drawn", "{cpu:.2f} × CPU, {clock:.2f} × clock"),
        ("1,000,000 queries that never repeat", "unique, 1,000,000", "first", cost),
        ("300 candidates in `compare`", "repeating, 50,000", "compare", cost),
        (raw, "raw, 20,000,000", "reproduce", beside),
    ):
        yield (what, filled(template, of.row("perf", log=log, step=step)))


def sizes(of: Results) -> Iterator[tuple[Any, ...]]:
    """CPU seconds by the size of a log, and the peak of memory."""
    labels = {
        "200,000": "200,000, all read",
        "1,000,000": "1 million, all read",
        "10,000,000": "10 million, 1 million drawn",
        "167,000,000": "167 million, 1 million drawn",
    }
    for size, label in labels.items():
        steps = ("engine", "tally", "first", "next")
        rows = [of.row("perf", log=f"shop, {size}", step=step) for step in steps]
        yield (label, *(row["cpu"] for row in rows), rows[-1]["peak"])


USERS = {"pbm": "PBM", "dbn": "DBN", "cascade": "cascade", "ip": "IP"}
SHOPS = {"shop": "ordinary", "head": "500 queries", "small": "50,000 lists"}

TABLES = {
    "shop": Table(
        "regime | bias | RMSE | goal | held | width | right | wrong",
        "{label} | {bias:points} | {rmse:percent<={most}} | {goal} | {held:whole>=.9} | "
        "{width:percent} | {right:whole} | {wrong:whole}",
        lambda of: (
            of.row("shop", regime=regime, estimator="ladder")
            | {"label": label, "goal": goal or "–", "most": (goal or 100) / 100}
            for regime, (label, goal) in SHOP.items()
        ),
    ),
    "exam": Table(" | RMSE, points | held | wrong | right", "", exam),
    "worlds": Table(
        "readers | answers | bias | RMSE | held | width | right | wrong",
        "{label} | {answers} | {bias:points} | {rmse:percent} | {held:whole>=.92} | "
        "{width:percent} | {right:whole} | {wrong:whole}",
        lambda of: (of.row("worlds", world=w) | {"label": label} for w, label in WORLDS.items()),
    ),
    "replay": Table(
        "estimator | metric | difference holds 0 | prediction holds truth | bias | RMSE | width | "
        "right | wrong",
        "`{estimator}` | {metric} | {difference holds 0:whole} | {held:whole} | {bias:+.2%} | "
        "{rmse:.2%} | {width:.1%} | {right:.0%} of {of} | {wrong:.1%}",
        lambda of: of.rows("replay", **{"from": "control", "feedback": "all"}),
    ),
    "null": Table("candidate | users | logs | ladder, checked by `ip` | `ip` alone", "", null),
    "dense": Table(
        "users click by | ladder's RMSE / that of `ip` | held",
        "{label} | {ladder / ip:.3f} | {holds V(h):.1%}",
        dense,
    ),
    "single": Table("records | `list` | `prefix` | `ip` | `item` | `pbm` | goal", "", single),
    "rewards": Table(
        "points of lift | dear: bias | dear: held | dear: width | "
        "better: bias | better: held | better: width",
        "{label} | {dear[bias]:points} | {dear[hits]:.0f} of {dear[answers]} | "
        "{dear[width]:percent} | {better[bias]:points} | {better[hits]:.0f} of {better[answers]} | "
        "{better[width]:percent}",
        rewards,
    ),
    "real": Table(
        " | ".join(["estimator", *(f"{log}: {metric}" for log, metric in ASKED)]),
        " | ".join(["{}", *["{:thirds}"] * len(ASKED)]),
        real,
    ),
    "optimize": Table(
        "production | users | gap closed | queries made worse | promise − truth | honest − truth",
        "{production} | {users} | {gap closed:.2f} | {made worse:.1%} | {naive − true:+.3f} | "
        "{honest − true:+.3f}",
        lambda of: (
            row | {"users": USERS[row["world"]]}
            for row in of.rows("optimize", policy="ladder − 1 se")
        ),
    ),
    "optimize_shop": Table(
        "shop | claimed | by the estimate that chose | true",
        "{label} | {claimed:+.1%} ({low:+.1%} to {high:+.1%}) | {naive:+.1%} | {true:+.1%}",
        lambda of: (
            row | {"label": SHOPS.get(row["regime"], row["regime"])}
            for row in of.rows("optimize-shop")
        ),
    ),
    "scale": Table("what | found", "", scale),
    "sizes": Table(
        "lists | the engine's own GROUP BY | tally | first answer | next candidate | peak",
        "{} | {:.3g} | {:.3g} | {:.3g} | {:.3g} | {:.1f} GB",
        sizes,
    ),
    "engines": Table(
        "engine | random logs | differences",
        "{engine} | {logs:count} | {differences:count}",
        lambda of: of.rows("engines"),
    ),
    "tests": Table(
        "what | figure",
        "{what} | {figure}",
        lambda of: (of.row("tests", what=run["rows"][0]["what"]) for run in of.runs["tests"]),
    ),
}


# --- the page -------------------------------------------------------------------------------------


def age(commit: str) -> str:
    """How many commits have changed the estimators since, where git knows."""
    paths = (f"src/foreclick/{package}" for package in ESTIMATORS)
    found = subprocess.run(
        ["git", "rev-list", "--count", f"{commit}..HEAD", "--", *paths],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
        cwd=DOCS.parent,
    )
    return f"{found.stdout.strip()} changes ago" if found.returncode == 0 else "? changes ago"


def made_by(runs: Sequence[dict[str, Any]]) -> str:
    """What made the rows of a table, by commit; long lists of values are left out."""
    commands: dict[str, list[str]] = {}
    for run in runs:
        short = re.sub(r"(--\w+) (?!-)[^-]{30,}?(?= --|$)", r"\1 …", run["command"])
        mine = commands.setdefault(run["commit"], [])
        mine.append(f"`{short}`")
    each = (f"{', '.join(mine)} at {commit}, {age(commit)}" for commit, mine in commands.items())
    return f"Made by {'; '.join(each)}."


def rendered(page: str) -> str:
    """The page with all tables anew."""

    def anew(marked: re.Match[str]) -> str:
        results = Results()
        rows = "\n".join(TABLES[marked["name"]].lines(results))
        return (
            f"<!-- table: {marked['name']} -->\n\n{rows}\n\n{made_by(results.used)}\n\n<!-- end -->"
        )

    return re.sub(r"<!-- table: (?P<name>\w+) -->.*?<!-- end -->", anew, page, flags=re.DOTALL)


def main(_: Sequence[str] = ()) -> None:
    """Write the pages."""
    for page in PAGES:
        page.write_text(rendered(page.read_text()))
