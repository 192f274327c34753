"""Tables of a lake, and files of object stores."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest


def needed(package: str) -> Any:  # noqa: ANN401 - a module, whichever
    """A package of the test group; in CI it must be there."""
    if os.environ.get("FORECLICK_REQUIRE_ENGINES") == "1":
        return importlib.import_module(package)
    return pytest.importorskip(package)


KEY, SECRET = "AKIAFORECLICKTESTS", "this-must-never-be-printed"
