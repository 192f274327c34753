"""Writes tables of the documentation from results/*.json: `python -m benchmarks evidence`.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`; the function of that name below
renders it, from rows that it looks up in the results of studies. Under it stands what made them:
the command, the commit, and how many commits have changed the estimators since. The last number
ages with every commit, so tests leave it out (tests/test_evidence.py); a release renders it anew.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

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


def line(*cells: str) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"


def head(*cells: str) -> str:
    """The first two rows."""
    return line(*cells) + "\n" + "|---" * len(cells) + "|"


def table(columns: dict[str, str], rows: Iterable[Row]) -> Iterator[str]:
    """A line for each row; columns are templates with the names of its values."""
    yield head(*columns)
    for row in rows:
        yield line(*(cell.format_map(row) for cell in columns.values()))


def added(rows: Sequence[Row], name: str) -> int:
    """The sum of a column."""
    return sum(row[name] for row in rows)


def points(share: float) -> str:
    """A share in points, with its sign."""
    return f"{100 * share:+.1f}" if abs(share) > 5e-4 else "0.0"


def whole(share: float) -> str:
    """A share in whole percent, or with one digit if that says more."""
    return f"{share:.0%}" if abs(100 * share - round(100 * share)) < 0.05 else f"{share:.1%}"


def missed(text: str, *, unless: bool) -> str:
    """Bold where a goal was missed."""
    return text if unless else f"**{text}**"


def measured(row: Row, goal: float | None, least: float) -> tuple[str, str, str, str]:
    """Bias, RMSE and width in points, and how often intervals held; bold where a goal is missed."""
    return (
        points(row["bias"]),
        missed(f"{100 * row['rmse']:.1f}", unless=100 * row["rmse"] <= (goal or 100)),
        missed(whole(row["held"]), unless=row["held"] >= least),
        f"{100 * row['width']:.1f}",
    )


def thirds(value: float) -> str:
    """Three digits, without the zero."""
    return f"{value:.3f}".removeprefix("0")


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


def shop(of: Results) -> Iterator[str]:
    yield head("regime", "bias", "RMSE", "goal", "held", "width", "right", "wrong")
    for regime, (label, goal) in SHOP.items():
        row = of.row("shop", regime=regime, estimator="ladder")
        bias, rmse, *rest = measured(row, goal, 0.9)
        rest += [whole(row["right"]), whole(row["wrong"])]
        yield line(label, bias, rmse, f"{goal or '–'}", *rest)


def exam(of: Results) -> Iterator[str]:
    row = of.row("exam", estimator="ladder")
    yield head("", "RMSE, points", "held", "wrong", "right")
    yield line(
        "found",
        missed(f"{100 * row['rmse']:.1f}", unless=row["rmse"] <= 0.02),
        *(whole(row[name]) for name in ("held", "wrong", "right")),
    )
    yield line("goal", "2", "88%", "3%", "")


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


def worlds(of: Results) -> Iterator[str]:
    yield head("readers", "answers", "bias", "RMSE", "held", "width", "right", "wrong")
    for world, label in WORLDS.items():
        row = of.row("worlds", world=world)
        told = (whole(row[name]) for name in ("right", "wrong"))
        yield line(label, f"{row['answers']}", *measured(row, None, 0.92), *told)


def replay(of: Results) -> Iterator[str]:
    columns = {
        "estimator": "`{estimator}`",
        "metric": "{metric}",
        "difference holds 0": "{holds}",
        "prediction holds truth": "{held}",
        "bias": "{bias:+.2%}",
        "RMSE": "{rmse:.2%}",
        "width": "{width:.1%}",
        "right": "{right:.0%} of {of}",
        "wrong": "{wrong:.1%}",
    }
    rows = of.rows("replay", **{"from": "control", "feedback": "all"})
    shares = (("holds", "difference holds 0"), ("held", "held"))
    yield from table(columns, [r | {n: whole(r[c]) for n, c in shares} for r in rows])


CLICKS = {
    "PBM": "position-based",
    "DBN": "dynamic Bayesian",
    "Cascade": "cascade",
    "DCM": "dependent clicks",
}


def null(of: Results) -> Iterator[str]:
    yield head("candidate", "users", "logs", "ladder, checked by `ip`", "`ip` alone")
    for world, label in CLICKS.items():
        rows = [of.row("headline-null", lift=0.0, world=world, asked=a) for a in ("default", "ip")]
        said = (f"better {row['better']}, worse {row['worse']}" for row in rows)
        yield line("worth the same", label, f"{rows[0]['logs']}", *said)
    segments = of.rows("headline-segments")
    told = f"better or worse in any: {added(segments, 'logs with a verdict')}"
    what = "worth the same, in 20 meaningless segments"
    yield line(what, "all four", f"{added(segments, 'logs')}", told, "")
    sides = [of.rows("headline-null", lift=0.05, asked=asked) for asked in ("default", "ip")]
    better = (f"better in {added(rows, 'better')}" for rows in sides)
    yield line("worth 5 % more", "all four", f"{added(sides[0], 'logs')}", *better)
    unseen = [of.rows("headline-unseen", estimator=e) for e in ("ladder", "ip")]
    false = [f"{added(rows, 'false verdicts')}" for rows in unseen]
    false[0] += " false verdicts"
    logs = f"{added(unseen[0], 'logs')}"
    yield line("items that were never shown", "position-based", logs, *false)
    orders = [of.rows("headline-order", estimator=e) for e in ("ladder", "ip")]
    misses = [[100 * (1 - row["held"]) for row in rows] for rows in orders]
    spans = [f"{min(mine):.2g} to {max(mine):.2g} %" for mine in misses]
    what, logs = "the same items in another order, six kinds of logs", f"6 × {orders[0][0]['logs']}"
    yield line(what, "flat or position-based", logs, f"intervals miss in {spans[0]}", spans[1])


def dense(of: Results) -> Iterator[str]:
    odd = {"ItemPosition": "item and position, no pattern", "ListSpecific": "a rate for each list"}
    columns = {
        "users click by": "{label}",
        "ladder's RMSE / that of `ip`": "{ladder / ip:.3f}",
        "held": "{holds V(h):.1%}",
    }
    rows = [
        {"label": odd.get(world, world)}
        | of.row("ladder-accuracy", world=world)
        | of.row("ladder-coverage", world=world, candidate="last day")
        for world in ("DBN", "Cascade", "DCM", "PBM", *odd)
    ]
    yield from table(columns, rows)


def single(of: Results) -> Iterator[str]:
    names = ("list", "prefix", "ip", "item", "pbm")
    yield head("records", *(f"`{name}`" for name in names), "goal")
    for records, least, most in ((1_000, 0.89, 1.0), (10_000, 0.925, 0.975)):
        rows = [of.row("coverage-single", records=records, estimator=name) for name in names]
        spans = (f"{100 * row['lowest']:.1f}–{row['highest']:.1%}" for row in rows)
        met = all(least <= row["lowest"] and row["highest"] <= most for row in rows)
        goal = f"{least:.1%} to {most:.1%}: {'met' if met else 'missed'}"
        yield line(f"{records:,}", *spans, missed(goal, unless=met))


def rewards(of: Results) -> Iterator[str]:
    both = ("dear", "better")
    yield head("points of lift", *(f"{c}: {s}" for c in both for s in ("bias", "held", "width")))
    for regime in ("prices: clicks@3", "prices: orders@3", "prices: revenue@3", "bids: revenue@3"):
        cells = []
        for row in (of.row("shop", regime=f"{regime}, {name}") for name in both):
            held = f"{row['held'] * row['answers']:.0f} of {row['answers']}"
            cells += [points(row["bias"]), held, f"{100 * row['width']:.1f}"]
        yield line(regime.removeprefix("prices: "), *cells)


def real(of: Results) -> Iterator[str]:
    metrics = ("clicks@2", "clicks@3", "dcg@10")
    asked = [(log, metric) for log in ("Yandex", "Naver") for metric in metrics]
    labels = {
        "`ip`": ("ip",),
        "best of the paper's others": ("list", "prefix", "item", "pbm", "rctr"),
        "`ladder`": ("ladder",),
    }
    yield head("estimator", *(f"{log}: {metric}" for log, metric in asked))
    for label, names in labels.items():
        found = (
            [of.row("real", log=log, metric=m, estimator=e) for e in names] for log, m in asked
        )
        yield line(label, *(thirds(min(row["rmse"] for row in rows)) for rows in found))
    rows = [of.row("real", log=log, metric=metric, estimator="ip") for log, metric in asked]
    yield line("*floor*", *(thirds(row["floor"]) for row in rows))


def optimize(of: Results) -> Iterator[str]:
    columns = {
        "production": "{production}",
        "users": "{users}",
        "gap closed": "{gap closed:.2f}",
        "queries made worse": "{made worse:.1%}",
        "promise − truth": "{naive − true:+.3f}",
        "honest − truth": "{honest − true:+.3f}",
    }
    rows = of.rows("optimize", policy="ladder − 1 se")
    names = [str(row["world"]) for row in rows]
    users = [name if name == "cascade" else name.upper() for name in names]
    yield from table(columns, [r | {"users": u} for r, u in zip(rows, users, strict=True)])


def optimize_shop(of: Results) -> Iterator[str]:
    labels = {"shop": "ordinary", "head": "500 queries", "small": "50,000 lists"}
    columns = {
        "shop": "{label}",
        "claimed": "{claimed:+.1%} ({low:+.1%} to {high:+.1%})",
        "by the estimate that chose": "{naive:+.1%}",
        "true": "{true:+.1%}",
    }
    rows = of.rows("optimize-shop")
    yield from table(columns, [r | {"label": labels.get(r["regime"], r["regime"])} for r in rows])


def scale(of: Results) -> Iterator[str]:
    yield head("what", "found")
    report = of.row("perf", log="shop, 1,000,000", step="report")
    yield line("a report of a million lists (goal 20)", f"**{report['cpu']:.0f}** CPU s")
    for regime, label in (("shop", "ordinary"), ("dbn", "dbn")):
        row = of.row("drawing", regime=regime)
        yield line(
            f"a million drawn from logs of 3 million lists, {label} shops",
            f"off by {row['offset']:.2f} half-widths, width {row['wider']:.2f} ×, "
            f"held {whole(row['held'])}",
        )
    spark = of.row("perf", log="spark, 10,000,000", step="drawn")
    yield line(
        "10 million lists, a million drawn, two Spark workers beside Spark SQL by hand",
        f"{spark['cpu']:.2f} × CPU, {spark['clock']:.2f} × clock",
    )
    raw = "the paper from a raw file of 20 million lines in Kaggle's format"
    for label, log, step, more in (
        ("1,000,000 queries that never repeat", "unique, 1,000,000", "first", ""),
        ("300 candidates in `compare`", "repeating, 50,000", "compare", ""),
        (raw, "raw, 20,000,000", "reproduce", ", {beside:.1f} × SQL that counts queries by day"),
    ):
        row = of.row("perf", log=log, step=step)
        yield line(label, ("{cpu:.0f} CPU s, {peak:.1f} GB" + more).format_map(row))


def sizes(of: Results) -> Iterator[str]:
    labels = {
        "200,000": "200,000, all read",
        "1,000,000": "1 million, all read",
        "10,000,000": "10 million, 1 million drawn",
        "167,000,000": "167 million, 1 million drawn",
    }
    steps = {
        "engine": "the engine's own GROUP BY",
        "tally": "tally",
        "first": "first answer",
        "next": "next candidate",
    }
    yield head("lists", *steps.values(), "peak")
    for size, label in labels.items():
        rows = [of.row("perf", log=f"shop, {size}", step=step) for step in steps]
        yield line(label, *(f"{row['cpu']:.3g}" for row in rows), f"{rows[-1]['peak']:.1f} GB")


def engines(of: Results) -> Iterator[str]:
    yield head("engine", "random logs", "differences")
    for row in of.rows("engines"):
        logs = row["logs"] if isinstance(row["logs"], str) else f"{row['logs']:,}"
        differences = "–" if row["differences"] is None else f"{row['differences']}"
        yield line(row["engine"], logs, differences)


def tests(of: Results) -> Iterator[str]:
    rows = (of.row("tests", what=run["rows"][0]["what"]) for run in of.runs["tests"])
    yield from table({"what": "{what}", "figure": "{figure}"}, rows)


TABLES: dict[str, Callable[[Results], Iterator[str]]] = {
    each.__name__: each
    for each in (
        *(shop, exam, worlds, replay, null, dense, single, rewards),
        *(real, optimize, optimize_shop, scale, sizes, engines, tests),
    )
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
        rows = "\n".join(TABLES[marked["name"]](results))
        return (
            f"<!-- table: {marked['name']} -->\n\n{rows}\n\n{made_by(results.used)}\n\n<!-- end -->"
        )

    return re.sub(r"<!-- table: (?P<name>\w+) -->.*?<!-- end -->", anew, page, flags=re.DOTALL)


def main(_: Sequence[str] = ()) -> None:
    """Write the pages."""
    for page in PAGES:
        page.write_text(rendered(page.read_text()))
