"""Click models: which cell a displayed slot belongs to, and how much its position is examined.

A *slot* is (context, list, position). A click model assumes that *a list's expected credit in a
cell is its exposure of that cell times one click rate per cell*. That is all an estimator needs to
know of it, so a model is a declaration of two things and nothing else:

| name | cell of slot (A, k) | examination p_k | in the paper |
|---|---|---|---|
| `list` | the list, up to the last position that counts | 1 | V_L |
| `prefix` | (a_1, …, a_k) | 1 | – |
| `ip` | (a_k, k) | 1 | V_IP |
| `item` | a_k | 1 | V_I, DCTR |
| `pbm` | a_k | p_k, or p(k given x); learnt if not given, 1/k in the paper's section 6 | V_PBM |
| `rctr` | k | 1 | V_R |
| `rcm` | nothing | 1 | V_R |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from foreclick.errors import ModelError
from foreclick.words import did_you_mean, number_of


class DisplayedSlots:
    """Displayed slots, as a user's click model sees them.

    Attributes:
        position: Shape (S,): from 1.
        items_used: whether the model has read the items.
    """

    def __init__(self, item: NDArray[Any], position: NDArray[Any]) -> None:
        self._item, self.position, self.items_used = item, position, False

    @property
    def item(self) -> NDArray[Any]:
        """Shape (S,): the items, integers or text."""
        self.items_used = True
        return self._item


Cell = Literal["list", "prefix"] | str | Sequence[str] | Callable[[Any], Any]
Curve = Sequence[float] | Callable[[int], float] | Literal["1/k"]
Examination = Curve | Mapping[Any, Curve] | Literal["learnt"] | None
LEARNT: Literal["learnt"] = "learnt"
RECIPROCAL: Literal["1/k"] = "1/k"

_SLOT = ("item", "position")


class ByContext(dict[Any, Curve]):
    """p(k | x): the examination of each context, with the hash that a part of a value needs."""

    def __hash__(self) -> int:  # type: ignore[override]
        """The same for equal ones; of a million contexts, at once."""
        return len(self)


@dataclass(frozen=True)
class ClickModel:
    """A click model: which slots share a click rate, and how often positions are examined.

    Args:
        name: the name in the `estimator` column of results.
        cell: what slots with the same click rate have in common: ``"list"``, ``"prefix"``, any of
            ``"item"`` and ``"position"``; or a function that takes the slots, with the arrays
            `slot.item` and `slot.position` (from 1), and returns an array, or a list of arrays.
        examination: how often each position is examined: a sequence p_1, p_2, … or a function of
            the position; 1 everywhere by default. Only the ratios matter. "learnt": estimated from
            items that moved in the log (1/k where none did); "1/k": always 1/k. If contexts differ,
            p(k | x): a curve for each context, ``{context: curve}``.

    Raises:
        ModelError: `cell` or `examination` is none of these.

    Examples:
        Positions above and below the fold, with one click rate per item in each:

        >>> fold = ClickModel("fold", cell=lambda slot: [slot.item, slot.position <= 3])
        >>> fold.over_lists
        False
    """

    name: str
    cell: Cell
    examination: Examination = None

    def __post_init__(self) -> None:
        cell = self.cell
        if isinstance(cell, str) and cell not in ("list", "prefix"):
            cell = (cell,)
        elif isinstance(cell, list):
            cell = tuple(cell)
        object.__setattr__(self, "cell", cell)
        fits = callable(cell) or cell in ("list", "prefix")
        if not fits and not (isinstance(cell, tuple) and set(cell) <= set(_SLOT)):
            raise ModelError(
                f"the cell of click model {self.name!r} is {cell!r}. Use 'list', 'prefix', any of "
                "'item' and 'position', or a function of the slot such as "
                "lambda slot: [slot.item, slot.position <= 3]."
            )
        p = self.examination
        if isinstance(p, Mapping):
            p = ByContext({x: self._curve(each, f" in context {x!r}") for x, each in p.items()})
        elif p is not None:
            p = self._curve(p)
        object.__setattr__(self, "examination", p)

    def _curve(self, p: Any, where: str = "") -> Any:  # noqa: ANN401 - an examination
        """One curve as a value, or a refusal."""
        if isinstance(p, Iterable) and not isinstance(p, str):
            return tuple(p)
        if callable(p) or p == RECIPROCAL or (p == LEARNT and not where):
            return p
        raise ModelError(
            f"the examination of click model {self.name!r}{where} is {p!r}. Give "
            f"{'' if where else repr(LEARNT) + ', '}'{RECIPROCAL}', a number for each position, or "
            "a function of it."
        )

    @property
    def learns(self) -> bool:
        """Whether the examination is learnt from a log and enters the click rates."""
        p = self.examination
        return isinstance(p, str) and p == LEARNT and not self.pins_position

    @property
    def by_context(self) -> bool:
        """Whether each context has its own examination curve."""
        return isinstance(self.examination, ByContext)

    @property
    def over_lists(self) -> bool:
        """Whether a cell depends on other slots of the list, as `list` and `prefix` do."""
        return self.cell in ("list", "prefix")

    @property
    def pins_position(self) -> bool:
        """Whether all slots of a cell have the same position, so that examination cancels."""
        return self.over_lists or (not callable(self.cell) and "position" in self.cell)

    @property
    def sees_items(self) -> bool:
        """Whether cells depend on which items are shown; those of `rctr` and `rcm` do not."""
        if not callable(self.cell):
            return self.over_lists or "item" in self.cell
        for item in (np.arange(2), np.array(["a", "b"], dtype=object)):
            slots = DisplayedSlots(item, np.array([1, 2]))
            with suppress(Exception):  # a user's function may fit only one of them
                self.cell(slots)
                return slots.items_used
        return True

    def examined(self, depth: int, *context: Any) -> tuple[float, ...]:  # noqa: ANN401
        """The examination of positions 1 to `depth`; 1/k where it is learnt from a log.

        Args:
            depth: the number of positions.
            *context: the context, if each has its own curve.

        Returns:
            A tuple p_1 … p_depth.

        Raises:
            ModelError: the curve is too short, not finite or below 0, or needs a context.
        """
        p: Any = self.examination
        where = ""
        if isinstance(p, ByContext):
            if not context:
                raise ModelError(
                    f"the examination of click model {self.name!r} is given by context, which is "
                    "for clicks@K and dcg@K in evaluate, compare, support and backtest. Here, give "
                    "one curve for all contexts."
                )
            p, where = p[context[0]], f" in context {context[0]!r}"
        if p is None:
            return (1.0,) * depth
        if isinstance(p, str):
            values = tuple(1 / k for k in range(1, depth + 1))
        elif callable(p):
            values = tuple(float(p(k)) for k in range(1, depth + 1))
        elif len(p) < depth:
            raise ModelError(
                f"the examination of click model {self.name!r}{where} is given for "
                f"{number_of(len(p), 'position')}, "
                f"but a metric counts {depth}. Give {depth} numbers, or a function of the position."
            )
        else:
            values = tuple(float(v) for v in p[:depth])
        if not all(math.isfinite(v) and v >= 0 for v in values):
            raise ModelError(
                f"the examination of click model {self.name!r}{where} must be finite and at "
                f"least 0; got {values}."
            )
        return values

    def cell_of(self, slots: Any) -> list[Any]:  # noqa: ANN401 - DisplayedSlots, or a table of them
        """The key of each slot's cell: a list of arrays, equal where slots share a cell."""
        if callable(self.cell):
            cells = self.cell(slots)
            return list(cells) if isinstance(cells, list | tuple) else [cells]
        return [getattr(slots, name) for name in self.cell]

    def __str__(self) -> str:
        return self.name


MODELS: dict[str, ClickModel] = {
    model.name: model
    for model in (
        ClickModel("list", cell="list"),
        ClickModel("prefix", cell="prefix"),
        ClickModel("ip", cell=("item", "position")),
        ClickModel("item", cell=("item",)),
        ClickModel("pbm", cell=("item",), examination=LEARNT),
        ClickModel("rctr", cell=("position",)),
        ClickModel("rcm", cell=()),
    )
}
"""The built-in models, from the finest cells to the coarsest."""

_ALIASES = {"dctr": "item"}


def click_model(model: str | ClickModel, examination: Examination = None) -> ClickModel:
    """A model by name, or as it is, with another examination if one is given."""
    if isinstance(model, str):
        name = _ALIASES.get(model, model)
        if name not in MODELS:
            raise ModelError(
                f"there is no click model {model!r}.{did_you_mean(model, MODELS)} Built in are "
                f"{', '.join(MODELS)}; declare your own with ClickModel(name, cell=…, "
                "examination=…)."
            )
        model = MODELS[name]
    return model if examination is None else replace(model, examination=examination)
