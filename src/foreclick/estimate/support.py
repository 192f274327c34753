"""What of a candidate the log covers, and where it does not: by cells and by contexts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from foreclick.batches import Candidate, Floats, Ints, sums
from foreclick.estimate.cells import Cells
from foreclick.estimate.columns import View
from foreclick.estimate.weighted import WeighedCells
from foreclick.models import ClickModel, Slots
from foreclick.question import Ask

Row = dict[str, Any]


@dataclass(frozen=True)
class SupportDetail:
    """What of a candidate the log covers, for one ask.

    Attributes:
        top: how many rows are kept of each kind.
        largest_weights: the cells with the largest weights: context, cell, weight, exposure,
            records, and `squared`, what each adds to Σ E W².
        least_covered: the contexts with most of the uncovered exposure: context, records, covered,
            and `uncovered`, how much that is.
    """

    top: int
    largest_weights: list[Row]
    least_covered: list[Row]

    def __add__(self, other: SupportDetail) -> SupportDetail:
        """That of later contexts too; of equals, the first in the order of contexts."""
        return SupportDetail(
            self.top,
            _first(self.largest_weights + other.largest_weights, "weight", self.top),
            _first(self.least_covered + other.least_covered, "uncovered", self.top),
        )


def _first(rows: list[Row], by: str, top: int) -> list[Row]:
    # Numbers that are equal but for rounding are equal.
    return sorted(rows, key=lambda row: -float(np.float32(row[by])))[:top]


def support_details(w: WeighedCells, view: View, top: int) -> dict[Ask, SupportDetail]:
    """What of the first candidate is covered in the contexts of a batch, by ask."""
    batch, context = view.batch, w.cells.context

    def name(x: int) -> Any:  # noqa: ANN401 - text or a number
        return batch.contexts[int(batch.context_value[x])].as_py()

    found = {}
    for a, ask in enumerate(w.asks):
        mass = w.records * w.wanted[a, 0]
        logged = w.logged[a] > 0
        covered, uncovered = (
            sums(context, np.where(logged == seen, mass, 0.0), batch.context_count)
            for seen in (True, False)
        )
        over = w.ratio[a, 0]
        largest = [
            {
                "context": name(context[g]),
                "cell": _cell_name(w.cells, view.policies, ask.model, g),
                "weight": float(over[g]),
                "exposure": float(w.wanted[a, 0, g]),
                "records": float(w.n[a, g]),
                "squared": float(w.exposed[a, g] * w.weight[a, 0, g] ** 2),
            }
            for g in _largest(over, top)
        ]
        least = [
            {
                "context": name(x),
                "records": float(batch.context_n[x]),
                "covered": float(covered[x] / (covered[x] + uncovered[x])),
                "uncovered": float(uncovered[x]),
            }
            for x in _largest(uncovered, top)
        ]
        found[ask] = SupportDetail(top, largest, least)
    return found


def _largest(scores: Floats, top: int) -> list[int]:
    """The numbers of the highest scores above 0, the first of equals first."""
    own = scores.astype(np.float32)
    order: Ints = np.argsort(-own, kind="stable")[:top]
    return [int(g) for g in order[own[order] > 0]]


def _cell_name(cells: Cells, policies: Candidate, model: ClickModel, g: int) -> str:
    """A cell as a person would name it: "shoes at 2", or "7, –, 9" for a list."""
    coding, depth = policies.coding, policies.depth

    def value(pair: int) -> object:
        return coding.values(coding.items_of(np.array([pair])))[0]

    key = int(cells.key[np.flatnonzero(cells.cell == g)[0]])
    unit, position = divmod(key, depth)
    if model.over_lists:
        row = int(np.searchsorted(policies.lists.prefix[:, position], unit))
        pairs = policies.lists.pairs[row, : position + 1]
        shown = [str(value(int(pair))) if pair >= 0 else "–" for pair in pairs]
        while shown and shown[-1] == "–":
            shown.pop()
        return ", ".join(shown)
    if callable(model.cell):
        item = np.array([value(unit) if model.sees_items else 0])
        values = model.cell_of(Slots(item, np.array([position + 1])))
        return ", ".join(str(np.asarray(each).ravel()[0]) for each in values)
    if "item" not in model.cell:
        return f"position {position + 1}" if model.cell else "any slot"
    item_name = str(value(unit))
    return f"{item_name} at {position + 1}" if "position" in model.cell else item_name
