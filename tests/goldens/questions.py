"""The questions: some 450, asked through the public API alone, in a fixed order.

Every question has a *tier*, which says what of its answer must stay:

| tier | what stays, to a billionth |
|---|---|
| exact | everything |
| values | values, production, coverage, records; standard errors, ends and verdicts may change |
| facts | production, coverage and records; the value itself may change |
| parts | production and records: a part has its share of the answer for the whole log |

Only questions that touch a change made on purpose have another tier than `exact`, and say which.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import foreclick as fc
from tests.answers import clipped
from tests.goldens import logs
from tests.goldens.answers import LOOSE
from tests.goldens.logs import Case

Tier = Literal["exact", "values", "facts", "parts"]

PAIRS = "pairs of candidates by weighted estimators are paired anew"
BY = "segments are judged anew"
BACKTESTED = "a verdict allows for a backtest in another way"
TINY = "fewer than 30 records: ends of the lift are another matter"
SAMPLED = "a ladder learns from a sample that is drawn by rows"
DEALT = "without units, and with fewer than 4 periods, folds are dealt by row number"

DROPPED = "contexts that a question drops take no part in what is learnt, nor in bounds"
DRIFT = "where click rates change over periods, a ladder no longer learns otherwise"
VERDICT = "a verdict contradicts neither the interval of the change nor that of the lift"
CUT = "by periods and units at once, eigenvalues are cut pair by pair"
BOUND = "a bound shows that production stays before it shows that no list is possible"
SHARES = "effects are shares of production, not units of the metric"

CHANGED: tuple[tuple[str, Tier, str, frozenset[str] | None], ...] = (
    (r": evaluate (observed )?baseline$", "values", PAIRS, None),
    (r": evaluate by ", "parts", BY, None),
    (r": report$", "exact", BY, frozenset({"change_low", "change_high"})),
    (
        r"^random/(plain-ragged|days-ragged|users-missing|slot-chances-plain)-\d: evaluate ",
        "parts",
        DROPPED,
        None,
    ),
    (
        r"^random/(days-ragged|slot-chances-plain)-1: support$",
        "exact",
        DROPPED,
        frozenset({"highest"}),
    ),
    (r"^random/counted-0: evaluate as usual$", "facts", DRIFT, None),
    (r"^random/two-days-users-0: evaluate as usual$", "exact", VERDICT, frozenset({"verdict"})),
    (r"^simulated/item-position: evaluate models$", "exact", VERDICT, frozenset({"verdict"})),
    (r": compare (five )?by ladder$", "values", CUT, None),
    (r": compare as usual$", "values", CUT, None),
    (r": evaluate worth having$", "exact", SHARES, frozenset({"verdict"})),
    (r": explore$", "exact", SHARES, frozenset({"effect"})),
    (r": optimize$", "exact", BOUND, frozenset({"why"})),
)
"""What changed on purpose: names of questions, their tier, why, and which columns alone."""

FEW_PERIODS, FEW_RECORDS = 4, 30

WEIGHTED = ("list", "prefix", "ip", "item", "pbm", "rctr", "rcm")
BY_SLOT = ("ip", "item", "pbm", "rctr", "rcm")
"""Estimators that need to know no whole lists."""

CURVE = (1.0, 0.7, 0.5, 0.4, 0.3, 0.25, 0.2, 0.18, 0.16, 0.15)
FOLD = fc.ClickModel("fold", cell=lambda slot: [slot.item, slot.position <= 2])
HALVES = fc.ClickModel("halves", cell=("item",), examination=lambda k: 0.5**k)


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        name: the case, and what is asked about it.
        ask: asks it.
        tier: what of the answer must stay.
        why: why not everything.
        only: the columns that may change, where that are fewer than those of the tier.
    """

    name: str
    ask: Callable[[], Any]
    tier: Tier = "exact"
    why: str = ""
    only: frozenset[str] | None = None

    @property
    def loose(self) -> frozenset[str]:
        """The columns that may change."""
        return LOOSE[self.tier] if self.only is None else self.only

    @property
    def kind(self) -> str:
        """What kind of log it is about."""
        return self.name.partition("/")[0]


def questions(kinds: tuple[str, ...] = ("random", "docs", "simulated", "shop")) -> list[Question]:
    """All questions about logs of these kinds; those about the shop only where it can be drawn."""
    found: list[Question] = []
    for kind, about in _KINDS.items():
        if kind in kinds and (kind != "shop" or logs.SHOP.exists()):
            found += about()
    names = [question.name for question in found]
    if len(names) != len(set(names)):
        raise ValueError("two questions have the same name")
    return [_as_changed(question) for question in found]


def _as_changed(question: Question) -> Question:
    """The question with what of its answer was changed on purpose."""
    for pattern, tier, why, only in CHANGED:
        if re.search(pattern, question.name) and not question.loose > LOOSE[tier]:
            return replace(question, tier=tier, why=why, only=only)
    return question


def quick() -> list[Question]:
    """Some questions of every kind but the shop: seconds, not minutes."""
    return (
        questions(("random",))[::14] + questions(("docs",))[::6] + questions(("simulated",))[::16]
    )


# --- asking about a case --------------------------------------------------------------------------


@dataclass(frozen=True)
class About:
    """Questions about one case, which is drawn when the first of them is asked.

    Attributes:
        name: of the case.
        case: draws it.
        records, periods, unit: as of `Case`.
        large: whether its tally has more rows than the 15,000 that a ladder learns from.
    """

    name: str
    case: Callable[[], Case]
    records: int = 10_000
    periods: int = 10
    unit: bool = True
    large: bool = False

    def evaluate(self, name: str, candidate: str = "ranking", **options: Any) -> Question:  # noqa: ANN401
        """A candidate by name; "@name" options are looked up in the case."""
        by_default = "estimators" not in options and "logging" not in options
        tier = self._tier(by="by" in options, ladder=by_default or _climbs(options))

        def ask() -> Any:  # noqa: ANN401 - an Evaluation
            case = self.case()
            given = {key: _looked_up(case, value) for key, value in options.items()}
            return fc.evaluate(case.tally, case.candidates[candidate], **given)

        return Question(f"{self.name}: evaluate {name}", ask, *tier)

    def backtested(self, name: str, estimators: Any, metrics: Any) -> Question:  # noqa: ANN401
        """An evaluation whose verdict allows for a backtest."""
        shared = {"estimators": estimators, "metrics": metrics}

        def ask() -> Any:  # noqa: ANN401 - an Evaluation
            case = self.case()
            sure = fc.Confidence(past=fc.backtest(case.tally, **shared))
            return fc.evaluate(case.tally, case.ranking, confidence=sure, **shared)

        return Question(f"{self.name}: evaluate {name}", ask, "values", BACKTESTED)

    def compare(self, name: str, *candidates: str, **options: Any) -> Question:  # noqa: ANN401
        """Several candidates by name."""

        def ask() -> Any:  # noqa: ANN401 - a Comparison
            case = self.case()
            policies = {one: case.candidates[one] for one in candidates}
            return fc.compare(case.tally, policies, **options)

        tier, why = self._tier(ladder="estimators" not in options or _climbs(options))
        only = None
        if tier == "exact" and options.get("estimators") != "ladder":
            tier, why = "values", PAIRS
            only = None if "estimators" in options else frozenset({"verdict"})  # `ip` checks
        return Question(f"{self.name}: compare {name}", ask, tier, why, only)

    def other(
        self,
        name: str,
        verb: Callable[..., Any],
        *,
        candidate: str | None = None,
        learns: bool = False,
        whole_log: bool = False,
        **options: Any,  # noqa: ANN401
    ) -> Question:
        """Any other verb, of the log alone or with a candidate."""

        def ask() -> Any:  # noqa: ANN401 - a Result
            case = self.case()
            given = {key: _looked_up(case, value) for key, value in options.items()}
            log = case.log if whole_log else case.tally
            return verb(log, *([case.candidates[candidate]] if candidate else []), **given)

        tier = self._tier(by="by" in options, ladder=learns)
        return Question(f"{self.name}: {name}", ask, *tier)

    def _tier(self, *, by: bool = False, ladder: bool = False) -> tuple[Tier, str]:
        """The tier of a question, and why; `ladder` for what learns from folds of the log."""
        if ladder and self.large:
            return "facts", SAMPLED
        if ladder and not self.unit and self.periods < FEW_PERIODS:
            return "facts", DEALT
        if by:
            return "values", BY
        return ("values", TINY) if self.records < FEW_RECORDS else ("exact", "")


def _climbs(options: Mapping[str, Any]) -> bool:
    """Whether an estimator that is asked for is a ladder that learns something."""
    named = options.get("estimators", ())
    listed = named if isinstance(named, list | tuple) else [named]
    ladders = [one for one in listed if isinstance(one, fc.Ladder)]
    return bool(ladders) or any(str(one) in {"all", "ladder", "ladder-ip"} for one in listed)


def _looked_up(case: Case, value: Any) -> Any:  # noqa: ANN401 - an option
    """An option; "@name" stands for a candidate, or for what else the case has."""
    if isinstance(value, str) and value.startswith("@"):
        return (case.candidates | case.more)[value.removeprefix("@")]
    return value


# --- random logs ----------------------------------------------------------------------------------

_METRICS: tuple[Any, ...] = (
    ("clicks@3", "dcg@5"),
    ("success@3", "clicks@2"),
    "ctr@3",
    ("mrr@4", "clicks@1"),
    ([1, 0.5, 0.25], "dcg@10"),
    ("clicks@2/clicks@4",),
)
_EARNED: tuple[Any, ...] = (
    ("orders@3", "clicks@3"),
    ("orders@3/clicks@3", "price@4"),
    ("orders:dcg@4", "price@3/orders@3"),
    ("orders:success@3", "ctr@2"),
)
_CANDIDATES = ("ranking", "mixed", "lists", "old", "observed")


def _random() -> Iterator[Question]:
    """Small random logs: the weighted estimators, the default answer, and one more verb."""
    for number, (name, seed) in enumerate((n, s) for s in (0, 1) for n in logs.DRAWS):
        draw = logs.DRAWS[name]
        about = About(
            f"random/{name}-{seed}",
            functools.partial(logs.random_case, name, seed),
            draw.records,
            draw.periods,
            draw.unit,
        )
        metrics = (_EARNED if draw.orders else _METRICS)[number % (4 if draw.orders else 6)]
        candidate = _CANDIDATES[number % 5]
        missing = {"missing": ("production", "drop")[number % 2]} if draw.missing else {}
        every = {"candidate": candidate, "metrics": metrics, **missing}
        yield about.evaluate("weighted", estimators=WEIGHTED, **every)
        yield about.evaluate("as usual", **every)
        yield _third(about, draw, number, missing)
        yield from _by_role(about, draw, seed, missing)


def _third(about: About, draw: logs.Draw, number: int, missing: dict[str, Any]) -> Question:
    """One question more about a random log, another one for each."""
    clicks: dict[str, Any] = {"metrics": "clicks@3"}
    match number % 9:
        case 0:
            return about.other("support", fc.support, candidate="mixed", **clicks, **missing)
        case 1:
            marginal = clicks | missing | {"candidate": "marginals"}
            return about.evaluate("marginals", estimators=BY_SLOT, **marginal)
        case 2:
            bounded = clipped(["ip", "item", "list"], [0.7, 1.5, 5, math.inf])
            return about.evaluate("clips", "mixed", estimators=bounded, **clicks, **missing)
        case 3:
            return about.other("judgments", fc.judgments)
        case 4:
            told = fc.Weighted("pbm", examination="1/k")
            own = {"estimators": [told, FOLD, HALVES], **clicks, **missing}
            return about.evaluate("models", "mixed", **own)
        case 5:
            return about.other("examination", fc.examination)
        case 6:
            given = fc.Ladder(examination=CURVE, stopping=0)
            return about.evaluate("given ladder", "mixed", estimators=given, **clicks, **missing)
        case 8 if not draw.count:
            return about.other("contexts", fc.contexts)
        case _:
            return about.other("check", fc.check, whole_log=True)


def _by_role(
    about: About, draw: logs.Draw, seed: int, missing: dict[str, Any]
) -> Iterator[Question]:
    """What can be asked because the log has a segment, propensities, or days."""
    clicks: dict[str, Any] = {"metrics": ("clicks@3", "dcg@4"), **missing}
    if draw.segments:
        yield about.evaluate("by land", "mixed", estimators=["ip", "item"], by="land", **clicks)
    if draw.propensity:
        by = ("list",) if draw.propensity == "list" else ("ip",)
        logged = {"logging": "propensity", "estimators": by, **clicks}
        yield about.evaluate("by propensities", "mixed", **logged)
    if draw.propensity or about.name.endswith(("days-0", "users-0", "both-0")):
        yield about.evaluate("logging", "mixed", logging="@logging", **clicks)
    if seed == 0 and draw.periods >= FEW_PERIODS and draw.records >= FEW_RECORDS:
        yield about.other("backtest", fc.backtest, metrics="clicks@3", estimators=WEIGHTED)
    if seed == 1 and (draw.periods >= FEW_PERIODS or draw.unit) and not draw.missing:
        lists = ("ranking", "mixed", "lists")
        yield about.compare("by ladder", *lists, estimators="ladder", metrics="clicks@3")


# --- pages of the documentation -------------------------------------------------------------------


def _docs() -> Iterator[Question]:
    """What pages of the documentation ask."""
    few = About("docs/few", logs.few_clicks, unit=False, periods=8)
    yield few.evaluate("list and ip", metrics="clicks@1", estimators=["list", "ip"])
    yield few.evaluate("as usual", metrics=("clicks@1", "clicks@2"))
    yield few.other("examination", fc.examination)
    yield few.other("backtest", fc.backtest, metrics="clicks@1", estimators=["ip", "rctr"])
    yield few.other("optimize", fc.optimize, metrics="clicks@1")
    yield few.other("judgments", fc.judgments, examination=[1, 0.5])
    chances = About("docs/chances", logs.known_chances, unit=False, periods=0)
    for how in ("frequency", "propensity"):
        asked: dict[str, Any] = {"metrics": ("clicks@1", "clicks@2"), "logging": how}
        yield chances.evaluate(f"by {how}", estimators="list", **asked)
    yield chances.evaluate("by the policy", metrics="clicks@1", logging="@logging")
    yield chances.evaluate("as usual", metrics="clicks@1")
    yield chances.evaluate(
        "by record",
        estimators="ip",
        confidence=fc.Confidence(clusters="record"),
        metrics="clicks@2",
    )
    obp = About("docs/obp", logs.long_rows, unit=False, periods=0)
    for how in ("frequency", "propensity"):
        yield obp.evaluate(f"by {how}", metrics="clicks@2", estimators="ip", logging=how)
    yield obp.other("support", fc.support, candidate="ranking", metrics="clicks@2")
    yield obp.other("check", fc.check, whole_log=True)
    yield from _routes()
    yield from _tutorial()


def _routes() -> Iterator[Question]:
    leg = fc.ClickModel("leg", cell="item")
    routes = About("docs/routes", logs.bus_routes, unit=False)
    for name in ("ranking", "old"):
        legs: dict[str, Any] = {"metrics": "clicks@4", "estimators": ["list", leg]}
        yield routes.evaluate(f"{name} by legs", name, **legs)
    chosen: dict[str, Any] = {"metrics": "clicks@4", "estimators": leg, "judge": leg}
    yield routes.other("optimize", fc.optimize, lists="@lists", **chosen)
    yield routes.other("optimize banned", fc.optimize, lists="@lists", banned=["b-c"], **chosen)
    yield routes.other("optimize logged", fc.optimize, lists="logged", **chosen)


def _tutorial() -> Iterator[Question]:
    tutorial = About("docs/tutorial", logs.tutorial, periods=28)
    clicks: dict[str, Any] = {"metrics": "clicks@3"}
    orders = ["clicks@3", "orders@6", "orders@6/clicks@6"]
    yield tutorial.other("check", fc.check, whole_log=True)
    yield tutorial.other("support", fc.support, candidate="ranking", **clicks)
    yield tutorial.evaluate("as usual", **clicks)
    yield tutorial.evaluate("orders", metrics=orders)
    yield tutorial.evaluate("all", estimators="all", **clicks)
    yield tutorial.evaluate("worth having", min_effect=0.2, **clicks)
    yield tutorial.evaluate("guarded", guardrails={"orders@6": 0.02}, **clicks)
    yield tutorial.evaluate("by device", estimators="ladder", by="device", **clicks)
    yield tutorial.evaluate("anytime", confidence=fc.Confidence(anytime=True), **clicks)
    yield tutorial.backtested("after a backtest", ["ladder", "ip"], "clicks@3")
    five = ["ladder", "ip", "item", "pbm", "rctr"]
    yield tutorial.other("backtest", fc.backtest, estimators=five, **clicks)
    bounded = clipped(["ip", "item", "list"], [1, 10, 100, math.inf])
    two: dict[str, Any] = {"metrics": ["clicks@2", "dcg@10"]}
    yield tutorial.other("backtest clips", fc.backtest, estimators=bounded, **two)
    yield tutorial.compare("as usual", "ranking", "old", "middle", **clicks)
    yield tutorial.compare("by ladder", "ranking", "old", "middle", estimators="ladder", **clicks)
    yield tutorial.compare("by ip", "ranking", "old", estimators="ip", **clicks)
    yield tutorial.other("explore", fc.explore, candidate="ranking", min_effect=0.05, **clicks)
    careful: dict[str, Any] = {"max_change": 0.3, "min_shown": 30}
    yield tutorial.other("optimize", fc.optimize, metrics="dcg@6", **careful)
    yield tutorial.other("examination", fc.examination)
    slots = ["banner", "row 1", "row 1", "row 2", "row 2"]
    yield tutorial.other("examination of slots", fc.examination, slots=slots)
    yield tutorial.other("judgments", fc.judgments)
    yield tutorial.other("contexts", fc.contexts)
    yield tutorial.other("report", fc.report, candidate="ranking", **clicks)


# --- simulated click models -----------------------------------------------------------------------


def _simulated() -> Iterator[Question]:
    """The same questions about every click model, and some that are asked of one each."""
    for number, name in enumerate(logs.SIMULATED):
        about = About(f"simulated/{name}", functools.partial(logs.simulated, name))
        yield from _evaluated(about)
        yield from _compared(about)
        yield from _looked_at(about)
        yield from _changed(about, number)
    about = About("simulated/lists", logs.contradicting, periods=8)
    for candidate in ("first", "ranking", "old", "last"):
        yield about.evaluate(candidate, candidate, metrics=("clicks@2", "dcg@3"))
    yield about.evaluate("weighted", estimators=WEIGHTED, metrics="clicks@3")
    yield about.compare("as usual", "first", "ranking", "old", metrics="clicks@3")
    yield about.compare("by ladder", "first", "last", estimators="ladder", metrics="clicks@3")
    yield about.other("backtest", fc.backtest, metrics="clicks@3")
    yield about.other("optimize", fc.optimize, metrics="clicks@3", lists="logged")


def _evaluated(about: About) -> Iterator[Question]:
    both: dict[str, Any] = {"metrics": ("clicks@3", "dcg@5")}
    one: dict[str, Any] = {"metrics": "clicks@3"}
    told = [fc.Weighted("pbm", examination=CURVE), FOLD, HALVES]
    ladders = [fc.Ladder(examination="1/k"), fc.Ladder("ip", examination="1/k"), "ladder-ip"]
    yield about.evaluate("as usual", **both)
    yield about.evaluate("weighted", estimators=WEIGHTED, **both)
    yield about.evaluate("clips", estimators=clipped(["ip", "item", "pbm"], [1, 3, 10]), **one)
    yield about.evaluate("models", estimators=told, **both)
    yield about.evaluate("ladder told", estimators=fc.Ladder(examination=CURVE), **both)
    yield about.evaluate("other ladders", estimators=ladders[::2], **one)
    yield about.evaluate("ladder given", estimators=ladders[1], confidence=0.8, **one)
    yield about.evaluate("first clicks", metrics=["success@3", "mrr@5"])
    yield about.evaluate("first clicks weighted", metrics="success@2", estimators=WEIGHTED[:5])
    yield about.evaluate("ratio", metrics=["ctr@3", fc.Ratio("clicks@1", "clicks@5")])
    yield about.evaluate("lists", "last-day", estimators=["ladder", *WEIGHTED], **one)
    yield about.evaluate("baseline", baseline="@last-day", **both)
    against = {"estimators": WEIGHTED[:5], "baseline": "@observed", **one}
    yield about.evaluate("observed baseline", "first-day", **against)
    yield about.evaluate("logging", "last-day", logging="@logging", **both)
    anytime = fc.Confidence(anytime=True)
    yield about.evaluate("anytime", confidence=anytime, estimators=["ladder", "ip", "item"], **one)
    yield about.evaluate("by class", by="class", **one)
    yield about.evaluate("guarded", guardrails={"clicks@1": 0.05, "success@3": 0.02}, **one)
    yield about.evaluate("worth having", "observed", min_effect=0.1, **one)


def _compared(about: About) -> Iterator[Question]:
    three = ("ranking", "second", "last-day")
    five = (*three, "third", "first-day")
    yield about.compare("by ladder", *three, estimators="ladder", metrics="clicks@3")
    yield about.compare("five by ladder", *five, estimators="ladder", metrics="dcg@5")
    yield about.compare("as usual", *three[:2], metrics="clicks@3")


def _looked_at(about: About) -> Iterator[Question]:
    yield about.other("support", fc.support, candidate="ranking", metrics=("clicks@3", "dcg@5"))
    yield about.other("examination", fc.examination)
    yield about.other("backtest", fc.backtest, metrics=("clicks@3", "dcg@5"))


def _changed(about: About, number: int) -> Iterator[Question]:
    """What is asked of one click model each: the verbs that change something, and rare options."""
    clicks: dict[str, Any] = {"metrics": "clicks@3"}
    weighted = {"estimators": ["ip", "item", "pbm"], **clicks}
    best: tuple[dict[str, Any], ...] = (
        {},
        {"estimators": "ip", "pessimism": 2.0, "judge": "ip", **clicks},
        {"max_change": 0.3, "min_shown": 20, **clicks},
        {"deterministic": True, "metrics": "dcg@5"},
        {"banned": [0, 1], "metrics": "dcg@5"},
        {"lists": "logged", "estimators": "list", **clicks},
    )
    backtests: tuple[dict[str, Any], ...] = (
        {"forward": True},
        {"block": 3},
        {"weight": "records"},
        {"ranks": 10},
        {"min_records": 150, "min_held": 5},
        {"ranks": (2, 6)},
    )
    curves: tuple[dict[str, Any], ...] = (
        {"by": "class"},
        {"within": "context"},
        {"within": "period"},
        {"within": "period"},
        {"confidence": 0.9},
        {"confidence": 0.8},
    )
    plans: tuple[dict[str, Any], ...] = (
        {"min_effect": 0.05},
        {"days": 7},
        {"share": 0.05, "power": 0.9},
        {"production": "@last-day"},
        {"days": 3},
        {"max_share": 0.3, "confidence": 0.9},
    )
    yield about.other("optimize", fc.optimize, **best[number])
    yield about.other("backtest otherwise", fc.backtest, **weighted, **backtests[number])
    yield about.other("examination otherwise", fc.examination, **curves[number])
    yield about.other("explore", fc.explore, candidate="ranking", **plans[number], **clicks)
    looks = (fc.check, fc.contexts, fc.judgments)
    look = looks[number % 3]
    yield about.other(look.__name__, look, whole_log=look is fc.check)


# --- the shop -------------------------------------------------------------------------------------


def _shop() -> Iterator[Question]:
    """A long tail of queries and other models as candidates."""
    for name in logs.SHOPS:
        large = name == "large"
        about = About(f"shop/{name}", functools.partial(logs.shop, name), periods=28, large=large)
        both: dict[str, Any] = {"metrics": ("clicks@3", "dcg@10")}
        one: dict[str, Any] = {"metrics": "clicks@3"}
        yield about.evaluate("better", "better", **both)
        yield about.evaluate("tweak weighted", "tweak", estimators=WEIGHTED, **both)
        yield about.evaluate(
            "worse", "worse", estimators=clipped(["ip", "item", "pbm"], 10), **both
        )
        yield about.evaluate("equal first clicks", "equal", metrics="success@3", estimators="ip")
        yield about.compare("by ladder", "better", "equal", "worse", estimators="ladder", **one)
        yield about.compare("by pbm", "better", "tweak", estimators="pbm", **one)
        yield about.other("support", fc.support, candidate="equal", **both)
        yield about.other("backtest", fc.backtest, estimators=["ip", "item", "pbm", "rctr"], **one)
        yield about.other("examination", fc.examination)
        yield about.other("judgments", fc.judgments)


_KINDS: dict[str, Callable[[], Iterator[Question]]] = {
    "random": _random,
    "docs": _docs,
    "simulated": _simulated,
    "shop": _shop,
}
