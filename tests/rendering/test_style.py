"""Colours and places."""

import colorsys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreclick.rendering.curves import Clips
from foreclick.rendering.style import PALETTE, darker, looks, room, spread

INF = float("inf")


def test_an_estimator_looks_the_same_in_every_chart():
    assert looks(["ip"])["ip"] == looks(["mine", "list", "ip"])["ip"]


def test_looks_differ_as_long_as_there_are_colours():
    names = ["ip", "a", "b", "list", "c", "d", "e"]
    assert len(set(looks(names).values())) == len(names)
    assert len(looks([*PALETTE, "one", "more"])) == 9


def test_letters_are_darker_than_lines():
    for colour in PALETTE.values():
        dark, light = (
            colorsys.rgb_to_hls(*(int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)))[1]
            for c in (darker(colour), colour)
        )
        assert dark < light or light == 0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.01, 0.12))
def test_spread_keeps_the_gap_the_order_and_the_panel(wanted, gap):
    found = spread(wanted, gap)
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    placed = [found[i] for i in order]
    assert all(b - a >= gap - 1e-9 for a, b in pairwise(placed))
    assert placed[0] >= -1e-9
    assert placed[-1] <= 1 + 1e-9


def test_spread_leaves_alone_what_is_apart():
    assert spread([0.9, 0.1, 0.5], 0.1) == pytest.approx([0.9, 0.1, 0.5])


def test_clips_have_ticks_of_their_own_if_few_and_powers_if_many():
    assert list(Clips([1, 5, 50, INF]).ticks().values()) == ["1", "5", "50", "∞"]
    many = [1.5**i for i in range(18)]
    assert list(Clips(many).ticks().values()) == ["1", "10", "100"]
    assert list(Clips([10.0**i for i in range(9)]).ticks().values())[-2:] == ["1M", "100M"]
    assert list(Clips([2 + i / 10 for i in range(12)]).ticks().values()) == ["2", "3.1"]
    assert list(Clips([99, 100, 10_000]).ticks().values()) == ["100", "1,000", "10k"]


def test_short_names_need_no_room():
    assert room(["list", "rctr"]) == 0
    assert room(["x" * 40]) > 1
