"""How far a long piece of work is: told on a terminal, and nowhere else."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Say = Callable[[str], None]


@contextmanager
def working() -> Iterator[Say]:
    """A spinner on stderr that says what is being done, if somebody is watching."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    # Rich takes long to import, and most runs have no terminal.
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    with Console(stderr=True).status("") as status:
        yield lambda step: status.update(Text(f"{step} …"))
