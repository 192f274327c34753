"""The questions, asked through the public API alone, in a fixed order.

They notice a number that changes. Whether it is right is what `tests.truth` and `tests.fuzz` prove,
so of logs of one kind each question is asked of as few as will show that: one random log of each
kind, two of six click models, one shop of three; the default answer of each simulated log.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import foreclick as fc
from foreclick.questions.backtest import backtest_by
from foreclick.run.holdout import Protocol
from tests.answers import clipped
from tests.cases.asking import ask
from tests.cases.plain import Draw
from tests.goldens import logs
from tests.goldens.logs import Scene

WEIGHTED = ("list", "prefix", "ip", "item", "pbm", "rctr", "rcm")
BY_SLOT = WEIGHTED[2:]
"""Estimators that need to know no whole lists."""

CURVE = (1.0, 0.7, 0.5, 0.4, 0.3, 0.25, 0.2, 0.18, 0.16, 0.15)
FOLD = fc.ClickModel("fold", cell=lambda slot: [slot.item, slot.position <= 2])
HALVES = fc.ClickModel("halves", cell=("item",), examination=lambda k: 0.5**k)

CLICKS: dict[str, Any] = {"metrics": "clicks@3"}
BOTH: dict[str, Any] = {"metrics": ("clicks@3", "dcg@5")}


@dataclass(frozen=True)
class Question:
    """One question: the case and what is asked about it, and how to ask it."""

    name: str
    ask: Callable[[], Any]


@dataclass(frozen=True)
class About:
    """Questions about one case, which is drawn when the first of them is asked."""

    name: str
    case: Callable[[], Scene]

    def asked(
        self,
        name: str,
        verb: Callable[..., Any],
        *policies: str,
        **options: Any,  # noqa: ANN401
    ) -> Question:
        """A verb with candidates by name; options that begin with @ are policies by name, too."""

        def answer() -> Any:  # noqa: ANN401 - a Result
            case = self.case()
            log = case.log if verb is fc.check else case.tally
            return ask(verb, log, case.policies, *policies, **options)

        return Question(f"{self.name}: {name}", answer)

    def evaluate(self, name: str, policy: str = "ranking", **options: Any) -> Question:  # noqa: ANN401
        """An evaluation."""
        return self.asked(f"evaluate {name}", fc.evaluate, policy, **options)

    def compare(self, name: str, *policies: str, **options: Any) -> Question:  # noqa: ANN401
        """A comparison."""
        return self.asked(f"compare {name}", fc.compare, *policies, **options)


def questions(kinds: tuple[str, ...] = ("random", "simulated", "shop")) -> list[Question]:
    """All questions about logs of these kinds."""
    of: dict[str, Callable[[], Iterator[Question]]]
    of = {"random": _random, "simulated": _simulated, "shop": _shop}
    found = [question for kind in kinds for question in of[kind]()]
    if len(found) != len({question.name for question in found}):
        raise ValueError("two questions have the same name")
    return found


def quick() -> list[Question]:
    """Some questions of every kind but the shop: seconds, not minutes."""
    return questions(("random",))[::8] + questions(("simulated",))[::8]


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
    """Small random logs: the weighted estimators, the default answer, and some more."""
    for number, (name, draw) in enumerate(logs.DRAWS.items()):
        about = About(f"random/{name}-0", functools.partial(logs.random_case, name, 0))
        metrics = (_EARNED if draw.orders else _METRICS)[number % (4 if draw.orders else 6)]
        missing = {"missing": ("production", "drop")[number % 2]} if draw.missing else {}
        every = {"policy": _CANDIDATES[number % 5], "metrics": metrics, **missing}
        yield about.evaluate("weighted", estimators=WEIGHTED, **every)
        yield about.evaluate("as usual", **every)
        yield _third(about, draw, number, missing)
        two = {"metrics": ("clicks@3", "dcg@4"), **missing}
        if draw.segments:
            yield about.evaluate("by land", "mixed", estimators=["ip", "item"], by="land", **two)
        if draw.propensity:
            by = "list" if draw.propensity == "list" else "ip"
            asked = {"logging": "propensity", "estimators": by, **two}
            yield about.evaluate("by propensities", "mixed", **asked)
        if draw.propensity or name.endswith(("days", "users", "both")):
            yield about.evaluate("logging", "mixed", logging="@logging", **two)
        if (draw.periods > 3 or draw.unit) and not draw.missing:
            another = About(f"random/{name}-1", functools.partial(logs.random_case, name, 1))
            three = ("ranking", "mixed", "lists")
            yield another.compare("by ladder", *three, estimators="ladder", **CLICKS)


def _third(about: About, draw: Draw, number: int, missing: dict[str, Any]) -> Question:
    """One question more about a random log, another one for each."""
    asked = CLICKS | missing
    match number % 9:
        case 0:
            return about.asked("support", fc.support, "mixed", **asked)
        case 1:
            return about.evaluate("marginals", "marginals", estimators=BY_SLOT, **asked)
        case 2:
            bounded = clipped(["ip", "item", "list"], [0.7, 1.5, 5, math.inf])
            return about.evaluate("clips", "mixed", estimators=bounded, **asked)
        case 3:
            return about.asked("judgments", fc.judgments)
        case 4:
            own = [fc.Weighted("pbm", examination="1/k"), FOLD, HALVES]
            return about.evaluate("models", "mixed", estimators=own, **asked)
        case 5:
            return about.asked("examination", fc.examination)
        case 6:
            given = fc.Ladder(examination=CURVE, stopping=0)
            return about.evaluate("given ladder", "mixed", estimators=given, **asked)
        case 8 if not draw.count:
            return about.asked("contexts", fc.contexts)
        case _:
            return about.asked("check", fc.check)


# --- simulated click models -----------------------------------------------------------------------


def _simulated() -> Iterator[Question]:
    """Every question about two of six click models; the default answer about each; rare options."""
    for number, name in enumerate(logs.SIMULATED):
        about = About(f"simulated/{name}", functools.partial(logs.simulated, name))
        shared = enumerate([*_evaluated(about), *_further(about)])
        yield from (question for i, question in shared if i == 0 or i % 3 == number % 3)
        yield from _changed(about, number)
    about = About("simulated/lists", logs.contradicting)
    for candidate in ("first", "ranking", "old", "last"):
        yield about.evaluate(candidate, candidate, metrics=("clicks@2", "dcg@3"))
    yield about.evaluate("weighted", estimators=WEIGHTED, **CLICKS)
    yield about.compare("as usual", "first", "ranking", "old", **CLICKS)
    yield about.compare("by ladder", "first", "last", estimators="ladder", **CLICKS)
    yield about.asked("backtest", fc.backtest, **CLICKS)
    yield about.asked("optimize", fc.optimize, **CLICKS)


def _evaluated(about: About) -> Iterator[Question]:
    told = [fc.Weighted("pbm", examination=CURVE), FOLD, HALVES]
    by_k = fc.Ladder(examination="1/k")
    yield about.evaluate("as usual", **BOTH)
    yield about.evaluate("weighted", estimators=WEIGHTED, **BOTH)
    yield about.evaluate("clips", estimators=clipped(["ip", "item", "pbm"], [1, 3, 10]), **CLICKS)
    yield about.evaluate("models", estimators=told, **BOTH)
    yield about.evaluate("ladder told", estimators=fc.Ladder(examination=CURVE), **BOTH)
    yield about.evaluate("other ladders", estimators=[by_k, "ladder-ip"], **CLICKS)
    given = fc.Ladder("ip", examination="1/k")
    yield about.evaluate("ladder given", estimators=given, confidence=0.8, **CLICKS)
    yield about.evaluate("first clicks", metrics=["success@3", "mrr@5"])
    yield about.evaluate("first clicks weighted", metrics="success@2", estimators=WEIGHTED[:5])
    yield about.evaluate("ratio", metrics=["ctr@3", fc.Ratio("clicks@1", "clicks@5")])
    yield about.evaluate("lists", "last-day", estimators=["ladder", *WEIGHTED], **CLICKS)
    yield about.evaluate("baseline", baseline="@last-day", **BOTH)
    against = {"estimators": WEIGHTED[:5], "baseline": "@observed", **CLICKS}
    yield about.evaluate("observed baseline", "first-day", **against)
    yield about.evaluate("logging", "last-day", logging="@logging", **BOTH)
    anytime = fc.Confidence(anytime=True)
    three = ["ladder", "ip", "item"]
    yield about.evaluate("anytime", confidence=anytime, estimators=three, **CLICKS)
    yield about.evaluate("by class", by="class", **CLICKS)
    yield about.evaluate("guarded", guardrails={"clicks@1": 0.05, "success@3": 0.02}, **CLICKS)
    yield about.evaluate("worth having", "observed", min_effect=0.1, **CLICKS)


def _further(about: About) -> Iterator[Question]:
    """The other verbs."""
    three = ("ranking", "second", "last-day")
    five = (*three, "third", "first-day")
    yield about.compare("by ladder", *three, estimators="ladder", **CLICKS)
    yield about.compare("five by ladder", *five, estimators="ladder", metrics="dcg@5")
    yield about.compare("as usual", *three[:2], **CLICKS)
    yield about.asked("support", fc.support, "ranking", **BOTH)
    yield about.asked("examination", fc.examination)
    yield about.asked("backtest", fc.backtest, **BOTH)


def _changed(about: About, number: int) -> Iterator[Question]:
    """What is asked of one click model each: the verbs that change something, and rare options."""
    best, backtest, curve, plan = _RARE[number]
    yield about.asked("optimize", fc.optimize, **best)
    weighted = {"estimators": ["ip", "item", "pbm"], **CLICKS, **backtest}
    yield about.asked("backtest otherwise", _backtest, **weighted)
    yield about.asked("examination otherwise", fc.examination, **curve)
    yield about.asked("explore", fc.explore, "ranking", **plan, **CLICKS)
    look = (fc.check, fc.contexts, fc.judgments)[number % 3]
    yield about.asked(look.__name__, look)
    if number == 0:
        yield about.asked("report", fc.report, "ranking", **CLICKS)


_BY_IP: dict[str, Any] = {"estimators": "ip", "pessimism": 2.0, "judge": "ip", **CLICKS}
_FEW_CHANGES: dict[str, Any] = {"max_change": 0.3, "min_shown": 20, **CLICKS}
_BANNED: dict[str, Any] = {"banned": [0, 1], "metrics": "dcg@5"}
_ONE_LIST: dict[str, Any] = {"deterministic": True, "metrics": "dcg@5"}
_RARE: tuple[tuple[dict[str, Any], ...], ...] = (
    ({}, {"forward": True}, {"by": "class"}, {"min_effect": 0.05}),
    (_BY_IP, {"block": 3}, {"within": "context"}, {"days": 7}),
    (_FEW_CHANGES, {"weight": "records"}, {"within": "period"}, {"share": 0.05, "power": 0.9}),
    (_ONE_LIST, {"ranks": 10}, {"confidence": 0.99}, {"power": 0.95}),
    (_BANNED, {"min_held": 5}, {"confidence": 0.9}, {"days": 3}),
    ({"estimators": "item", **CLICKS}, {"ranks": (2, 6)}, {"confidence": 0.8}, {"confidence": 0.9}),
)
"""Rare options of `optimize`, `backtest`, `examination` and `explore`, about each click model."""


def _backtest(log: Any, **options: Any) -> Any:  # noqa: ANN401 - of a protocol, and of the verb
    protocol = {name: options.pop(name) for name in ("weight", "min_held") if name in options}
    if not protocol:
        return fc.backtest(log, **options)
    return backtest_by(Protocol({}, **protocol), log, **options)


# --- the shop -------------------------------------------------------------------------------------


def _shop() -> Iterator[Question]:
    """A long tail of queries, other models as candidates; of the weighted, each about one shop."""
    both: dict[str, Any] = {"metrics": ("clicks@3", "dcg@10")}
    bounded = clipped(["ip", "item", "pbm"], 10)
    first: dict[str, Any] = {"metrics": "success@3", "estimators": "ip"}
    for number, name in enumerate(logs.SHOPS):
        about = About(f"shop/{name}", functools.partial(logs.shop, name))
        yield about.evaluate("better", "better", **both)
        three = ("better", "similar", "worse")
        yield about.compare("by ladder", *three, estimators="ladder", **CLICKS)
        yield about.asked("support", fc.support, "similar", **both)
        yield about.asked("examination", fc.examination)
        weighted = (
            about.evaluate("tweak weighted", "tweak", estimators=WEIGHTED, **both),
            about.evaluate("worse", "worse", estimators=bounded, **both),
            about.evaluate("similar first clicks", "similar", **first),
            about.compare("by pbm", "better", "tweak", estimators="pbm", **CLICKS),
            about.asked(
                "backtest", fc.backtest, estimators=["ip", "item", "pbm", "rctr"], **CLICKS
            ),
            about.asked("judgments", fc.judgments),
        )
        yield from weighted[number::3]
