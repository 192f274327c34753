"""An evaluation as trackers of experiments log it."""

import re

import foreclick as fc

LOG = {
    "context": ["q"] * 40,
    "items": [[1, 2], [2, 1]] * 20,
    "clicks": [[1, 0], [0, 0]] * 20,
    "price": [[2.5, 0], [0, 0]] * 20,
    "land": ["NL", "NL", "B/E", "B/E"] * 10,
}
ROWS = fc.read_log(LOG, segments=["land"], rewards={"price": "price"})
BEST = {"context": ["q"], "items": [[1, 2]]}


def test_keys_are_what_mlflow_takes_and_values_are_numbers():
    e = fc.evaluate(
        ROWS,
        BEST,
        metrics=["price@1/clicks@1", "dcg@2"],
        by="land",
        estimators=[fc.Weighted("ip", [1, 5.5]), "ladder"],
    )
    found = e.metrics()
    assert all(re.fullmatch(r"[\w .\-/]+", key) for key in found)
    assert all(type(value) is float for value in found.values())
    assert "dcg_at_2/clip_inf/land_B_E/lift" in found
    assert "dcg_at_2/ip/clip_5.5/land_B_E/lift" in found
    assert any(key.startswith("price_at_1_per_clicks_at_1/") for key in found)
