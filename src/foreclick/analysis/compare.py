"""`compare`: several candidates with production and with each other, paired."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from foreclick import inference
from foreclick.analysis.clusters import clusters_of
from foreclick.analysis.curves import with_curves
from foreclick.analysis.effort import announce_effort
from foreclick.analysis.headline import contradicts, usual_estimators
from foreclick.analysis.trends import trend_notes
from foreclick.analysis.unseen import NOTHING, beyond, largest_slots
from foreclick.errors import ModelError
from foreclick.estimators import (
    AnySums,
    EstimatorLike,
    Ladder,
    Question,
    Unseen,
    Weighted,
    check_metrics,
    estimate,
    joint_covariance,
    pair_up,
    parse_estimators,
)
from foreclick.logs import CONTEXT
from foreclick.metrics import USUAL_METRICS, AnyMetric, Metric, Ratio, parse_any
from foreclick.options import checked, choice
from foreclick.policies import Policy, PolicyLike, as_policy
from foreclick.progress import Say
from foreclick.results import Headline, Result, Value, format_value, span
from foreclick.tallies import LogLike
from foreclick.tallies.base import Tally, settle
from foreclick.words import few

PRODUCTION = "production"
_LINES = 20  # candidates that an answer lists; the table has them all
_TURNED = {inference.WORSE: inference.BETTER, inference.BETTER: inference.WORSE}


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """Who is better than whom: one row per pair.

    | column | meaning |
    |---|---|
    | estimator, metric | what was asked, the same for all pairs |
    | candidate, against | the pair; "production" is the log's own mean |
    | value, other | the estimate of each |
    | change, se | value − other, and its standard error, paired |
    | low, high | its interval, for chance and for what the log cannot see of either |
    | all_low, all_high | intervals that hold all together, at the confidence |
    | p, holm, bh | how rare by chance; corrected for one false alarm; for the share of them |
    | covered | the share of the candidate's exposure that was ever logged |
    | verdict | better, worse, no difference (worth having), or cannot tell; by the joint ends |

    Attributes:
        confidence: of the intervals.
    """

    confidence: float = 0.95

    @property
    def shown(self) -> tuple[str, ...]:
        """Without what is the same in all rows, which is the title."""
        return tuple(c for c in self.columns if c not in {"estimator", "metric"})

    @property
    def headline(self) -> Headline:
        """Every candidate against production, the best first, and who is better than whom."""
        mine = [row for row in self.rows if row["against"] == PRODUCTION]
        mine.sort(key=lambda row: math.inf if row["value"] is None else -float(row["value"]))
        lines = [_line(row) for row in mine[:_LINES]]
        said = [] if len(mine) <= _LINES else [f"The best {_LINES} of {len(mine):,}."]
        best = mine[0]
        if best["value"] is not None and len(mine) > 1:
            said.append(self._against_others(str(best["candidate"])))
        return Headline(f"Candidates against production: {self.title}", tuple(lines), tuple(said))

    def _against_others(self, best: str) -> str:
        """Which of the others the best of them is better than."""
        words = {
            row["against"]: row["verdict"] for row in self.rows if row["candidate"] == best
        } | {
            row["candidate"]: _TURNED.get(str(row["verdict"]))
            for row in self.rows
            if row["against"] == best
        }
        words.pop(PRODUCTION, None)
        above = [str(name) for name, word in words.items() if word == inference.BETTER]
        open_ = [str(name) for name in words if name not in above]
        parts = [f"is better than {few(above)}"] if above else []
        parts += [f"cannot be told from {few(open_)}"] if open_ else []
        return f"{best} {' and '.join(parts)}."


@checked(missing=choice("error", "production"))
def compare(  # noqa: PLR0913 - a question has many sides; all but two are keywords
    log: LogLike,
    candidates: Mapping[str, PolicyLike],
    *,
    metric: str | AnyMetric | Sequence[str | AnyMetric] = USUAL_METRICS[0],
    estimator: EstimatorLike | Sequence[EstimatorLike] | None = None,
    clip: float = math.inf,
    missing: Literal["error", "production"] = "error",
    confidence: float = 0.95,
    practical: float = 0.0,
    metrics: str | AnyMetric | Sequence[str | AnyMetric] | None = None,
    estimators: EstimatorLike | Sequence[EstimatorLike] | None = None,
    progress: Say | None = None,  # noqa: ARG001 - `checked` heeds it
) -> Comparison:
    """Several candidates against production and against each other, from one log.

    Differences are paired: two candidates that share most of their lists share most of their
    noise, and the interval of their difference knows it. With m pairs, `holm` and the joint
    intervals keep the chance of any false alarm at what one pair would have.

    Args:
        log: a Log or Tally; with a period or a unit, or else nothing can be paired.
        candidates: policies, or tables of rankings, by name.
        metric: what is counted.
        estimator: one estimator. By default the ladder answers and `ip` checks it, as in
            `evaluate`: where the two contradict each other, the verdict is that nobody can tell.
            With a clip, `ip` answers.
        clip: its M.
        missing: what contexts without a list count as: "error", or "production".
        confidence: of the intervals.
        practical: the smallest change worth having, for the verdict.
        metrics: the same as `metric`.
        estimators: the same as `estimator`.
        progress: called with what is being done; by default it is shown on a terminal.
    """
    metric = metric if metrics is None else metrics
    estimator = estimator if estimators is None else estimators
    _check_names(candidates)
    counted, notes = settle(log)
    kinds, doubts = clusters_of(counted, "auto")
    notes += doubts
    if kinds == ("record",):
        raise ModelError(
            "the log has no period and no unit, so differences cannot be paired. Read it with "
            "period= or unit=; or compare one candidate with production by fc.evaluate."
        )
    asked = parse_any(metric)
    _check_one("metric", [m.name for m in asked])
    policies = [as_policy(p, counted, f"candidate {name!r}") for name, p in candidates.items()]
    wanted = _estimators(counted, policies, asked, estimator, clip)
    check_metrics(counted.shape, [part for each in asked for part in each.parts])
    by, assumed = with_curves(counted, wanted, asked)
    questions = [
        Question(policy, by, asked, missing=missing, clusters=kinds) for policy in policies
    ]
    announce_effort(counted, by, len(policies))
    answers = pair_up(counted, questions, [estimate(counted, q) for q in questions])
    notes += trend_notes(counted, questions[0]) + assumed
    views = []
    for sums in zip(*(answer.sums for answer in answers), strict=True):
        found = dict(zip(candidates, sums, strict=True))
        views.append(_View(found, largest_slots(counted, sums), confidence))
    rows = views[0].judged(practical)
    for view in views[1:]:
        notes += views[0].checked(rows, view, practical)
    one = views[0].one
    unseen = views[0].unseen
    p = np.array([row["p"] for row in rows])
    for row, h, q in zip(rows, inference.holm(p), inference.benjamini_hochberg(p), strict=True):
        row |= {"holm": float(h), "bh": float(q)}
    rows += [_unseen(side, one.production or 0.0) for side in unseen]
    if unseen:
        lost = ", ".join(side.name for side in unseen)
        notes.append(f"Nothing of {lost} was ever shown: the log cannot tell.")
    told = [{"estimator": one.estimator, "metric": one.metric.name} | row for row in rows]
    title = f"{one.metric.name} by {one.estimator} ({100 * confidence:g}% confidence for all pairs)"
    return Comparison(tuple(told), tuple(told[0]), tuple(notes), title, confidence=confidence)


def _line(row: Mapping[str, Value]) -> tuple[str, ...]:
    """Who, verdict, by how much, from where to where."""
    name, verdict = str(row["candidate"]), str(row["verdict"])
    if row["value"] is None:
        return name, verdict, "no number: nothing of it was ever shown"
    ends = span("change", row["all_low"], row["all_high"])
    start, end = (format_value("value", row[c]) for c in ("other", "value"))
    return name, verdict, format_value("change", row["change"]), f"({ends})", f"{start} → {end}"


def _check_names(candidates: object) -> None:
    """Refuse what is not candidates by name."""
    if not isinstance(candidates, Mapping) or {CONTEXT, "items"} & set(candidates):
        what = "a table" if isinstance(candidates, Mapping) else f"a {type(candidates).__name__}"
        raise ModelError(f"candidates is {what}. Give them by name: {{'a': …, 'b': …}}.")
    if not candidates or PRODUCTION in candidates:
        raise ModelError(
            "give candidates by name, {'a': …, 'b': …}; production itself is always among them."
        )


def _estimators(
    counted: Tally,
    policies: Sequence[Policy],
    metrics: Sequence[AnyMetric],
    asked: EstimatorLike | Sequence[EstimatorLike] | None,
    clip: float,
) -> list[Weighted | Ladder]:
    """The estimator that answers; by default also the one that checks it."""
    if asked is None and clip == math.inf:
        slots_only = [policy for policy in policies if not policy.complete]
        parts = [part for metric in metrics for part in metric.parts]
        usual = usual_estimators(counted, [*slots_only, *policies][0], "frequency", parts)
        return parse_estimators(usual)
    found = parse_estimators("ip" if asked is None else asked, clip)
    _check_one("estimator", [e.name for e in found])
    _check_one("clip", list(found[0].clip or ()))
    return found


def _check_one(option: str, given: Sequence[object]) -> None:
    """Refuse several of what a comparison has one of."""
    if len(given) > 1:
        listed = ", ".join(map(str, given))
        raise ModelError(
            f"compare takes one {option}, and was given {len(given)}: {listed}. Compare by each in "
            "turn."
        )


@dataclass(frozen=True)
class _Side:
    """One side of a pair."""

    name: str
    value: float | None
    unseen: Unseen
    beyond: float
    covered: float
    repeated: float | None = None


def _pairs(count: int) -> list[tuple[int, int]]:
    """Every candidate with production, which is last, then every candidate with every other."""
    own = range(count - 1)
    return [(i, count - 1) for i in own] + list(itertools.combinations(own, 2))


class _View:
    """All candidates and production as one estimator sees them.

    Args:
        found: what it says of each candidate.
        most: the largest reward of a slot, by metric.
        confidence: of the intervals.
    """

    def __init__(
        self,
        found: Mapping[str, AnySums],
        most: dict[Metric, float],
        confidence: float,
    ) -> None:
        self.found, self._confidence = found, confidence
        self.one = next(iter(found.values()))
        sides = [
            _Side(n, s.value, s.unseen(), beyond(s, most), s.covered_share, s.repeated)
            for n, s in found.items()
        ]
        self.unseen = [side for side in sides if side.value is None]
        self._seen = [side for side in sides if side.value is not None]
        self._seen.append(_Side(PRODUCTION, self.one.production or 0.0, NOTHING, 0.0, 1.0))

    def judged(self, practical: float) -> list[dict[str, Any]]:
        """One row per pair, with its verdict."""
        pairs = _pairs(len(self._seen))
        paired = self._paired(pairs)
        rows = []
        for i, (a, b) in enumerate((self._seen[j], self._seen[k]) for j, k in pairs):
            row = _row(a, b, paired, i)
            verdict = inference.judge(self._evidence(a, b, row), practical)
            rows.append(row | {"verdict": verdict.word})
        return rows

    def _paired(self, pairs: list[tuple[int, int]]) -> inference.Contrasts:
        """The differences of pairs of candidates and production, which is last."""
        values = [float(side.value or 0.0) for side in self._seen]
        spreads = [self.found[side.name].spread for side in self._seen[:-1]]
        told = [spread for spread in spreads if spread and spread.parts and spread.freedom >= 1]
        if len(told) < len(spreads):
            raise ModelError("the log has too few periods or units to pair differences.")
        if not told:
            return inference.contrasts(values, np.zeros((1, 1)), pairs, self._confidence, 1.0)
        freedom = min(spread.freedom for spread in told)
        joint = joint_covariance(told)
        return inference.contrasts(values, joint, pairs, self._confidence, freedom)

    def _evidence(self, a: _Side, b: _Side, row: dict[str, Any]) -> inference.Evidence:
        return inference.Evidence(
            estimator=self.one.estimator,
            metric=self.one.metric.name,
            change=row["change"],
            low=row["all_low"] - b.beyond,
            high=row["all_high"],
            unseen=sum(a.unseen) + sum(b.unseen) + b.beyond,
            beyond=a.beyond,
            covered=a.covered,
            production=row["other"],
            confidence=self._confidence,
            repeated=a.repeated,
            assumes=self.one.rungs is None,
            unit="" if isinstance(self.one.metric, Ratio) else " a record",
        )

    def checked(self, rows: list[dict[str, Any]], other: _View, practical: float) -> list[str]:
        """Notes on pairs that another estimator contradicts: nobody can tell, the rows then say."""
        words = {(r["candidate"], r["against"]): r["verdict"] for r in other.judged(practical)}
        disputed = []
        for row in rows:
            pair = row["candidate"], row["against"]
            word = words.get(pair, row["verdict"])
            if word == row["verdict"]:
                continue
            both = [[view.found[n] for n in pair if n != PRODUCTION] for view in (self, other)]
            if _TURNED.get(word) == row["verdict"] or contradicts(both[0], both[1]):
                row["verdict"] = inference.UNKNOWN
                disputed.append(f"{pair[0]} against {pair[1]}")
        if not disputed:
            return []
        mine, theirs = self.one.estimator, other.one.estimator
        said = f"{inference.DISAGREE.capitalize()} ({mine!r} and {theirs!r}) on {few(disputed)}."
        return [f"{said} A backtest says which of them predicts this log."]


def _row(one: _Side, other: _Side, paired: inference.Contrasts, i: int) -> dict[str, Any]:
    change, se = float(paired.change[i]), float(paired.se[i])
    unseen = one.unseen.against(other.unseen)
    low, high = change - unseen.less, change + unseen.more
    return {
        "candidate": one.name,
        "against": other.name,
        "value": one.value,
        "other": other.value,
        "change": change,
        "se": se,
        "low": low - paired.reach * se,
        "high": high + paired.reach * se,
        "all_low": low - paired.joint * se,
        "all_high": high + paired.joint * se,
        "p": float(paired.p[i]),
        "holm": 1.0,
        "bh": 1.0,
        "covered": one.covered,
    }


def _unseen(side: _Side, production: float) -> dict[str, Any]:
    empty = dict.fromkeys(("change", "se", "low", "high", "all_low", "all_high", "p", "holm", "bh"))
    return {
        "candidate": side.name,
        "against": PRODUCTION,
        "value": None,
        "other": production,
        **empty,
        "covered": side.covered,
        "verdict": inference.UNKNOWN,
    }
