"""Public data with two arms: what one predicts of the other, beside what was measured.

    python -m experiments.replay open_bandit 'open_bandit_dataset/*/men/men.csv'
    python -m experiments.replay kuairand 'KuaiRand-Pure/data/log_*_4_22_to_5_08_pure.csv'
    python -m experiments.replay expedia train.csv
    python -m experiments.replay music data/D1 --other data/D2

Nothing of it is part of foreclick: each has its terms, and comes from its publisher.

| name | arms | context | item | period, unit |
|---|---|---|---|---|
| open_bandit | random, bts | position on the page | one item a list | day |
| kuairand | is_rand: videos drawn at random, and recommended | tab | one video a list | day, user |
| expedia | random_bool: hotels in random order, and in Expedia's | destination | hotels | day |
| music | D1, D2: two rankers of a home page, with propensities | request | index of the action | |

Of Expedia, only searches with a click or a booking were published. Requests of Amazon's music data
never repeat, so that arms have no context in common: the target's lists are evaluated by
propensities, and the other arm's mean reward is what they are held against.
"""

from __future__ import annotations

import argparse
from typing import Any

import duckdb
import pyarrow as pa

import foreclick as fc
from foreclick import datasets


def expedia(path: str, depth: int = 10) -> fc.Log:
    """The training file of Kaggle's "Personalize Expedia Hotel Searches", ICDM 2013."""
    return fc.read_log(
        path,
        long=("srch_id", "position"),
        context="srch_destination_id",
        items="prop_id",
        clicks="click_bool",
        period="date_time",
        segments={"variant": "random_bool"},
        depth=depth,
        invalid="drop",
    )


def kuairand(path: str) -> fc.Log:
    """Logs of KuaiRand (Gao et al., CIKM 2022): both files of the days with random videos."""
    return fc.read_log(
        path,
        context="tab",
        items=["video_id"],
        clicks=["is_click"],
        period="date",
        unit="user_id",
        segments={"variant": "is_rand"},
    )


def music(path: str, depth: int = 10) -> tuple[fc.Log, fc.Ranking]:
    """Requests of Amazon's Music Off-Policy Evaluation Benchmark, and the target's lists.

    The propensity of a slot is that of its action at its position: P_kk of the request's matrix.
    """
    source = f"{path.rstrip('/')}/*.parquet"
    shown = f"least(len(logging_selected_actions), {depth})"
    chosen = f"least(len(target_selected_actions), {depth})"
    table = duckdb.execute(
        f"""
        SELECT row_number() OVER () AS context,
            [logging_selected_actions[k] FOR k IN range(1, {shown} + 1)] AS items,
            [CAST(rewards[k] AS INTEGER) FOR k IN range(1, {shown} + 1)] AS clicks,
            [CAST(propensities[k][k] AS DOUBLE) FOR k IN range(1, {shown} + 1)] AS propensity,
            [target_selected_actions[k] FOR k IN range(1, {chosen} + 1)] AS target
        FROM read_parquet(?)
        """,
        [source],
    ).to_arrow_table()
    log = fc.read_log(table.drop_columns("target"), propensity="propensity")
    return log, fc.Ranking(pa.table({"context": table["context"], "items": table["target"]}))


def main() -> None:
    """Print what is predicted and measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", choices=("open_bandit", "kuairand", "expedia", "music"))
    parser.add_argument("path", help="a file or a glob; of music, a directory")
    parser.add_argument("--other", help="of music: the directory of the other arm")
    parser.add_argument("--metric", help="by default clicks@1 of single items, else clicks@10")
    args = parser.parse_args()
    if args.name == "music":
        metric = args.metric or "clicks@10"
        log, target = music(args.path)
        print(fc.evaluate(log, target, metrics=metric, logging="propensity"))
        if args.other:
            other = fc.Observed(music(args.other)[0])
            measured = fc.evaluate(other.log, other, metrics=metric, estimators="rctr")
            print(f"Measured in {args.other}: {measured['production'][0]:.4f}")
        return
    logs: dict[str, Any] = {
        "open_bandit": (datasets.open_bandit, "policy", "random", "clicks@1"),
        "kuairand": (kuairand, "variant", "0", "clicks@1"),
        "expedia": (expedia, "variant", "0", "clicks@10"),
    }
    read, variant, control, usual = logs[args.name]
    found = fc.replay(
        read(args.path), variant=variant, control=control, metrics=args.metric or usual
    )
    print(found)
    print(found.table)


if __name__ == "__main__":
    main()
