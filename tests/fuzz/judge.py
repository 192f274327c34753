"""What oracles say of a case, row by row, and whether the library says the same."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, TypeVar

import numpy as np

import foreclick as fc
from foreclick.errors import ForeclickError, ModelError, PolicyError
from foreclick.estimation.estimates import Estimate, Estimates
from foreclick.estimators import parse_estimators
from foreclick.metrics import AnyMetric
from foreclick.question import Question
from foreclick.run.estimate import estimate
from tests.answers import clipped
from tests.cases.case import Case, Measure, Row
from tests.truth import firsts, oracle, parts, propensities, spread
from tests.truth.spread import Floats

T = TypeVar("T")

SAME = 1e-9
"""Sums of at most a few hundred terms, in another order; weights of up to 1e9."""

LEAST = 1e-300
"""Smaller numbers have fewer digits."""

Answer = Estimate | Mapping[str, Any]
"""What the library says: inside, or in a row of its result."""

Key = tuple[str, str, float, Any]
"""Which row: estimator, metric, clip and segment; the whole is of the segment `...`."""


class Difference(AssertionError):
    """The library and an oracle do not agree."""


def differ(what: str, found: object, right: object) -> NoReturn:
    """Say that they do not agree."""
    raise Difference(f"{what}: {found!r} is not {right!r}")


def hold(what: str, found: Any, right: Any, within: float = 0.0, relative: float = SAME) -> None:  # noqa: ANN401
    """A number is what an oracle says of it; None only equals None."""
    if found is None or right is None:
        same = found is right
    else:
        same = math.isclose(found, right, rel_tol=relative, abs_tol=within + LEAST)
    if not same:
        differ(what, found, right)


def hold_all(
    what: str, found: Floats, right: Floats, within: float, relative: float = 1e-7
) -> None:
    """A covariance is what an oracle says of it."""
    if not np.allclose(found, right, rtol=relative, atol=within):
        differ(what, found, right)


def judge(case: Case) -> int:
    """How many rows of answers were compared; raises a `Difference`."""
    found = answered(refused(case), lambda: ask(case))
    if found is None:
        return 1
    rows = answers_of(found)
    for key, one in rows_asked(case, rows).items():
        expected = Expected.of(case, key)
        expected.hold(one)
        expected.hold_spread(one)
    assert_add_up(found)
    if case.seed % 4 == 0:
        assert_same_in_batches(case, rows)
    return len(rows)


# --- the library ----------------------------------------------------------------------------------


def ask(case: Case, slots: int | None = None) -> Estimates:
    """What the library says, in batches of so many slots; None: as the case has it."""
    return estimate(case.tally(slots), question_of(case))


def measures_of(case: Case) -> dict[str, Measure]:
    """The measures of a case by the names of their metrics."""
    return {fc.Metric(measure.spelling).name: measure for measure in case.asked.measures}


def metrics_of(case: Case) -> tuple[fc.Metric, ...]:
    """The metrics of a case, each once."""
    return tuple(dict.fromkeys(fc.Metric(m.spelling) for m in case.asked.measures))


def estimators_of(case: Case) -> Any:  # noqa: ANN401 - estimators
    """Click models whose examination is 1/k, as the oracles have it: `pbm` would learn it."""
    curves: Any = {"pbm": "1/k"}
    models = [fc.Weighted(model, examination=curves.get(model)) for model in case.asked.models]
    return clipped(models, case.asked.clips)


def question_of(case: Case, metrics: Sequence[AnyMetric] = ()) -> Question:
    """The question of a case, about its own metrics or about these."""
    return Question(
        candidates=[case.policy],
        estimators=parse_estimators(estimators_of(case)),
        metrics=metrics or metrics_of(case),
        missing=case.asked.missing,  # type: ignore[arg-type]
        loggings=[case.logging] * len(case.asked.models),
        by=("land",) if case.asked.by else (),
        clusters=(case.asked.clusters,) if case.asked.clusters else (),  # type: ignore[arg-type]
    )


def answers_of(found: Estimates, candidate: int = 0) -> dict[Key, Estimate]:
    """The rows about a candidate."""
    whole = found.of_candidate(candidate, whole=True)
    rows: dict[Key, Estimate] = {(e.estimator, e.metric.name, e.clip, ...): e for e in whole}
    if found.question.by:
        rows |= {
            (e.estimator, e.metric.name, e.clip, e.stratum.segment["land"]): e
            for e in found.of_candidate(candidate)
        }
    return rows


def rows_asked(case: Case, rows: dict[Key, T], metrics: Iterable[AnyMetric] = ()) -> dict[Key, T]:
    """The rows of an answer, which are those that were asked for."""
    names = [metric.name for metric in metrics or metrics_of(case)]
    lands = [*({row.land for row in case.rows} if case.asked.by else ()), ...]
    asked = itertools.product(case.asked.bounded, names, lands)
    keys = {(model, name, clip, land) for (model, clip), name, land in asked}
    if keys != rows.keys():
        raise Difference(f"no rows of {keys - rows.keys()}, but rows of {rows.keys() - keys}")
    return rows


def assert_add_up(found: Estimates) -> None:
    """Parts, weighted by records, add up to the whole."""
    if not found.strata.split:
        return
    for c in range(found.count):
        parts_of: dict[Any, list[Estimate]] = {}
        for e in found.of_candidate(c):
            parts_of.setdefault((e.estimator, e.metric, e.clip), []).append(e)
        for whole in found.of_candidate(c, whole=True):
            mine = parts_of[whole.estimator, whole.metric, whole.clip]
            records, n = [e.stratum.records for e in mine], whole.stratum.records
            hold("records of parts", sum(records), n)
            if isinstance(whole.metric, fc.Ratio):
                continue
            totals = {"credit": ([e.parts[0].credit for e in mine], whole.parts[0].credit)}
            for name in ("value", "production"):
                each = [getattr(e, name) for e in mine]
                if name == "production" or None not in each:
                    worth = [(v or 0.0) * r for v, r in zip(each, records, strict=True)]
                    totals[name] = worth, (getattr(whole, name) or 0.0) * sum(records)
            for name, (own, total) in totals.items():
                hold(f"{name} of parts", sum(own), total, 1e-14 * sum(map(abs, own)))


def assert_same_in_batches(case: Case, rows: Mapping[Key, Estimate]) -> None:
    """However the log is dealt to batches, the answer is the same."""
    again = answers_of(ask(case, 4_000_000 if case.asked.slots == 1 else 1))
    for key, two in rows_asked(case, again).items():
        one, size = rows[key], Expected.of(case, key).size or 0.0
        for name in ("value", "production", "covered", "clipped", "ess", "exposure", "lost"):
            within = SAME * (name in ("covered", "clipped")) + 1e-14 * size * (name == "value")
            hold(f"{name} of {key} in batches", column_of(one, name), column_of(two, name), within)
        if one.has_variance != two.has_variance:
            differ(f"spread of {key} in batches", one.has_variance, two.has_variance)
        if one.has_variance:
            within = 1e-13 * max(_square(one), size**2)
            hold_all(f"covariance of {key} in batches", one.covariance, two.covariance, within)


def column_of(found: Answer, name: str) -> Any:  # noqa: ANN401 - of any type
    """A column of an answer."""
    if not isinstance(found, Estimate):
        return found[name]
    match name:
        case "contexts" | "records" | "missing_contexts":
            return getattr(found.stratum, name)
        case "change":
            return None if found.value is None else found.value - (found.production or 0.0)
        case "exposure":
            return found.parts[0].exposure
        case "lost":
            return found.parts[0].coverage.lost
    return getattr(found, name)


def _square(found: Estimate) -> float:
    """A variance is a difference of squares, of which rounding leaves so much."""
    return max(abs(found.value or 0.0), abs(found.production or 0.0)) ** 2


# --- refusals -------------------------------------------------------------------------------------


def answered(refusals: Iterable[type[Exception]], ask: Callable[[], T]) -> T | None:
    """An answer; None where it was refused, as it should be."""
    right = set(refusals)
    try:
        found = ask()
    except ForeclickError as error:
        if type(error) not in right:
            raise Difference(f"refused without a reason: {error!r}") from error
        return None
    if right:
        raise Difference(f"not refused, but should be: {right}")
    return found


def refused(case: Case, whole: Case | None = None) -> set[type[Exception]]:
    """The errors that the rules of the documentation ask for; `whole` has no contexts dropped."""
    asked, found = case.asked, set[type[Exception]]()
    logged, known = {row.context for row in case.rows}, set(case.candidate)
    items = {item for row in case.rows for item in row.items}
    lists = [set(a) for x, lists in (whole or case).candidate.items() if x in logged for a in lists]
    if (
        (asked.missing == "error" and logged - known)
        or not logged & known
        or (asked.pi is not None and logged - set(asked.pi))
        or (any(lists) and not any(items & a for a in lists))
        or (asked.kind == "Marginals" and {"list", "prefix"} & set(asked.models))
    ):
        found.add(PolicyError)
    bounded = any(map(math.isfinite, asked.clips))
    hazards = asks_hazards(case) and (asked.logging or asked.kind == "Marginals" or bounded)
    if hazards or not all(_propensities_fit(case, model) for model in asked.models):
        found.add(ModelError)
    return found


def asks_hazards(case: Case) -> bool:
    """Whether a value is a product of hazards: of first clicks, by some click models."""
    first = any(measure.first for measure in case.asked.measures)
    return first and bool(set(case.asked.models) & set(firsts.SLOTS))


def _propensities_fit(case: Case, model: str) -> bool:
    if case.asked.logging != "propensity":
        return True
    if max(len(row.items) for row in case.rows) == 1:
        return model not in oracle.BLIND
    return model in (("list",) if case.roles["propensity"] == "chance" else ("ip", "prefix"))


# --- oracles --------------------------------------------------------------------------------------


def hold_columns(
    found: Answer, right: Mapping[str, Any], where: str, size: float | None = None
) -> None:
    """Columns of an answer are what an oracle says; `size`: of the terms that a value adds up."""
    within = {
        "change": SAME * max(abs(right.get("value") or 0), abs(right.get("production") or 0)),
        "covered": SAME,
        "clipped": SAME,
        # What the records of a part stand for is a difference of terms, which may be large.
        "value": 1e-14 * (size or 0.0),
    }
    for name, value in right.items():
        hold(f"{name} of {where}", column_of(found, name), value, within.get(name, 0.0))


@dataclass(frozen=True)
class Expected:
    """What oracles say of a row of an answer.

    Attributes:
        land: the segment; `...` is the whole.
    """

    case: Case
    model: str
    measure: Measure
    clip: float
    land: Any = ...

    @classmethod
    def of(cls, case: Case, key: Key) -> Expected:
        """Of the row with this key."""
        model, name, clip, land = key
        return cls(case, model, measures_of(case)[name], clip, land)

    @property
    def where(self) -> str:
        """The row, for a message."""
        return f"{self.model}, {self.measure.spelling}, M={self.clip}, {self.land!r}"

    @property
    def hazards(self) -> bool:
        """Whether the value is a product of hazards."""
        return self.measure.first and self.model in firsts.SLOTS

    @property
    def by_propensity(self) -> bool:
        """Whether every record is weighed by its own propensity."""
        return self.case.asked.logging == "propensity"

    # --- records ---

    @cached_property
    def used(self) -> list[Row]:
        """The rows that the whole answer uses."""
        drop = self.case.asked.missing != "production"
        return [row for row in self.case.rows if not drop or row.context in self.case.candidate]

    @cached_property
    def inside(self) -> list[bool]:
        """Which of them are of the segment."""
        return [self.land in (..., row.land) for row in self.used]

    @cached_property
    def own(self) -> list[Row]:
        """Those of the segment."""
        return list(itertools.compress(self.used, self.inside))

    @cached_property
    def records(self) -> list[oracle.Record]:
        """The rows that the whole answer uses, as the oracle sees them."""
        records = [row.record for row in self.used]
        return firsts.only_first(records) if self.measure.first else records

    @property
    def _chances(self) -> list[tuple[float, ...]]:
        """The propensities of the slots of each row."""
        listed = self.case.roles["propensity"] == "chance"
        return [(r.chance,) * len(r.items) if listed else r.chances for r in self.used]

    # --- columns ---

    @property
    def columns(self) -> dict[str, Any]:
        """The columns that an oracle knows."""
        return self._columns_and_size[0]

    @property
    def size(self) -> float | None:
        """How large the terms are that the value of a part adds up; None of the whole."""
        return self._columns_and_size[1]

    @cached_property
    def _columns_and_size(self) -> tuple[dict[str, Any], float | None]:
        mine = {row.context for row in self.case.rows if self.land in (..., row.land)}
        columns: dict[str, Any] = {"missing_contexts": len(mine - set(self.case.candidate))}
        if not self.own:
            return columns | {"value": None, "production": None, "records": 0}, None
        own = list(itertools.compress(self.records, self.inside))
        columns |= {
            "production": oracle.production(own, self.measure.theta),
            "records": sum(record.weight for record in own),
            "contexts": len({record.context for record in own}),
        }
        if self.measure.shown:
            return columns | self._filled(), None
        if self.land is ...:
            return columns | self._of_whole(), None
        more, size = self._of_part({record.context for record in own})
        return columns | more, size

    def _filled(self) -> dict[str, Any]:
        """The positions that the candidate fills, and those that production does, by their θ."""
        filled = {"value": 0.0, "production": 0.0}
        for row in self.own:
            shown = {row.items: 1.0}
            lists = {"value": self.case.candidate.get(row.context, shown), "production": shown}
            for name, policy in lists.items():
                theta = [chance * sum(self.measure.theta[: len(a)]) for a, chance in policy.items()]
                filled[name] += row.times * sum(theta) / sum(row.times for row in self.own)
        return filled

    def _of_whole(self) -> dict[str, Any]:
        known, theta, logging = self.case.candidate, self.measure.theta, self.case.asked.pi
        if self.by_propensity:
            asked = self.model, self.records, self._chances, known, theta, self.clip
            seen = self._covers(self.records)
            found: dict[str, Any] = {"value": propensities.value(*asked) if seen else None}
            if self.model in ("list", "prefix", "ip"):
                found |= zip(("covered", "clipped"), propensities.shares(*asked), strict=True)
            return found
        if self.hazards:
            row = firsts.evaluate(self.model, self.records, known, theta)
        else:
            row = oracle.evaluate(
                self.model, self.records, known, theta, self.clip, logging=logging
            )
        left_out = ("lift", "missing_contexts")  # contexts that were dropped are not among these
        return {name: value for name, value in row._asdict().items() if name not in left_out}

    def _of_part(self, there: set[Any]) -> tuple[dict[str, Any], float | None]:
        """Of a part, which has these contexts."""
        known, theta, logging = self.case.candidate, self.measure.theta, self.case.asked.pi
        asked, found = (self.model, self.records), dict[str, Any]()
        if self.by_propensity:
            # Where the candidate has no lists, a part is seen by what production showed in it.
            seen = self._covers(
                r
                for r, here in zip(self.records, self.inside, strict=True)
                if here or (r.context in there and r.context in known)
            )
            each = parts.of_propensities(*asked, self._chances, known, theta, self.clip)
        elif self.hazards:
            some = [record for record in self.records if record.context in there]
            seen = firsts.evaluate(self.model, some, known, theta).covered > 0
            each = parts.of_hazards(*asked, known, theta)
        else:
            found |= parts.evaluate(*asked, self.inside, known, theta, self.clip, logging=logging)
            seen = found["covered"] > 0
            each = parts.of_cells(*asked, known, theta, self.clip, logging=logging)
        if not seen:
            return found | {"value": None}, None
        if self.clip == 1.0:  # rounding decides which weights are clipped, and whose they move
            return found, None
        mean = parts.mean(each, self.records, self.inside)
        return found | {"value": mean.worth}, mean.size

    def _covers(self, records: Iterable[oracle.Record]) -> bool:
        """Whether records have any cell of the candidate."""
        known, theta = self.case.candidate, self.measure.theta
        return any(
            r.context not in known
            or propensities.over(self.model, known[r.context], r.items, k, theta) > 0
            for r in records
            for k in range(1, len(r.items) + 1)
            if oracle.at(theta, k) > 0
        )

    def hold(self, found: Answer, *, but: Sequence[str] = ()) -> None:
        """The columns of a row are those that are expected."""
        right = {name: value for name, value in self.columns.items() if name not in but}
        hold_columns(found, right, self.where, self.size)

    # --- how far records move it ---

    @property
    def spread_known(self) -> bool:
        """Whether the oracle of spreads knows: no samples, hazards, weights that rounding clips."""
        sampled = self.case.asked.kind == "Observed" or self.by_propensity
        return not (sampled or self.clip == 1.0 or self.hazards)

    @property
    def few(self) -> bool:
        """Whether of what records vary nothing is left but rounding."""
        return sum(row.times for row in self.own) <= 2

    @cached_property
    def influence(self) -> spread.Influence:
        """How far each record that is used moves the value and production's."""
        model, records, clip, logging = self.model, self.records, self.clip, self.case.asked.pi
        if self.measure.shown:  # one cell a context, of which all is clicked
            records = [r._replace(clicks=(1.0,) * len(r.items)) for r in records]
            model, clip, logging = "rcm", math.inf, None
        known, theta = self.case.candidate, self.measure.theta
        return spread.influence(model, records, known, theta, clip, logging=logging)

    @property
    def moves(self) -> Floats:
        """Shape (own, 2): the same of the records of the segment."""
        return self.influence.moves[self.inside]

    def hold_spread(self, found: Estimate) -> None:
        """The covariance, with what cells hide, where an oracle knows it."""
        case, where = self.case, f"covariance of {self.where}"
        clusters = [row.day for row in self.used] if case.asked.clusters == "period" else None
        lone = clusters is not None and len({row.day for row in self.own}) < 2
        spreads = case.asked.clusters is not None and found.value is not None and not lone
        if found.has_variance != spreads:
            differ(where, found.has_variance, spreads)
        if not spreads or not self.spread_known or self.few:
            return
        right = spread.covariance(
            self.model,
            self.records,
            case.candidate,
            self.measure.theta,
            self.clip,
            clusters=clusters,
            logging=case.asked.pi,
            part=None if self.land is ... else self.inside,
        )
        # A part is a difference of sums over the log: it loses digits of the largest reward.
        most = max(self.measure.theta) * max(c for record in self.records for c in record.clicks)
        within = 1e-13 * max(_square(found), (self.size or 0.0) ** 2)
        within += 1e-15 * most * math.sqrt(float(np.abs(right).max()))
        hold_all(where, found.covariance, right, within)


LABELS: dict[str, Callable[[Row], Any]] = {
    "period": lambda row: row.day,
    "unit": lambda row: row.user,
    "both": lambda row: (row.day, row.user),
}
"""The cluster of a row, by kind; records are independent."""


def covariance(moves: Floats, rows: Sequence[Row], kinds: Sequence[str], *, whole: bool) -> Floats:
    """Shape (C, C): the covariance of what rows move, which vary together in clusters."""
    weights = [row.times for row in rows]
    if not whole:
        moves = moves - np.average(moves, axis=0, weights=weights)

    def added_up(kind: str) -> Floats:
        labels = [LABELS[kind](row) for row in rows] if kind in LABELS else None
        return spread.added_up(moves, weights, labels)

    found = np.asarray(sum(map(added_up, kinds)))
    if len(kinds) < 2:
        return found
    unit = np.sqrt(np.diag(found))
    unit[unit == 0] = 1.0
    scaled = (found - added_up("both")) / np.outer(unit, unit)
    values, vectors = np.linalg.eigh(scaled)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T * np.outer(unit, unit))
