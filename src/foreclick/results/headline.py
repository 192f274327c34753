"""The answer of a result, said before its table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Headline:
    """What a reader in a hurry wants to know.

    Attributes:
        title: what was asked, in a line.
        lines: the answers, each as texts that stand below each other: what, verdict, how much.
        said: what else belongs to the answer, in sentences.
    """

    title: str
    lines: tuple[tuple[str, ...], ...] = ()
    said: tuple[str, ...] = ()
