"""Simulated worlds with a known truth: click models, a drifting production ranker, and their logs.

`shop` simulates logs of another kind: a long tail of queries, and models in place of drift.

The exact value V(h) of any policy is known for every log. Nothing here depends on estimators.
"""

from foreclick.simulate import shop
from foreclick.simulate.simulation import (
    PRESETS,
    Drifting,
    Simulation,
    Stationary,
    pbm_drift,
    yandex_like,
)
from foreclick.simulate.worlds import (
    DBN,
    DCM,
    DCTR,
    PBM,
    Cascade,
    ItemPosition,
    ListSpecific,
    World,
    item_ids,
)

__all__ = [
    "DBN",
    "DCM",
    "DCTR",
    "PBM",
    "PRESETS",
    "Cascade",
    "Drifting",
    "ItemPosition",
    "ListSpecific",
    "Simulation",
    "Stationary",
    "World",
    "item_ids",
    "pbm_drift",
    "shop",
    "yandex_like",
]
