"""An optimised policy: its numbers, its words, and where its gain comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.batches import sums
from foreclick.engines import write_rows
from foreclick.optimization import CHANGED, IMPOSSIBLE, UNSURE
from foreclick.optimization.tables import as_lists
from foreclick.policies import Lists
from foreclick.policies.base import Names
from foreclick.questions.answers import line_of
from foreclick.questions.evaluate import Evaluation
from foreclick.results import Headline, Result, Value, format_value
from foreclick.words import number_of

_WHY = {
    UNSURE: "nothing is sure to be better",
    IMPOSSIBLE: "no policy keeps to the constraints, with what was shown",
}


class Chosen(Lists):
    """Lists that `optimize` chose. Their probabilities sum to 1, and are not looked at again."""

    _settings: ClassVar[tuple[str, ...]] = ("table", "context", "items", "probability")

    @property
    def _what(self) -> str:
        return Lists.__name__

    @cached_property
    def optimized(self) -> bool:
        """Whether `optimize` chose it: always."""
        return True

    def _check(self) -> None:
        """Nothing: reading a policy that lies in a file would fill the memory."""


@dataclass(frozen=True, repr=False)
class Optimized(Result):
    """The best policy that a log supports.

    | column | meaning |
    |---|---|
    | value, se, low, high | what it is worth, judged by records that had no say in choosing it |
    | naive | what the estimate it was chosen by says of it, which flatters |
    | production | the mean reward of the log |
    | change, lift | value − production, and that divided by production, with paired intervals |
    | covered | the share of its exposure that was ever logged |
    | contexts, changed, kept | how many there are, got a new policy, and stay as they are |
    | lists | how many lists the changed contexts have |
    | verdict | better, worse, no difference (worth having), or cannot tell |

    Printed, it leaves out what follows from the rest; the columns are all there.

    Attributes:
        policy: the policy, with production's own lists where production stays.
        evaluation: how it was judged.
        gains: where the gain comes from: contexts sorted by it, in 200 rows at most.
        contexts: an Arrow table, by context: why it was changed or not, its records, and what it
            earns and would earn. `naive` is the estimate of the new policy, `sure` the same after
            pessimism, and `se` its standard error by the ladder.
        names: what the columns of the log are called, by their roles.
    """

    policy: Lists = field(kw_only=True, compare=False)
    evaluation: Evaluation | None = field(kw_only=True)
    gains: Result = field(kw_only=True)
    contexts: pa.Table = field(kw_only=True, compare=False)
    names: Names = field(default_factory=dict, kw_only=True, compare=False)

    @property
    def shown(self) -> tuple[str, ...]:
        """Without what follows from the rest."""
        dull = {"se", "change", "change_low", "change_high", "contexts"}
        dull |= {"lists"} if self["lists"] == self["changed"] else set()  # one each
        return tuple(c for c in self.columns if c not in dull)

    @property
    def headline(self) -> Headline:
        """What the policy is worth, by records that had no say in choosing it."""
        row = self.rows[0]
        if row["covered"] is None:  # nobody judged it
            worth = (format_value("value", row["production"]), format_value("value", row["value"]))
            line: tuple[str, ...] = (str(row["metric"]), "not judged", " → ".join(worth))
        else:
            line = line_of(row)
        title = f"The policy chosen by {row['estimator']}, against production"
        return Headline(title, (line,))

    @property
    def value(self) -> float:
        """What the policy is worth, honestly; NaN if the judge sees nothing of it."""
        found = self["value"][0]
        return math.nan if found is None else float(found)

    @property
    def naive(self) -> float:
        """What the estimate it was chosen by says of it."""
        return float(self["naive"][0])

    @property
    def production(self) -> float:
        """What production earns today."""
        return float(self["production"][0])

    def write(self, path: str | Path) -> None:
        """Write the policy, as Parquet or CSV by the ending of the name; `fc.Lists` reads it.

        The columns are the context and the list of items, called as in the log, `probability`, and
        whether the context is `changed`. The lists of a context stand together, the likeliest
        first. In CSV a list is JSON, for instance ``[7, 3]``.
        """
        write_rows(as_lists(self.policy.table, self.names), path)


_STEPS = 5  # rows for gains that differ by a factor of e
_MOST = 95  # rows of gains, and of losses: from the largest down to a 10⁸th of it


def gains(contexts: pa.Table) -> Result:
    """Contexts from the largest gain to the largest loss, those that gain alike in one row.

    A context gains its share of the records, times what its policy earns more than production,
    after pessimism. So gains of all rows add up to that of the policy. Alike are gains that differ
    by a fifth or less: however many contexts there are, they are 200 rows at most.

    Args:
        contexts: `Optimized.contexts`.
    """
    columns = ("contexts", "changed", "records", "gain")
    n, production, sure = (np.asarray(contexts[c]) for c in ("records", "production", "sure"))
    changed = np.asarray(pc.equal(contexts["why"], CHANGED))
    if not n.sum():
        return Result((), columns)
    gain = np.where(changed, n * (sure - production), 0.0)
    size = np.abs(gain)
    most = size.max() or 1.0
    rank = np.floor(np.log(most / np.where(size > 0, size, most)) * _STEPS)
    keys = np.column_stack([np.sign(gain), np.minimum(rank, _MOST - 1), changed])
    alike, number = np.unique(keys, axis=0, return_inverse=True)
    number = number.ravel()
    count, records, gained = (sums(number, of, len(alike)) for of in (np.ones(len(n)), n, gain))
    # The largest gain first, and of those that gain nothing, the changed ones.
    order = np.lexsort((1 - alike[:, 2], -gained / count))
    rows = np.stack([count, count * alike[:, 2], records, gained / n.sum()], axis=1)
    kinds = (int, int, float, float)
    named = (
        {c: kind(of) for c, kind, of in zip(columns, kinds, row, strict=True)}
        for row in rows[order].tolist()
    )
    return Result(tuple(named), columns)


def summary(
    contexts: pa.Table, judged: Evaluation | None, names: tuple[str, str], folds: int
) -> tuple[dict[str, Value], list[str]]:
    """What all contexts earn together, by the naive estimate and honestly: one row, and words.

    Args:
        contexts: see `Optimized`.
        judged: how the policies of folds were judged, if they were.
        names: of the estimator and the metric.
        folds: how many there are.
    """
    n = np.asarray(contexts["records"])
    production, naive = (
        float(n @ np.asarray(contexts[c])) / (float(n.sum()) or 1.0)
        for c in ("production", "naive")
    )
    changed = int(pc.sum(pc.equal(contexts["why"], CHANGED)).as_py() or 0)
    # Where no fold has a sure improvement, nothing was judged, and production would stay.
    honest: dict[str, Value] = {"value": naive if folds == 1 else production}
    honest |= judged.to_dicts()[0] if judged else {}
    paired = ("change", "change_low", "change_high", "lift", "lift_low", "lift_high")
    row: dict[str, Value] = {
        "estimator": names[0],
        "metric": names[1],
        **{column: honest.get(column) for column in ("value", "se", "low", "high")},
        "naive": naive,
        "production": production,
        **{column: honest.get(column) for column in paired},
        "covered": honest.get("covered"),
        "contexts": contexts.num_rows,
        "changed": changed,
        "kept": contexts.num_rows - changed,
        "lists": int(np.asarray(contexts["lists"]).sum()),
        "verdict": honest.get("verdict"),
    }
    reasons = contexts["why"].value_counts().to_pylist()
    stay = (
        f" {one['counts']:,} stay as they are: {_WHY[one['values']]}."
        for one in sorted(reasons, key=lambda one: -one["counts"])
        if one["values"] != CHANGED
    )
    notes = [f"{changed:,} of {contexts.num_rows:,} contexts get a new policy." + "".join(stay)]
    if judged is not None:
        value = "nothing" if row["value"] is None else f"{float(row['value']):.4g}"
        notes.append(
            f"The estimate that it was chosen by says {naive:.4g}; records that had no say in it "
            f"say {value}, and production earns {production:.4g}."
        )
        notes += judged.notes
    elif folds == 1:
        notes.append(
            "The policy was not judged by records of its own, so value is the naive one, which "
            "flatters. Leave judge=None out."
        )
    elif changed:
        part = "Half of the log" if folds == 2 else f"{folds - 1} of {folds} parts of the log"
        verb = "is" if folds == 2 else "are"
        notes.append(
            f"{part} {verb} too small to find an improvement, so this policy was not tested, and "
            f"value is production's. Next: log {number_of(float(n.sum()), 'more record')}."
        )
    return row, notes
