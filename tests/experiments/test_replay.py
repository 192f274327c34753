"""If this fails, past tests of public data are read with arms or clicks exchanged."""

import sys

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from experiments import replay

KUAIRAND = (
    "user_id,video_id,date,hourmin,time_ms,is_click,is_like,is_follow,is_comment,is_forward,"
    "is_hate,long_view,play_time_ms,duration_ms,profile_stay_time,comment_stay_time,"
    "is_profile_enter,is_rand,tab"
)
EXPEDIA = (
    "srch_id,date_time,site_id,visitor_location_country_id,visitor_hist_starrating,"
    "visitor_hist_adr_usd,prop_country_id,prop_id,prop_starrating,prop_review_score,"
    "prop_brand_bool,prop_location_score1,prop_location_score2,prop_log_historical_price,position,"
    "price_usd,promotion_flag,srch_destination_id,srch_length_of_stay,srch_booking_window,"
    "srch_adults_count,srch_children_count,srch_room_count,srch_saturday_night_bool,"
    "srch_query_affinity_score,orig_destination_distance,random_bool,click_bool,"
    "gross_bookings_usd,booking_bool"
)


def run(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["replay", *map(str, words)])
    replay.main()
    return capsys.readouterr().out


def write(path, header, usual, names, rows):
    """A CSV file in which columns that are not named have the usual value."""
    frame = pd.DataFrame(rows, columns=names.split())
    frame.reindex(columns=header.split(","), fill_value=usual).to_csv(path, index=False)


def test_kuairand(tmp_path, monkeypatch, capsys):
    names = "user_id video_id date is_click is_rand tab"
    for name, rand in (("standard", 0), ("random", 1)):
        rows = [(u, 10 + u % 2, 20220422 + u % 5, u % 3 // 2, rand, 1) for u in range(60)]
        write(tmp_path / f"log_{name}_4_22_to_5_08_pure.csv", KUAIRAND, 0, names, rows)
    path = tmp_path / "log_*_4_22_to_5_08_pure.csv"
    log = replay.kuairand(str(path))
    assert (log.rows, log.shape.depth, log.shape.segments) == (120, 1, ("variant",))
    out = run(monkeypatch, capsys, "kuairand", path)
    assert "Of 1 A/B test" in out  # the same videos in both arms
    assert "predicted 0%" in out


def test_expedia(tmp_path, monkeypatch, capsys):
    names = "srch_id date_time prop_id position srch_destination_id random_bool click_bool"
    rows = [
        (s, f"2013-04-0{1 + s % 5} 08:32:15", hotel, k, 23246, s % 2, int(k == 1 + s % 3 == 1))
        for s in range(60)
        for k, hotel in ((1, 7 + s % 2), (2, 8 - s % 2), (4, 9))
    ]
    path = tmp_path / "train.csv"
    write(path, EXPEDIA, "NULL", names, rows)
    log = replay.expedia(str(path))
    assert log.rows == 60
    first = fc.tally(log).to_arrow().to_pylist()[0]
    assert (first["context"], first["item_3"], first["item_4"]) == (23246, None, 9)
    assert "Of 1 A/B test" in run(monkeypatch, capsys, "expedia", path)


def test_music(tmp_path, monkeypatch, capsys):
    """The README's example: [B, A, C] was shown, each at its place with P_kk."""
    matrix = [[0.5, 0.4, 0.1], [0.3, 0.3, 0.4], [0.2, 0.3, 0.5]]
    table = {
        "rewards": [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]] * 40,
        "logging_selected_actions": [[1, 0, 2], [2, 1, 0]] * 40,
        "target_selected_actions": [[1, 0, 2], [1, 2, 0]] * 40,
        "propensities": [matrix] * 80,
    }
    for name in ("D1", "D2"):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table(table), tmp_path / name / "part-0.parquet")
    log, target = replay.music(str(tmp_path / "D1"))
    assert (log.shape.propensity, log.rows) == ("slot", 80)
    found = fc.evaluate(log, target, metrics="clicks@3", logging="propensity", estimators="ip")
    # Of the first request, the click at 1 weighs 1 / .5; of the second, that at 3 as much.
    assert found["value"][0] == pytest.approx((1 / 0.5 + 1 / 0.5) / 2)
    out = run(monkeypatch, capsys, "music", tmp_path / "D1", "--other", tmp_path / "D2")
    assert "Measured in" in out
    assert out.strip().endswith("1.0000")
