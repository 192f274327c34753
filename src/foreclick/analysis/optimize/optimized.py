"""An optimised policy: its numbers, its words, and where to find the rest."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.questions.answers import line_of
from foreclick.questions.evaluate import Evaluation
from foreclick.engines import write_readable
from foreclick.optimization import CHANGED, IMPOSSIBLE, UNSURE
from foreclick.policies import Lists
from foreclick.results import Headline, Result, Value, format_value

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
            pessimism, `se` its standard error, and `se_next` that after as many records again, of
            the new policy; these two are of the ladder.
    """

    policy: Lists = field(kw_only=True, compare=False)
    evaluation: Evaluation | None = field(kw_only=True)
    gains: Result = field(kw_only=True)
    contexts: pa.Table = field(kw_only=True, compare=False)

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
            line = line_of(row, (), several=False)
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

        The columns are `context`, `item_1` …, `probability`, and whether the context is `changed`;
        the lists of a context stand together, the likeliest first.
        """
        write_readable(self.policy.table, path)


_HALF = 0.5
_JUDGED = ("value", "se", "low", "high")
_PAIRED = ("change", "change_low", "change_high", "lift", "lift_low", "lift_high")


def summed_up(
    contexts: pa.Table,
    judged: Evaluation | None,
    names: tuple[str, str],
    explore: float,
    folds: int,
) -> dict[str, Value]:
    """The one row: what all contexts earn together, by the naive estimate and honestly.

    Args:
        contexts: see `Optimized`.
        judged: how the policies of folds were judged, if they were.
        names: of the estimator and the metric.
        explore: how often production is shown.
        folds: how many there are.
    """
    n = np.asarray(contexts["records"])
    records = float(n.sum()) or 1.0
    production, naive = (
        float(n @ np.asarray(contexts[c])) / records for c in ("production", "naive")
    )
    changed = int(pc.sum(pc.equal(contexts["why"], CHANGED)).as_py() or 0)
    honest = judged.to_dicts()[0] if judged else {}
    left = 1 - explore

    def mixed(value: Value, start: float) -> Value:
        """Of what is shown a share `left` of the time, and production otherwise."""
        return None if value is None else left * float(value) + explore * start

    start = honest.get("production", production)
    # Who found nothing sure in any part of the log was not rewarded there, but as production is.
    alone = naive if folds == 1 else production
    ends: dict[str, Value] = {
        c: mixed(honest.get(c, alone if c == "value" else None), float(start or 0.0))
        for c in _JUDGED
        if c != "se"
    }
    return {
        "estimator": names[0],
        "metric": names[1],
        "value": ends["value"],
        "se": mixed(honest.get("se"), 0.0),
        "low": ends["low"],
        "high": ends["high"],
        "naive": left * naive + explore * production,
        "production": production,
        **{c: mixed(honest.get(c), 0.0) for c in _PAIRED},
        "covered": honest.get("covered"),
        "contexts": contexts.num_rows,
        "changed": changed,
        "kept": contexts.num_rows - changed,
        "lists": int(np.asarray(contexts["lists"]).sum()),
        "verdict": honest.get("verdict"),
    }


def worded(
    row: dict[str, Value],
    contexts: pa.Table,
    judged: Evaluation | None,
    explore: float,
    folds: int,
) -> list[str]:
    """In words: what was changed, why the rest was not, and what flattery was taken away."""
    reasons = Counter({why["values"]: why["counts"] for why in _counted(contexts["why"])})
    notes = [
        f"{row['changed']:,} of {row['contexts']:,} contexts get a new policy."
        + "".join(
            f" {count:,} stay as they are: {_WHY[why]}."
            for why, count in reasons.most_common()
            if why != CHANGED
        )
    ]
    if judged is None:
        if folds == 1:
            notes.append(
                "The policy was not judged by records of its own, so value is the naive one, which "
                "flatters. Use folds=2."
            )
        elif row["changed"]:
            notes.append(
                "Parts of the log alone are sure of nothing, so there is nothing to judge, and "
                "value is production's. More records would tell."
            )
        return notes + _learnt(contexts, explore)
    notes.append(
        f"The estimate that it was chosen by says {row['naive']:.4g}; records that had no say in "
        f"it say {_number(row['value'])}, and production earns {row['production']:.4g}."
    )
    alone = "Without exploring: " if explore else ""
    return [*notes, *(alone + note for note in judged.notes), *_learnt(contexts, explore)]


def _counted(column: pa.ChunkedArray) -> list[dict[str, Any]]:
    """The values of a column, the first to come first, and how often each occurs."""
    found: list[dict[str, Any]] = column.value_counts().to_pylist()
    return found


def _number(value: Value) -> str:
    return "nothing" if value is None else f"{float(value):.4g}"


def _learnt(contexts: pa.Table, explore: float) -> list[str]:
    """What the next log would tell, if production is explored."""
    if not explore:
        return []
    now, then = (np.asarray(contexts[c].fill_null(0.0)) for c in ("se", "se_next"))
    left = then[now > 0] / now[now > 0]
    if not len(left):
        return []
    said = (
        f"Production is shown {explore:.0%} of the time. As many records again would shrink the "
        f"standard errors of the changed contexts to {left.mean():.0%} on average, and those of "
        f"{np.sum(left < _HALF):,} to less than half: column se_next of `contexts`."
    )
    return [said]
