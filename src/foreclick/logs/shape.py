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

    A list is spread over scalar columns, `item_1` … `item_K`, and so is each reward
    (`clicks_1` … `clicks_K`): grouping by scalars is about twice as fast as grouping by arrays,
    and an empty position is simply NULL.

    Attributes:
        depth: K, the longest list.
        rewards: the names of the rewards, `clicks` first; none for a log without clicks.
        segments: the names of the segment columns, which keep their own names.
        period, unit: whether the log was read with them.
        propensity: whether propensities were given, and for what: "list", "slot" or None.
        sample: what the log is a sample of ("context" or "unit") and the share that was read; None
            if all of it was.
    """

    depth: int
    rewards: tuple[str, ...] = ()
    segments: tuple[str, ...] = ()
    period: bool = False
    unit: bool = False
    propensity: str | None = None
    sample: tuple[str, float] | None = None
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
    def keys(self) -> list[str]:
        """Everything that a row of the compressed log is counted by."""
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
    def order(self) -> list[str]:
        """The keys in the canonical order of rows: by context, then by list, then by the rest."""
        first = [CONTEXT, *self.items]
        return [*first, *(key for key in self.keys if key not in first)]

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
