"""`resample`: how uncertain any statistic of a log is, by leaving clusters out or drawing them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from foreclick import inference
from foreclick.batches import Cluster, batches_of, reweighted
from foreclick.engines import whole, zero
from foreclick.errors import ForeclickWarning, ModelError, OptionError
from foreclick.logs import BUCKET, PERIOD, N
from foreclick.options import checked, choice
from foreclick.progress import Say, working
from foreclick.questions.clusters import clusters_of
from foreclick.results import Result
from foreclick.tallies import LogLike
from foreclick.tallies.base import Tally, settle

Statistic = Callable[[Tally], float | Mapping[str, float]]
Method = Literal["jackknife", "bootstrap"]

ALONE = "value"
"""The name of a statistic that is a single number."""


@dataclass(frozen=True, repr=False)
class Resampling(Result):
    """How uncertain a statistic is: one row per name.

    | column | meaning |
    |---|---|
    | name | of the statistic; "value" if it is a single number |
    | value | of the whole log |
    | se, low, high | its standard error and interval; None if a replicate had no answer |
    | bias | by how much the replicates suggest that it is off |
    | replicates | of how many altered logs it was computed |
    """


@checked(clusters=choice("auto", "unit", "period"))
def resample(  # noqa: PLR0913 - all but two are keywords
    log: LogLike,
    statistic: Statistic,
    *,
    method: Method = "jackknife",
    clusters: Literal["auto", "unit", "period"] = "auto",
    replicates: int = 200,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Say | None = None,  # noqa: ARG001 - `checked` heeds it
) -> Resampling:
    """How uncertain any number is that is computed from a log.

    The statistic is computed again from altered logs: without one cluster of records after the
    other (jackknife, se² = (G − 1)/G Σ (θ_c − θ̄)², Student's t with G − 1 degrees of freedom), or
    with G clusters drawn with repeats (bootstrap, percentiles). Clusters are periods, or the 30
    buckets that units (users) are hashed to. Only counts of the tally change, never raw records.

    It assumes that clusters are independent, and for the jackknife that the statistic is smooth: a
    mean, a ratio, an estimate, but not a median or the best of several.

    Args:
        log: a Log or Tally with a period or a unit.
        statistic: a function of a Tally that returns a number, or numbers by name.
        method: "jackknife", a replicate per cluster; or "bootstrap".
        clusters: whose records vary together: those of a "period", or of a "unit". By default both
            if the log has them, and of each number the wider.
        replicates: how many logs the bootstrap draws.
        confidence: of the intervals.
        seed: of the bootstrap's draws.
        progress: called with what is being done; by default it is shown on a terminal.

    Examples:
        >>> import foreclick as fc
        >>> log = fc.read_log(
        ...     {
        ...         "context": ["q"] * 4,
        ...         "items": [[1, 2]] * 4,
        ...         "clicks": [[1, 0], [0, 0], [1, 1], [0, 0]],
        ...         "day": [1, 2, 3, 4],
        ...     },
        ...     period="day",
        ... )
        >>> def clicks(tally):
        ...     rows = tally.to_arrow().to_pylist()
        ...     return sum(r["n"] * r["clicks_1"] for r in rows) / sum(r["n"] for r in rows)
        >>> found = fc.resample(log, clicks, clusters="period")
        >>> found["value"], [round(se, 4) for se in found["se"]], found["replicates"]
        ([0.5], [0.2887], [4])
    """
    if not callable(statistic):
        raise OptionError(
            f"statistic={statistic!r}: give a function of a Tally that returns a number, or "
            "numbers by name."
        )
    counted, notes = settle(log)
    kinds, doubts = clusters_of(counted, clusters)
    notes += doubts
    clustered: list[Cluster] = [kind for kind in kinds if kind != "record"]
    if not clustered:
        raise ModelError(
            "the log has no unit, and no period or too few of them, so there is nothing to leave "
            "out or to draw. Read it with period= or unit=."
        )
    values = _numbers(statistic(counted))
    rows: dict[str, dict[str, Any]] = {}
    for kind in clustered:
        drawn = _replicates(counted, statistic, kind, method, replicates, seed)
        for name, value in values.items():
            found = _row(name, value, [numbers.get(name) for numbers in drawn], method, confidence)
            if name not in rows or _wider(found, rows[name]):
                rows[name] = found
    lost = [name for name, row in rows.items() if row["se"] is None]
    if lost:
        notes.append(
            f"No interval of {', '.join(lost)}: some of the altered logs had no answer, so it "
            "rests on few clusters alone."
        )
    return Resampling(tuple(rows.values()), _COLUMNS, tuple(notes))


_COLUMNS = ("name", "value", "se", "low", "high", "bias", "replicates")


def _replicates(
    counted: Tally,
    statistic: Statistic,
    kind: Cluster,
    method: Method,
    replicates: int,
    seed: int,
) -> list[dict[str, float | None]]:
    """The statistic of every altered log."""
    clusters = _clusters(counted, kind)
    if len(clusters) < 2:  # noqa: PLR2004
        raise ModelError(
            f"the log has only one {kind}, so there is nothing to leave out or to draw. Use a log "
            f"of more {kind}s."
        )
    if method == "jackknife":
        times = [[int(c != left) for c in range(len(clusters))] for left in range(len(clusters))]
    else:
        times = inference.draws(len(clusters), replicates, seed).tolist()
    found = []
    with working() as say, warnings.catch_warnings():
        # What is to be said of the log was said when it was whole.
        warnings.simplefilter("ignore", ForeclickWarning)
        for number, each in enumerate(times):
            say(f"{method.capitalize()} by {kind}", number / len(times))
            altered = _altered(counted, kind, clusters, each)
            found.append(_numbers(statistic(altered)))
    return found


def _clusters(counted: Tally, kind: Cluster) -> dict[int, Any]:
    """The numbers of all clusters, with their values: periods, or buckets."""
    batches = batches_of(counted)
    if kind == "period":
        periods = batches.codebook.column(PERIOD)
        return dict(enumerate(periods.values.to_pylist()))
    there = np.unique(np.concatenate(list(batches.map(lambda b: np.unique(b.clusters["unit"])))))
    return {bucket: bucket for bucket in there.tolist()}


def _altered(
    counted: Tally, kind: Cluster, clusters: Mapping[int, Any], often: Sequence[int]
) -> Tally:
    """The tally of a log that has each cluster so many times."""
    table = counted.stored
    n, cluster = table[N], table[PERIOD if kind == "period" else BUCKET]
    values: dict[int, list[Any]] = {}
    times = np.zeros(batches_of(counted).codebook.clusters(kind), dtype=np.int64)
    for (number, value), count in zip(clusters.items(), often, strict=True):
        values.setdefault(count, []).append(value)
        times[number] = count
    changed = n
    for count, some in values.items():
        if count != 1:
            changed = _among(cluster, some).ifelse(n * whole(count), changed)
    rows = table.mutate(**{N: changed})
    return reweighted(counted, rows.filter(rows[N] > zero(rows[N].type())), kind, times)


def _among(cluster: Any, values: list[Any]) -> Any:  # noqa: ANN401 - Ibis values
    """Whether a row is of one of the clusters; rows without a period are a cluster too."""
    named = cluster.isin([value for value in values if value is not None]).fill_null(False)
    return named | cluster.isnull() if None in values else named


def _numbers(found: Any) -> dict[str, float | None]:  # noqa: ANN401 - a user's
    """What a statistic returned, by name; None for what is no number."""
    if not isinstance(found, Mapping):
        found = {ALONE: found}
    numbers: dict[str, float | None] = {}
    for name, value in found.items():
        try:
            number = math.nan if value is None else float(value)
        except (TypeError, ValueError):
            raise ModelError(
                f"the statistic returned {type(value).__name__} for {name!r}. It must return a "
                "number, or numbers by name: {'ip': 0.5}."
            ) from None
        numbers[str(name)] = number if math.isfinite(number) else None
    return numbers


def _row(
    name: str,
    value: float | None,
    drawn: list[float | None],
    method: Method,
    confidence: float,
) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(_COLUMNS)
    row |= {"name": name, "value": value, "replicates": len(drawn)}
    known = [number for number in drawn if number is not None]
    if value is None or len(known) < len(drawn):
        return row
    from_values = inference.jackknife if method == "jackknife" else inference.bootstrap
    return row | from_values(value, known, confidence)._asdict()


def _wider(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether an interval says less than another; one that is not known says least."""
    if one["se"] is None or other["se"] is None:
        return other["se"] is not None
    return bool(one["high"] - one["low"] > other["high"] - other["low"])
