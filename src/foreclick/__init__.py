"""foreclick: know the clicks before you ship the ranking.

Reads the click logs a team already has and says how many clicks a new ranking would get. A log is
compressed in the engine where it lives; all statistics are computed from that. The estimators are
those of Li et al., "Offline Evaluation of Ranking Policies with Click Models" (KDD 2018).
"""

import re
from importlib import import_module

__version__ = "1.0.0rc2"

# Public names are written once, in the file for type checkers: `from MODULE import NAME as NAME`.
_LINE = r"^from (\S+) import (\w+) as \2$"
_TYPED = __loader__.get_data(__file__ + "i").decode()  # type: ignore[attr-defined, name-defined]
_MODULE_OF = {name: module for module, name in re.findall(_LINE, _TYPED, re.MULTILINE)}

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605

# The package that draws results. It imports them, and they know it by this name alone.
RENDERER = "foreclick.rendering"


def __getattr__(name: str) -> object:
    """Import a name when it is first used: NumPy and engines wait until there is work."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'foreclick' has no attribute {name!r}")
    if _MODULE_OF[name] == "foreclick":
        return import_module(f"foreclick.{name}")
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return ["__version__", *__all__]
