"""Values that are made once and kept with the object that decides them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import update_wrapper
from typing import (
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    runtime_checkable,
)

P = ParamSpec("P")
T = TypeVar("T")


@runtime_checkable
class Keeper(Protocol):
    """What keeps values: a batch, the batches of a log, a tally."""

    @property
    def kept(self) -> KeptValues:
        """The values, by the function that makes them and by its other arguments."""
        ...


K = TypeVar("K", bound=Keeper)


class Kept(Generic[K, P, T]):
    """A function of a keeper and of hashable arguments, called once for each of these.

    Whoever asks, and in which order, the value is the same.
    """

    def __init__(self, make: Callable[Concatenate[K, P], T], *, latest: bool) -> None:
        self._make, self._latest = make, latest
        update_wrapper(self, make)

    def __call__(self, keeper: K, *args: P.args, **named: P.kwargs) -> T:
        """The value, made if it is not kept yet."""
        values = keeper.kept.setdefault(self, {})
        key = args, tuple(named.items())
        if key not in values:
            if self._latest:
                _clear(values)
            values[key] = self._make(keeper, *args, **named)
        return cast("T", values[key])

    def __reduce__(self) -> str:
        """It travels to other processes by its name, as functions do."""
        return self._make.__qualname__

    def knows(self, keeper: K, *args: P.args, **named: P.kwargs) -> bool:
        """Whether the value is kept already."""
        return (args, tuple(named.items())) in keeper.kept.get(self, {})

    def put(self, keeper: K, value: T, *args: P.args, **named: P.kwargs) -> None:
        """Keep a value that was made elsewhere."""
        keeper.kept.setdefault(self, {})[args, tuple(named.items())] = value


KeptValues: TypeAlias = dict[Kept[Any, ..., Any], dict[Hashable, Any]]


def kept(make: Callable[Concatenate[K, P], T]) -> Kept[K, P, T]:
    """Keep the values of a function with its first argument: what that argument alone decides."""
    return Kept(make, latest=False)


def kept_latest(make: Callable[Concatenate[K, P], T]) -> Kept[K, P, T]:
    """Keep only the latest value: what candidates decide, and several passes in a row need."""
    return Kept(make, latest=True)


def forget(keeper: Keeper) -> None:
    """Drop what is kept: values refer to their keeper in turn, and so would hold it in memory."""
    while keeper.kept:
        _clear(keeper.kept.popitem()[1])


def _clear(values: dict[Hashable, Any]) -> None:
    """Drop values, and what they keep themselves."""
    while values:
        value = values.popitem()[1]
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, Keeper):
                forget(each)
