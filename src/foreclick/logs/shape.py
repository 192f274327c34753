"""The columns of a compressed log: how wide it is and what it was read with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

CONTEXT, PERIOD, BUCKET, N = "context", "period", "bucket", "n"
ITEM, PROPENSITY = "item", "propensity"


def numbered(name: str, depth: int) -> list[str]:
    """name_1 … name_depth."""
    return [f"{name}_{k}" for k in range(1, depth + 1)]


def numbered_all(stems: Iterable[str], depth: int) -> list[str]:
    """The columns of several stems, each at every position."""
    return [column for stem in stems for column in numbered(stem, depth)]


@dataclass(frozen=True)
class Shape:
    """What the columns of a compressed log are.

    A list is spread over scalar columns, `item_1` … `item_K`: grouping by scalars is about twice
    as fast as grouping by arrays, and an empty position is simply NULL. A reward that is 0 or 1
    everywhere is stored as one integer, its *mask*, named as the reward: bit k − 1 is the reward
    at position k. Other rewards have one column a position (`price_1` … `price_K`).

    Attributes:
        depth: K, the longest list.
        rewards: the names of the rewards, `clicks` first; none for a log without clicks.
        segments: the names of the segment columns, which keep their own names.
        period, unit: whether the log was read with them.
        propensity: whether propensities were given, and for what: "list", "slot" or None.
        masks: the names of the rewards that are stored as masks.
    """

    depth: int
    rewards: tuple[str, ...] = ()
    segments: tuple[str, ...] = ()
    period: bool = False
    unit: bool = False
    propensity: str | None = None
    masks: tuple[str, ...] = ()

    @property
    def items(self) -> list[str]:
        """item_1 … item_K."""
        return numbered(ITEM, self.depth)

    @property
    def propensities(self) -> list[str]:
        """The propensity columns."""
        if self.propensity == "slot":
            return numbered(PROPENSITY, self.depth)
        return [PROPENSITY] if self.propensity == "list" else []

    def reward(self, name: str) -> list[str]:
        """name_1 … name_K for one reward."""
        return numbered(name, self.depth)

    @property
    def order(self) -> list[str]:
        """The keys of the compact rows, in the order in which they are sorted.

        Ascending, NULLs first, text by its bytes. Contexts, lists and the tops of lists are then
        runs of neighbouring rows.
        """
        return [
            CONTEXT,
            *self.items,
            *([PERIOD] if self.period else []),
            *self.segments,
            *([BUCKET] if self.unit else []),
            *(c for name in self.rewards for c in self.stored_reward(name)),
            *self.propensities,
        ]

    @property
    def stored(self) -> list[str]:
        """The columns of the compact rows: the keys and the count."""
        return [*self.order, N]

    def stored_reward(self, name: str) -> list[str]:
        """The columns that hold one reward in the compact rows: its mask, or one a position."""
        return [name] if name in self.masks else self.reward(name)

    @property
    def keys(self) -> list[str]:
        """Everything that a row of the compressed log is counted by, one column a position."""
        rewards = [column for name in self.rewards for column in self.reward(name)]
        return [
            CONTEXT,
            *([PERIOD] if self.period else []),
            *self.segments,
            *([BUCKET] if self.unit else []),
            *self.items,
            *rewards,
            *self.propensities,
        ]

    @property
    def columns(self) -> list[str]:
        """The keys and the count."""
        return [*self.keys, N]

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for a file's metadata."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Shape:
        """The inverse of `to_dict`."""
        plain: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in values.items()
        }
        return cls(**plain)
