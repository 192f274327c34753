"""What of a candidate the log sees, and where it does not: by cells and by contexts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from foreclick.batches import Candidate, Floats, Ints, sums
from foreclick.estimators.cells import Cells
from foreclick.estimators.kernel import WeighedCells
from foreclick.models import ClickModel, Slots

Row = dict[str, Any]


@dataclass
class Ranked:
    """The rows with the highest scores, the first of equals in the order of contexts.

    Attributes:
        most: how many are kept.
        rows: (score, row), falling.
    """

    most: int
    rows: list[tuple[float, Row]] = field(default_factory=list)

    def add(self, other: Ranked) -> None:
        """Those of later contexts too."""
        # Scores that are equal but for rounding are equal.
        both = sorted(self.rows + other.rows, key=lambda scored: -float(np.float32(scored[0])))
        self.rows = both[: self.most]


@dataclass
class Sight:
    """What of a candidate the log sees, for one ask and stratum.

    Attributes:
        heaviest: the cells with the largest weights.
        darkest: the contexts that hold most of the uncovered exposure.
    """

    heaviest: Ranked
    darkest: Ranked

    def add(self, other: Sight) -> None:
        """What is seen of other contexts too."""
        self.heaviest.add(other.heaviest)
        self.darkest.add(other.darkest)


def context_support(weighed: WeighedCells) -> dict[Any, Floats]:
    """Shape (X,) each: the contexts out of sight, their records, and the exposure never shown."""
    seen, dark, n = _seen_and_dark(weighed)
    out = (seen <= 0) & (dark > 0)
    return {"out": 1.0 * out, "out records": np.where(out, n, 0.0), "dark": dark}


def _seen_and_dark(weighed: WeighedCells) -> tuple[Floats, Floats, Floats]:
    """Shape (X,) each: the candidate's exposure that was logged, the rest, and the records."""
    w, batch = weighed, weighed.cells.batch
    mass = w.records * w.wanted
    seen = sums(w.context, np.where(w.logged > 0, mass, 0.0), batch.context_count)
    dark = sums(w.context, np.where(w.logged > 0, 0.0, mass), batch.context_count)
    return seen, dark, batch.context_n


def sights(weighed: WeighedCells, candidate: Candidate, top: int) -> dict[int, Sight]:
    """What is seen of the candidate in the contexts of a batch, by stratum."""
    batch = candidate.batch
    of_cell = batch.stratum[weighed.context]
    return {
        int(s): Sight(
            _heaviest(weighed, candidate, np.flatnonzero(of_cell == s), top),
            _darkest(weighed, np.flatnonzero(batch.stratum == s), top),
        )
        for s in np.unique(batch.stratum)
    }


def _first(scores: Floats, some: Ints, top: int) -> Ints:
    """The numbers of the highest scores above 0, the first of equals first."""
    own = scores[some].astype(np.float32)
    order = np.argsort(-own, kind="stable")[:top]
    return some[order[own[order] > 0]]


def _heaviest(weighed: WeighedCells, candidate: Candidate, some: Ints, top: int) -> Ranked:
    w, batch = weighed, candidate.batch
    rows = []
    for g in _first(w.ratio, some, top).tolist():
        row = {
            "context": batch.contexts[int(batch.context_value[w.context[g]])].as_py(),
            "cell": cell_name(w.cells, candidate, w.ask.model, g),
            "weight": float(w.ratio[g]),
            "exposure": float(w.wanted[g]),
            "records": float(w.n[g]),
            "squared": [float(w.exposed[g] * weight[g] ** 2) for weight in w.weights],
        }
        rows.append((row["weight"], row))
    return Ranked(top, rows)


def _darkest(weighed: WeighedCells, some: Ints, top: int) -> Ranked:
    batch = weighed.cells.batch
    seen, dark, n = _seen_and_dark(weighed)
    rows = []
    for x in _first(dark, some, top).tolist():
        row = {
            "context": batch.contexts[int(batch.context_value[x])].as_py(),
            "records": float(n[x]),
            "covered": float(seen[x] / (seen[x] + dark[x])),
            "dark": float(dark[x]),
        }
        rows.append((row["dark"], row))
    return Ranked(top, rows)


def cell_name(cells: Cells, candidate: Candidate, model: ClickModel, g: int) -> str:
    """A cell as a person would name it: "shoes at 2", or "7, –, 9" for a list."""
    coding, depth = candidate.coding, candidate.depth
    key = int(cells.key[np.flatnonzero(cells.cell == g)[0]])
    unit, position = divmod(key, depth)
    if model.over_lists:
        row = int(np.searchsorted(candidate.lists.prefix[:, position], unit))
        pairs = candidate.lists.pairs[row, : position + 1]
        shown = [str(_value(candidate, int(pair))) if pair >= 0 else "–" for pair in pairs]
        while shown and shown[-1] == "–":
            shown.pop()
        return ", ".join(shown)
    if callable(model.cell):
        values = model.cell_of(_one_slot(candidate, model, unit, position))
        return ", ".join(str(np.asarray(value).ravel()[0]) for value in values)
    named = {"item": unit, "position": position + 1}
    if "item" not in model.cell:
        return f"position {position + 1}" if model.cell else "any slot"
    item = str(coding.values(coding.items_of(np.array([unit])))[0])
    return f"{item} at {named['position']}" if "position" in model.cell else item


def _value(candidate: Candidate, pair: int) -> object:
    return candidate.coding.values(candidate.coding.items_of(np.array([pair])))[0]


def _one_slot(candidate: Candidate, model: ClickModel, unit: int, position: int) -> Any:  # noqa: ANN401
    item = np.array([_value(candidate, unit) if model.sees_items else 0])
    return Slots(item, np.array([position + 1]))
