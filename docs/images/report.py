"""A report to look at: `.ci/run look` writes a page, and pictures where node and Chromium are.

Of a simulated shop. The page is checked by axe-core, and is photographed at 1280 and at 390 pixels,
in dark colours, and as PDF.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image, ImageOps

import foreclick as fc
from tests.rendering.look import photograph, tools

_SEARCHES = """
    running shoes, winter jacket, coffee grinder, standing desk, wireless earbuds, yoga mat,
    rain boots, chef knife, desk lamp, hiking backpack, phone case, water bottle,
    electric kettle, office chair, trail shoes, wool socks, bike helmet, cast iron pan,
    board game, sleeping bag, camping stove, linen shirt, travel mug, gaming mouse
"""
BRANDS = """
    Alder Brook Cobalt Dune Ember Fjord Grove Harbor Iris Juniper Kite Lumen Maple Nimbus Onyx Pike
    Quartz Ridge Sage Tundra Umber Vale Willow Yarrow Zephyr Aspen Birch Cedar Delta Echo Flint Gale
    Hazel Ivory Jade Koa Lark Mesa North Opal
"""
SEARCHES = [" ".join(search.split()) for search in _SEARCHES.split(",")]
FIRST = dt.date(2026, 9, 28)
LEARN = 9  # days that the candidate learns from, and that are not evaluated


def shop(records: int = 90_000, seed: int = 3) -> tuple[fc.Log, dict[str, Any]]:
    """A log of a shop's search, and a ranking by click rate, learnt from the days before it."""
    table = fc.simulate.yandex_like(records=records, queries=len(SEARCHES), seed=seed).sample(
        seed=1
    )
    rows = table.to_pylist()
    for row in rows:
        row["device"] = ("phone", "desktop", "tablet")[row["user"] % 3]
        row["day"] = FIRST + dt.timedelta(days=row["day"] - 1)
        row["items"] = [_name(row["query"], item) for item in row["items"]]
        row["query"] = SEARCHES[row["query"]]
    start = FIRST + dt.timedelta(days=LEARN)
    candidate = by_click_rate([row for row in rows if row["day"] < start], seed=seed)
    evaluated = pa.Table.from_pylist([row for row in rows if row["day"] >= start])
    roles: dict[str, Any] = {"context": "query", "period": "day", "unit": "user"}
    return fc.read_log(evaluated, segments=["device"], **roles), candidate


def _name(query: int, item: int) -> str:
    brands = BRANDS.split()
    return f"{brands[item % 1000 % len(brands)]} {SEARCHES[query]}"


def by_click_rate(rows: list[dict[str, Any]], seed: int | None = None) -> dict[str, Any]:
    """Items of each context by clicks per showing, higher positions counting more.

    Args:
        rows: with `query`, `items` and `clicks`.
        seed: shuffle the top of every eighth context, as a bad release would; None: of none.
    """
    shown: dict[Any, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(lambda: [8.0, 1.0]))
    for row in rows:
        for k, (item, clicks) in enumerate(zip(row["items"], row["clicks"], strict=True)):
            counts = shown[row["query"]][item]
            counts[0] += (k + 1) ** -0.7
            counts[1] += float(clicks)
    found = {
        query: sorted(items, key=lambda i: (-items[i][1] / items[i][0], str(i)))[:10]
        for query, items in shown.items()
    }
    rng = np.random.default_rng(seed)
    for n, items in enumerate(found.values()):
        if seed is not None and n % 8 == 7:
            items[:4] = [items[i] for i in rng.permutation(min(4, len(items)))]
    return {"context": list(found), "items": list(found.values())}


def illustrate(page: Path, folder: Path) -> None:
    """The pictures of docs/report.md, from those of a page."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (look, height, margin, cut) in PICTURES.items():
        with Image.open(page.with_name(f"{page.stem}-{look}.png")) as whole:
            part = whole.crop((cut, 0, whole.width - cut, min(height, whole.height)))
        # Few colours: a page has no more, and a picture is a fifth as large.
        framed = ImageOps.expand(part.convert("RGB"), border=margin, fill="white")
        framed.quantize(128).save(folder / f"report-{name}.png", optimize=True)


PICTURES = {
    "verdict": ("1280", 460, 0, 130),
    "1280": ("1280", 1430, 0, 0),
    "390": ("390", 1700, 0, 0),
    "dark": ("dark", 1430, 0, 0),
    "contexts": ("1280-contexts", 1000, 24, 0),
    "print": ("print", 1010, 50, 0),
}
"""Of README and docs: which picture they are the top of, how high, the margin around them, and what
is cut off at both sides."""


def main() -> None:
    """Write the page, and the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(".cache/look"))
    parser.add_argument("--docs", type=Path, help="where the pictures of the docs go")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    log, candidate = shop()
    page = options.out / "shop.html"
    fc.report(log, candidate, by="device").save(page, title="Shop search: by click rate")
    print(f"{page}: {page.stat().st_size:,} bytes")
    if tools():
        done = photograph(page)
        print(done.stdout + done.stderr)
        if options.docs:
            illustrate(page, options.docs)
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
