"""Files and names that pages of the documentation start with: the shop of the tutorial.

    python -m tests.docs_files DIRECTORY    write the files there

Where the variable FORECLICK_DOCS_FILES names that directory, they are read from it: what makes them
needs pandas, which a page may not.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import foreclick as fc
from tests import docs

if TYPE_CHECKING:
    import pandas as pd

ROLES: dict[str, Any] = {"context": "query", "period": "day", "unit": "user"}


def shop(directory: Path) -> dict[str, Any]:
    """Logs and candidates as files, `log` and `candidate` as names, and `fc`.

    `log.parquet` has a row for each list, with `query` (its words are `kind` and `thing`), `items`,
    `clicks`, `orders`, `day`, `user` and `device`; `logs/` has the same, a file for each day.
    """
    made = _made()
    shutil.copytree(made, directory, dirs_exist_ok=True)
    log = fc.read_log(made / "log.parquet", **ROLES)
    return {
        "fc": fc,
        "log": log,
        "candidate": fc.Ranking(str(made / "candidate.parquet"), context="query"),
    }


@functools.cache
def _made() -> Path:
    """The files, written once by each process."""
    if "FORECLICK_DOCS_FILES" in os.environ:
        return Path(os.environ["FORECLICK_DOCS_FILES"])
    directory = Path(tempfile.mkdtemp(prefix="foreclick-docs-"))
    names: dict[str, Any] = {}
    tutorial = docs.blocks((docs.ROOT / "docs" / "tutorial.md").read_text())
    first = next(block.text for block in tutorial if block.language == "python")
    exec(first, names)  # noqa: S102 - our own text
    events(names["impressions"], names["actions"], directory)
    names["scores"].to_parquet(directory / "scores.parquet")
    for name, scores in (("candidate", names["scores"]), ("other", names["old_scores"])):
        best = scores.sort_values("score", ascending=False).groupby("query").head(6)
        ranked = best.groupby("query")["item"].agg(list).rename("items").reset_index()
        ranked.to_parquet(directory / f"{name}.parquet")
    return directory


def events(impressions: pd.DataFrame, actions: pd.DataFrame, directory: Path) -> None:
    """The events, the log they make, and its tally."""
    impressions = impressions.assign(day=impressions["day"].dt.date)  # Spark reads no nanoseconds
    impressions.to_parquet(directory / "impressions.parquet")
    actions.to_parquet(directory / "actions.parquet")
    long = impressions.drop_duplicates(["request_id", "position"])
    for reward in ("click", "order"):
        done = actions[actions["action"] == reward].drop_duplicates(["request_id", "item"])
        found = long.merge(done[["request_id", "item"]], how="left", indicator=True)
        long = long.assign(**{reward: (found["_merge"] == "both").astype(int).to_numpy()})
    long.to_parquet(directory / "long.parquet")
    lists = long.sort_values(["request_id", "position"]).groupby("request_id")
    kept = {"query": "first", "day": "first", "user": "first", "device": "first"}
    log = lists.agg(kept | {"item": list, "click": list, "order": list}).reset_index()
    log = log.rename(columns={"item": "items", "click": "clicks", "order": "orders"})
    log[["kind", "thing"]] = log["query"].str.split(expand=True)
    table = pa.Table.from_pandas(log, preserve_index=False)
    pq.write_table(table, directory / "log.parquet")
    (directory / "logs").mkdir()
    for day, rows in log.groupby("day"):
        rows.to_parquet(directory / "logs" / f"{day:%Y-%m-%d}.parquet")
    fc.tally(fc.read_log(table, **ROLES)).write_parquet(directory / "tally.parquet")


def list_rows() -> Path:
    """The file of the log with a row for each list."""
    return _made() / "log.parquet"


def long_rows() -> pa.Table:
    """The log with a row for each impression, for engines that the tests load it into."""
    table = pq.read_table(_made() / "long.parquet")
    return table.slice(0, 6 * 2_000).replace_schema_metadata(None)


if __name__ == "__main__":
    shutil.copytree(_made(), sys.argv[1])
