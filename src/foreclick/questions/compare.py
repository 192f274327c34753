"""`compare`: several candidates with production and with each other, paired."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from foreclick import inference
from foreclick.errors import ModelError
from foreclick.estimate.estimates import Estimate
from foreclick.estimate.sums import Unseen
from foreclick.estimate.work import estimate
from foreclick.estimators import EstimatorLike, parse_estimators
from foreclick.learn.clusters import clusters_of
from foreclick.learn.curves import with_curves
from foreclick.learn.effort import announce_effort
from foreclick.logs import CONTEXT
from foreclick.metrics import USUAL_METRICS, AnyMetric, Metric, Ratio, parse_any
from foreclick.options import choice, verb
from foreclick.policies import PolicyLike, as_policy
from foreclick.question import Question, check_metrics
from foreclick.questions.answers import prior_notes
from foreclick.questions.evaluate import usual_estimators
from foreclick.questions.verdicts import beyond, contradicts, largest_slots
from foreclick.results import Headline, Result, Value, format_value, span
from foreclick.tallies import LogLike
from foreclick.tallies.base import settle
from foreclick.words import few

PRODUCTION = "production"
_LINES = 20  # candidates that an answer lists; the table has them all
_TURNED = {inference.WORSE: inference.BETTER, inference.BETTER: inference.WORSE}
_NOTHING = Unseen(0.0, 0.0)  # of production, all was seen


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


@verb(missing=choice("error", "production"))
def compare(
    log: LogLike,
    candidates: Mapping[str, PolicyLike],
    *,
    metrics: str | AnyMetric | Sequence[str | AnyMetric] = USUAL_METRICS[0],
    estimators: EstimatorLike | Sequence[EstimatorLike] | None = None,
    clip: float = math.inf,
    missing: Literal["error", "production"] = "error",
    confidence: float = 0.95,
    min_effect: float = 0.0,
) -> Comparison:
    """Several candidates against production and against each other, from one log.

    Differences are paired: two candidates that share most of their lists share most of their
    noise, and the interval of their difference knows it. With m pairs, `holm` and the joint
    intervals keep the chance of any false alarm at what one pair would have.

    Args:
        log: a Log or Tally; with a period or a unit, or else nothing can be paired.
        candidates: policies, or tables of rankings, by name.
        metrics: what is counted, one metric.
        estimators: one estimator. By default the ladder answers and `ip` checks it, as in
            `evaluate`: where the two contradict each other, the verdict is that nobody can tell.
            With a clip, `ip` answers.
        clip: its M.
        missing: what contexts without a list count as: "error", or "production".
        confidence: of the intervals.
        min_effect: the smallest change worth having, as a share of production; the verdict is
            then about changes of this size. 0.01 is 1 % of production.
    """
    _check_names(candidates)
    counted, notes = settle(log)
    kinds, doubts = clusters_of(counted, "auto")
    notes += doubts
    if kinds == ("record",):
        raise ModelError(
            "the log has no period and no unit, so differences cannot be paired. Read it with "
            "period= or unit=; or compare one candidate with production by fc.evaluate."
        )
    asked = parse_any(metrics)
    _check_one("metric", [m.name for m in asked])
    parts = [part for each in asked for part in each.parts]
    check_metrics(counted.shape, parts)
    policies = [
        as_policy(policy, counted.names, f"candidate {name!r}")
        for name, policy in candidates.items()
    ]
    if estimators is None and clip == math.inf:
        incomplete = [policy for policy in policies if not policy.complete]
        first = [*incomplete, *policies][0]
        wanted = parse_estimators(usual_estimators(counted, first, "frequency", parts))
    else:
        wanted = parse_estimators("ip" if estimators is None else estimators, clip)
        _check_one("estimator", [e.name for e in wanted])
        _check_one("clip", list(wanted[0].clip or ()))
    by, assumed = with_curves(counted, wanted, asked)
    question = Question(policies, by, asked, missing=missing, clusters=kinds)
    announce_effort(counted, by, len(policies))
    found = estimate(counted, question)
    each = [found.of_candidate(c) for c in range(len(policies))]
    notes += prior_notes(counted, found) + assumed
    views = []
    for estimates in zip(*each, strict=True):
        named = dict(zip(candidates, estimates, strict=True))
        views.append(_View(named, largest_slots(counted, estimates), confidence))
    rows = views[0].judged(min_effect)
    for view in views[1:]:
        notes += views[0].checked(rows, view, min_effect)
    one = views[0].one
    p = np.array([row["p"] for row in rows])
    for row, h, q in zip(rows, inference.holm(p), inference.benjamini_hochberg(p), strict=True):
        row |= {"holm": float(h), "bh": float(q)}
    if unseen := [name for name, other in views[0].found.items() if other.value is None]:
        empty = dict.fromkeys(
            ("change", "se", "low", "high", "all_low", "all_high", "p", "holm", "bh")
        )
        rows += [
            {
                "candidate": name,
                "against": PRODUCTION,
                "value": None,
                "other": one.production or 0.0,
                **empty,
                "covered": views[0].found[name].covered,
                "verdict": inference.UNKNOWN,
            }
            for name in unseen
        ]
        notes.append(f"Nothing of {', '.join(unseen)} was ever shown: the log cannot tell.")
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
    given = candidates if isinstance(candidates, Mapping) else {"items": candidates}
    if {CONTEXT, "items"} & set(given) or any(isinstance(v, list | tuple) for v in given.values()):
        what = "a table" if isinstance(candidates, Mapping) else f"a {type(candidates).__name__}"
        raise ModelError(f"candidates is {what}. Give them by name: {{'a': …, 'b': …}}.")
    if not given or PRODUCTION in given:
        raise ModelError(
            "give candidates by name, {'a': …, 'b': …}; production itself is always among them."
        )


def _check_one(option: str, given: Sequence[object]) -> None:
    """Refuse several of what a comparison has one of."""
    if len(given) > 1:
        listed = ", ".join(map(str, given))
        raise ModelError(
            f"compare takes one {option}, and was given {len(given)}: {listed}. Compare by each in "
            "turn."
        )


class _View:
    """All candidates and production as one estimator sees them.

    Args:
        found: what it says of each candidate.
        most: the largest reward of a slot, by metric.
        confidence: of the intervals.
    """

    def __init__(
        self, found: Mapping[str, Estimate], most: dict[Metric, float], confidence: float
    ) -> None:
        self.found, self._most, self._confidence = found, most, confidence
        self.one = next(iter(found.values()))

    def judged(self, min_effect: float) -> list[dict[str, Any]]:
        """One row per pair: every candidate with production, then with every other."""
        seen = {name: one for name, one in self.found.items() if one.value is not None}
        if not all(one.told for one in seen.values()):
            raise ModelError("the log has too few periods or units to pair differences.")
        names, production = [*seen, PRODUCTION], self.one.production or 0.0
        values = [float(one.value or 0.0) for one in seen.values()] + [production]
        last = len(seen)
        pairs = [(i, last) for i in range(last)] + list(itertools.combinations(range(last), 2))
        joint, freedom = np.zeros((1, 1)), 1.0
        if seen:
            joint = self.one.of.joint(list(seen.values()), production=True)
            freedom = self.one.of.freedom(0)
        paired = inference.contrasts(values, joint, pairs, self._confidence, freedom)
        unseen = [*(one.unseen() for one in seen.values()), _NOTHING]
        further = [*(beyond(one, self._most) for one in seen.values()), 0.0]
        rows = []
        for number, (i, j) in enumerate(pairs):
            change, se = float(paired.change[number]), float(paired.se[number])
            less, more = unseen[i].against(unseen[j])
            one = seen[names[i]]
            row: dict[str, Any] = {
                "candidate": names[i],
                "against": names[j],
                "value": values[i],
                "other": values[j],
                "change": change,
                "se": se,
                "low": change - less - paired.reach * se,
                "high": change + more + paired.reach * se,
                "all_low": change - less - paired.joint * se,
                "all_high": change + more + paired.joint * se,
                "p": float(paired.p[number]),
                "holm": 1.0,
                "bh": 1.0,
                "covered": one.covered,
            }
            evidence = inference.Evidence(
                estimator=one.estimator,
                metric=one.metric.name,
                change=change,
                low=row["all_low"] - further[j],
                high=row["all_high"],
                unseen=sum(unseen[i]) + sum(unseen[j]) + further[j],
                beyond=further[i],
                covered=one.covered,
                production=production,
                confidence=self._confidence,
                records=one.stratum.records,
                repeated=one.repeated,
                assumes=not one.ladder,
                unit="" if isinstance(one.metric, Ratio) else " a record",
            )
            rows.append(row | {"verdict": inference.judge(evidence, min_effect).word})
        return rows

    def checked(self, rows: list[dict[str, Any]], other: _View, min_effect: float) -> list[str]:
        """Notes on pairs that another estimator contradicts: nobody can tell, the rows then say."""
        words = {(r["candidate"], r["against"]): r["verdict"] for r in other.judged(min_effect)}
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
