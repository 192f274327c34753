"""Values that are made once and kept with the object that decides them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeAlias, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


class Keeper(Protocol):
    """What keeps values: a batch, the batches of a log, a tally."""

    @property
    def kept(self) -> KeptValues:
        """The values, by the function that makes them and by its other arguments."""
        ...


K = TypeVar("K", bound=Keeper)


class Kept(Generic[K, P, T]):
    """A function of a keeper and of hashable arguments, called once for each of these.

    Only for what the keeper alone decides: whoever asks, and in which order, the value is the same.
    """

    def __init__(self, make: Callable[Concatenate[K, P], T]) -> None:
        self._make = make
        update_wrapper(self, make)

    def __call__(self, keeper: K, *args: P.args, **named: P.kwargs) -> T:
        """The value, made if it is not kept yet."""
        values = keeper.kept.setdefault(self, {})
        key = args, tuple(named.items())
        if key not in values:
            values[key] = self._make(keeper, *args, **named)
        return cast("T", values[key])

    def __reduce__(self) -> str:
        """It travels to other processes by its name, as functions do."""
        return self._make.__qualname__

    def knows(self, keeper: K, *args: P.args, **named: P.kwargs) -> bool:
        """Whether the value is kept already."""
        return (args, tuple(named.items())) in keeper.kept.get(self, {})


KeptValues: TypeAlias = dict[Kept[Any, ..., Any], dict[Hashable, Any]]


def kept(make: Callable[Concatenate[K, P], T]) -> Kept[K, P, T]:
    """Keep the values of a function with its first argument."""
    return Kept(make)
