"""What a random case is: a log, candidates for it, and a question about them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import foreclick as fc
from tests.batches.sizes import in_batches
from tests.cases.tables import lists_table, marginals_table
from tests.truth import oracle
from tests.truth.oracle import Policy, Record


class Row(NamedTuple):
    """One row of a log, with every role that a column can have."""

    context: Any
    items: tuple[Any, ...]
    clicks: tuple[float, ...]
    times: float = 1
    day: Any = 0
    land: str | None = "NL"
    user: Any = 0
    chance: Any = 1.0
    chances: tuple[float, ...] = (1.0,) * 9
    device: str | None = None
    orders: Any = None
    price: Any = None

    @property
    def record(self) -> Record:
        """As the oracle sees it."""
        return Record(self.context, self.items, tuple(map(float, self.clicks)), self.times)


class Measure(NamedTuple):
    """A metric as the library spells it, and its θ; whether it is of first clicks."""

    spelling: Any
    theta: tuple[float, ...]
    first: bool = False

    @property
    def shown(self) -> bool:
        """Whether it counts what is shown, which is known without a log."""
        return isinstance(self.spelling, str) and self.spelling.startswith("shown@")


@dataclass(frozen=True)
class Asked:
    """A question about a case.

    Attributes:
        kind: the policy that the library is given for a candidate.
        logging: how the logging policy is known: by "propensity", or as a "policy".
        pi: the logging policy, where it is given.
        slots: of how many rows times positions batches are.
    """

    kind: str = "Lists"
    models: tuple[str, ...] = oracle.MODELS
    measures: tuple[Measure, ...] = ()
    clips: tuple[float, ...] = (math.inf,)
    missing: str = "production"
    logging: str | None = None
    pi: Policy | None = None
    by: bool = False
    clusters: str | None = None
    slots: int = 4_000_000

    @property
    def bounded(self) -> list[tuple[str, float]]:
        """Each model with each M; those that are blind to items have none."""
        none = (math.inf,)
        return [(m, c) for m in self.models for c in (none if m in oracle.BLIND else self.clips)]


@dataclass(frozen=True, eq=False)
class Case:
    """A random log, candidates for it, and a question about them.

    Attributes:
        seed: what it was drawn by, or its name.
        columns: of the log, by name: a value a row; of items, clicks and other rewards, lists.
        roles: arguments of `fc.read_log`.
        candidates: by name and context, lists and their probabilities.
        shown: what production shows, where it is known.
        asked: the question.
        sample: lists that ladders are learnt from, and records that curves are; None as in use.
    """

    seed: Any
    columns: dict[str, Any]
    roles: dict[str, Any] = field(default_factory=dict)
    candidates: Mapping[str, Policy] = field(default_factory=dict)
    shown: Policy = field(default_factory=dict)
    asked: Asked = field(default_factory=Asked)
    sample: tuple[int, int] | None = None

    def __str__(self) -> str:
        return str(self.seed)

    # --- the log ---

    @property
    def size(self) -> int:
        """How many rows there are."""
        return len(self.columns["context"])

    @cached_property
    def rows(self) -> list[Row]:
        """The log row by row; each stands for one record, unless a role counts them."""
        own = {name: self.columns[name] for name in Row._fields if name in self.columns}
        if "count" not in self.roles:
            own.pop("times", None)
        lists = ("items", "clicks", "orders", "price")
        own |= {name: list(map(tuple, own[name])) for name in lists if name in own}
        return [Row(**dict(zip(own, row, strict=True))) for row in zip(*own.values(), strict=True)]

    @cached_property
    def records(self) -> list[Record]:
        """The log as the oracle sees it."""
        return [row.record for row in self.rows]

    @cached_property
    def table(self) -> pa.Table:
        """The log as Arrow has it."""
        columns = dict(self.columns)
        if isinstance(columns.get("land"), list):  # of None alone it has no type
            columns["land"] = pa.array(columns["land"], pa.string())
        return pa.table(columns)

    @property
    def log(self) -> fc.Log:
        """The log as the library reads it."""
        return self.read()

    def read(self, source: Any = None, **roles: Any) -> fc.Log:  # noqa: ANN401 - of any kind
        """The log as the library reads it from a source, with further roles."""
        return fc.read_log(self.table if source is None else source, **{**self.roles, **roles})

    def tally(self, slots: int | None = None) -> fc.Tally:
        """Its tally, in batches of so many slots; None: as the question has it."""
        return in_batches(fc.tally(self.log), slots or self.asked.slots)

    # --- policies ---

    @property
    def candidate(self) -> Policy:
        """The first candidate."""
        return next(iter(self.candidates.values()))

    @property
    def policy(self) -> Any:  # noqa: ANN401 - a policy
        """The first candidate as the library has it."""
        return next(iter(self.policies().values()))

    @property
    def logging(self) -> Any:  # noqa: ANN401 - a policy, or how it is known
        """The logging policy, where the question gives it."""
        pi = self.asked.pi
        return self.asked.logging if pi is None else fc.Lists(lists_table(pi))

    def policies(self) -> dict[str, Any]:
        """The candidates as the library has them, of the kind that is asked about."""
        shown = (
            a for policy in self.candidates.values() for lists in policy.values() for a in lists
        )
        depth = max(map(len, (*self.columns["items"], *shown))) + 1
        return {name: self._policy(lists, depth) for name, lists in self.candidates.items()}

    def _policy(self, policy: Policy, depth: int) -> Any:  # noqa: ANN401
        table = lists_table(policy)
        # Short lists are meant to be short, which nulls say.
        meant = [[*row, *[None] * (depth - len(row))] for row in table["items"].to_pylist()]
        match self.asked.kind:
            case "Marginals":
                return fc.Marginals(marginals_table(policy))
            case "Ranking":
                return fc.Ranking({"context": table["context"].to_pylist(), "items": meant})
            case "Observed":
                return fc.Observed(fc.read_log(table, count="probability", clicks=None))
            case _:
                return fc.Lists(table.to_pydict() | {"items": meant})

    # --- another case ---

    def asking(self, **options: Any) -> Case:  # noqa: ANN401
        """The same with other fields of the question."""
        return replace(self, asked=replace(self.asked, **options))

    def having(self, **columns: Sequence[Any]) -> Case:
        """The same with other columns, or further ones."""
        return replace(self, columns={**self.columns, **columns})

    def taking(self, rows: Any) -> Case:  # noqa: ANN401 - numbers of any kind
        """Some of the rows, in this order."""
        at = np.asarray(rows).tolist()
        return replace(self, columns={k: [v[i] for i in at] for k, v in self.columns.items()})

    def proposing(self, **candidates: Policy) -> Case:
        """The same with other candidates."""
        return replace(self, candidates=candidates)


def columns_of(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Rows as columns, without those that no row has."""
    columns: dict[str, list[Any]] = {
        name: list(values)
        for name, values in zip(Row._fields, zip(*rows, strict=True), strict=True)
    }
    for name in ("items", "clicks", "orders", "price"):
        columns[name] = [one if one is None else list(one) for one in columns[name]]
    columns["chances"] = [list(row.chances[: len(row.items)]) for row in rows]
    absent = [n for n in ("device", "orders", "price") if all(v is None for v in columns[n])]
    return {name: values for name, values in columns.items() if name not in absent}
