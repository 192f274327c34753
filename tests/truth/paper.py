"""The estimators as the paper has them, for comparison with the oracle."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import foreclick as fc


def paper(models: Iterable[Any]) -> list[Any]:
    """The same estimators; `pbm` by 1/k, whatever the log tells of examination."""
    return [fc.Weighted(model, examination="1/k") if model == "pbm" else model for model in models]
