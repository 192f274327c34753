"""If this fails, past tests of public data are read with arms or clicks exchanged."""

import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from experiments import replay

KUAIRAND = (
    "user_id,video_id,date,hourmin,time_ms,is_click,is_like,is_follow,is_comment,is_forward,"
    "is_hate,long_view,play_time_ms,duration_ms,profile_stay_time,comment_stay_time,"
    "is_profile_enter,is_rand,tab\n"
)
EXPEDIA = (
    "srch_id,date_time,site_id,visitor_location_country_id,visitor_hist_starrating,"
    "visitor_hist_adr_usd,prop_country_id,prop_id,prop_starrating,prop_review_score,"
    "prop_brand_bool,prop_location_score1,prop_location_score2,prop_log_historical_price,position,"
    "price_usd,promotion_flag,srch_destination_id,srch_length_of_stay,srch_booking_window,"
    "srch_adults_count,srch_children_count,srch_room_count,srch_saturday_night_bool,"
    "srch_query_affinity_score,orig_destination_distance,random_bool,click_bool,"
    "gross_bookings_usd,booking_bool\n"
)


def run(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["replay", *map(str, words)])
    replay.main()
    return capsys.readouterr().out


def test_kuairand(tmp_path, monkeypatch, capsys):
    for name, rand in (("standard", 0), ("random", 1)):
        rows = "".join(
            f"{user},{10 + user % 2},20220{422 + user % 5},1600,165061234567,{user % 3 == 0:d},0,0,"
            f"0,0,0,0,1385,209900,0,0,0,{rand},1\n"
            for user in range(60)
        )
        (tmp_path / f"log_{name}_4_22_to_5_08_pure.csv").write_text(KUAIRAND + rows)
    path = tmp_path / "log_*_4_22_to_5_08_pure.csv"
    log = replay.kuairand(str(path))
    assert (log.rows, log.shape.depth, log.shape.segments) == (120, 1, ("variant",))
    out = run(monkeypatch, capsys, "kuairand", path)
    assert "Of 1 A/B test" in out  # the same videos in both arms
    assert "predicted 0%" in out


def test_expedia(tmp_path, monkeypatch, capsys):
    def row(search, place, hotel, rand, click):
        before = f"{search},2013-04-0{1 + search % 5} 08:32:15,12,187,NULL,NULL,219,{hotel},3,3.5"
        rest = f"1,2.83,0.0438,4.95,{place},104.77,0,23246,1,0,4,0,1,1,NULL,NULL,{rand},{click}"
        return f"{before},{rest},NULL,0\n"

    rows = [
        row(search, place, hotel, search % 2, place == 1 + search % 3 == 1)
        for search in range(60)
        for place, hotel in ((1, 7 + search % 2), (2, 8 - search % 2), (4, 9))
    ]
    path = tmp_path / "train.csv"
    path.write_text(EXPEDIA + "".join(rows).replace("True", "1").replace("False", "0"))
    log = replay.expedia(str(path))
    assert log.rows == 60
    first = fc.tally(log).to_arrow().to_pylist()[0]
    assert (first["context"], first["item_3"], first["item_4"]) == (23246, None, 9)
    assert "Of 1 A/B test" in run(monkeypatch, capsys, "expedia", path)


def test_music(tmp_path, monkeypatch, capsys):
    """The README's example: [B, A, C] was shown, each at its place with P_kk."""
    matrix = [[0.5, 0.4, 0.1], [0.3, 0.3, 0.4], [0.2, 0.3, 0.5]]
    for name in ("D1", "D2"):
        (tmp_path / name).mkdir()
        table = pa.table(
            {
                "rewards": [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]] * 40,
                "logging_selected_actions": [[1, 0, 2], [2, 1, 0]] * 40,
                "target_selected_actions": [[1, 0, 2], [1, 2, 0]] * 40,
                "propensities": [matrix] * 80,
            }
        )
        pq.write_table(table, tmp_path / name / "part-0.parquet")
    log, target = replay.music(str(tmp_path / "D1"))
    assert (log.shape.propensity, log.rows) == ("slot", 80)
    found = fc.evaluate(log, target, metrics="clicks@3", logging="propensity", estimators="ip")
    # Of the first request, the click at 1 weighs 1 / .5; of the second, that at 3 as much.
    assert found["value"][0] == pytest.approx((1 / 0.5 + 1 / 0.5) / 2)
    out = run(monkeypatch, capsys, "music", tmp_path / "D1", "--other", tmp_path / "D2")
    assert "Measured in" in out
    assert out.strip().endswith("1.0000")
