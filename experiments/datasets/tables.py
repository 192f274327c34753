"""Datasets that come as CSV or Parquet: Trivago and Open Bandit."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pyarrow as pa

from experiments.datasets.formats import CLICKS, ITEMS, Format
from experiments.datasets.ledger import Oddity, ids
from foreclick.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from experiments.datasets.formats import Record
    from experiments.datasets.ledger import Ledger
    from experiments.datasets.source import Source

_DAY = 86_400  # seconds
_EPOCH = dt.date(1970, 1, 1).toordinal()


# --- Trivago, RecSys Challenge 2019 -------------------------------------------------------------

_CLICKOUT = (
    *("city", "impressions", "reference", "timestamp", "user_id"),
    *("platform", "device", "action_type"),
)


def _trivago(source: Source, ledger: Ledger) -> Iterator[Record]:
    for number, row in source.rows(_CLICKOUT, ledger):
        city, impressions, reference, timestamp, user, platform, device, action = row
        if action != "clickout item":  # other actions of a session show no list
            continue
        try:
            items = ids(impressions.encode().split(b"|"))
            clicked = [(number, i) for i in ids([reference.encode()])] if reference else []
            day = dt.date.fromordinal(_EPOCH + int(timestamp) // _DAY)
        except (ValueError, OverflowError):
            ledger.malformed(number, ",".join(row))
            continue
        if not clicked:
            ledger.note(Oddity.WITHHELD, number, city)
            continue
        yield (city, *ledger.mark(items, clicked, number), day, user, platform, device)


TRIVAGO = Format(
    name="trivago",
    schema=pa.schema(
        [
            ("city", pa.string()),
            *(ITEMS, CLICKS),
            *(("day", pa.date32()), ("user", pa.string())),
            *(("platform", pa.string()), ("device", pa.string())),
        ]
    ),
    roles={
        "context": "city",
        "period": "day",
        "unit": "user",
        "segments": ["platform", "device"],
    },
    records=_trivago,
    unit="row",
    tables=True,
)


# --- Open Bandit --------------------------------------------------------------------------------

_IMPRESSION = ("position", "item_id", "click", "timestamp", "propensity_score")
_POLICIES = ("random", "bts")


def _open_bandit(source: Source, ledger: Ledger) -> Iterator[Record]:
    campaigns = sorted({_campaign(file) for file in source.files})
    if len(campaigns) > 1:
        raise SourceError(
            f"{source.path!r} holds {len(campaigns)} campaigns ({', '.join(campaigns)}), and an "
            "item's number means another thing in each. Read one at a time, for instance with the "
            f"glob '**/{campaigns[0]}.csv*'."
        )
    for number, row in source.rows(_IMPRESSION, ledger):
        try:
            position, items, click = int(row[0]), ids([row[1].encode()]), int(row[2])
            day, propensity = dt.date.fromisoformat(row[3][:10]), float(row[4])
        except ValueError:
            ledger.malformed(number, ",".join(row))
        else:
            yield position, items, [click], day, propensity, _policy(source.file)


def _campaign(file: Path) -> str:
    return file.name.partition(".")[0]


def _policy(file: Path) -> str:
    """The logging policy, which only the directory tells."""
    return next((part for part in reversed(file.parts[:-1]) if part in _POLICIES), "unknown")


OPEN_BANDIT = Format(
    name="open_bandit",
    schema=pa.schema(
        [
            ("position", pa.int8()),
            *(ITEMS, CLICKS),
            *(("day", pa.date32()), ("propensity", pa.float64()), ("policy", pa.string())),
        ]
    ),
    roles={
        "context": "position",
        "period": "day",
        "propensity": "propensity",
        "segments": ["policy"],
    },
    records=_open_bandit,
    unit="row",
    tables=True,
)
