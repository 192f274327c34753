"""`optimize`: the best policy that a log supports, and what it is honestly worth."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir

from foreclick._evaluate import Evaluation, evaluate
from foreclick._progress import working
from foreclick._tally import Tally, settle
from foreclick.engines import Engine, Job, bring, open_source, real, total
from foreclick.errors import ModelError, PolicyError
from foreclick.estimators import Ladder, Weighted, check_columns, parse_estimators
from foreclick.logs import CONTEXT, ITEM, N, numbered, read_log
from foreclick.metrics import Metric
from foreclick.models import POSITION
from foreclick.optimize.batch import ALL, FOLD
from foreclick.optimize.contexts import CHANGED, IMPOSSIBLE, PROBABILITY, UNSURE, Best, Wish, schema
from foreclick.optimize.counted import Counted
from foreclick.optimize.folds import apart, folded, named
from foreclick.optimize.gains import gains
from foreclick.policies import Lists, Observed
from foreclick.results import Result, Value

_WHY = {
    UNSURE: "nothing is sure to be better",
    IMPOSSIBLE: "no policy keeps to the limits, with what was seen",
}
_CHUNK = 50_000  # rows of counts that a process is given at a time


@dataclass(frozen=True, repr=False)
class Optimized(Result):
    """The best policy that a log supports.

    | column | meaning |
    |---|---|
    | value, se, low, high | what it is worth, judged by records that had no say in choosing it |
    | naive | what the estimate it was chosen by says of it, which flatters |
    | production | the mean reward of the log |
    | change, lift | value − production, and that divided by production, with paired intervals |
    | covered | the share of its exposure that was ever logged |
    | contexts, changed, kept | how many there are, got a new policy, and stay as they are |
    | lists | how many lists the changed contexts have |
    | verdict | better, worse, no difference (worth having), or cannot tell |

    Printed, it leaves out what follows from the rest; the columns are all there.

    Attributes:
        policy: the policy, with production's own lists where production stays.
        evaluation: how it was judged.
        gains: where the gain comes from: contexts sorted by it, in 200 rows at most.
        where: the engine with the answers by context; `answers`: their table there.
    """

    policy: Lists = field(kw_only=True, compare=False)
    evaluation: Evaluation | None = field(kw_only=True)
    gains: Result = field(kw_only=True)
    where: Engine = field(kw_only=True, compare=False)
    answers: ir.Table = field(kw_only=True, compare=False)

    @property
    def shown(self) -> tuple[str, ...]:
        """Without what follows from the rest."""
        dull = {"se", "change", "change_low", "change_high", "contexts"}
        dull |= {"lists"} if self["lists"] == self["changed"] else set()  # one each
        return tuple(c for c in self.columns if c not in dull)

    @property
    def value(self) -> float:
        """What the policy is worth, honestly; NaN if the judge sees nothing of it."""
        found = self["value"][0]
        return math.nan if found is None else float(found)

    @property
    def naive(self) -> float:
        """What the estimate it was chosen by says of it."""
        return float(self["naive"][0])

    @property
    def production(self) -> float:
        """What production earns today."""
        return float(self["production"][0])

    @property
    def contexts(self) -> ir.Table:
        """By context: why it was changed or not, its records, and what it earns and would earn.

        `naive` is the estimate of the new policy, `sure` the same after pessimism, `se` its
        standard error, and `se_next` that after as many records again, of the new policy; these
        two are of the ladder.
        """
        return _contexts(self.answers)

    def write(self, path: str | Path) -> None:
        """Write the policy, as Parquet or CSV by the ending of the name; `fc.Lists` reads it.

        The columns are `context`, `item_1` …, `probability`, and whether the context is `changed`;
        the lists of a context stand together, the likeliest first.
        """
        table = self.policy.table
        items = [c for c in table.columns if c.startswith(f"{ITEM}_")]
        self.where.write(table.order_by([CONTEXT, ibis.desc(PROBABILITY), *items]), path)


def optimize(  # noqa: PLR0913 - a wish has many sides; all but one are keywords
    log: Any,  # noqa: ANN401 - a Log, a Tally, or what read_log accepts
    *,
    metric: str | Metric = "dcg@10",
    estimator: Any = "ladder-ip",  # noqa: ANN401 - a name or a value
    pessimism: float = 1.0,
    clip: float = math.inf,
    seen: float = 0,
    fallback: bool = True,
    change: float | None = None,
    pinned: Any = None,  # noqa: ANN401 - a table
    banned: Any = None,  # noqa: ANN401 - items, or a table
    at_least: Iterable[tuple[Iterable[Hashable], float]] = (),
    lists: Any = None,  # noqa: ANN401 - "logged", or a table
    max_lists: int | None = None,
    deterministic: bool = False,
    explore: float = 0.0,
    judge: Any = "ladder",  # noqa: ANN401 - a name or a value
    folds: int = 2,
    confidence: float = 0.95,
    workers: int = 1,
) -> Optimized:
    """The ranking policy that would earn most, as far as the log can tell.

    In every context, among all policies, the one with the largest estimate (Li et al., KDD 2018,
    section 4.3), where each click rate is lowered by `pessimism` standard errors: whoever takes the
    best of many estimates takes their errors too. For the same reason its value is not that
    estimate: the records are dealt to `folds`, a policy is chosen without each of them, and judged
    by it. So `value` is that of policies chosen from a part of the log: the policy itself, chosen
    from all of it, is rather better.

    Args:
        log: a Log, a Tally, or anything `read_log` accepts with the default column names.
        metric: what is to be large. Lists are as long as it counts, or as those of the log.
        estimator: "ladder-ip", or one of the paper's with a cell of items, positions or lists:
            "ip", "item", "pbm", "list", "prefix", or a `ClickModel` of that kind.
        pessimism: by how many standard errors rates are lowered; 0 for the paper's plain optimum.
        clip: M of the paper's estimators.
        seen: how often an item must have been shown (at the position, if the estimator tells
            positions apart; the list, by "list") to be shown.
        fallback: whether a context stays as it is unless the new policy is better than production
            even after pessimism.
        change: the share of a context's slots that may differ from production's, for a careful
            first step.
        pinned: a table of `context`, `item`, `position`: what must be where.
        banned: items that must not be shown; or a table of `context` and `item`.
        at_least: items and the least share of the slots that they get together, in every context
            which has any of them: ``[(new_items, 0.1)]``.
        lists: which lists there are to choose from: "logged" for those of the log, or a table of
            `context` and `items`. By default, every order of a context's items.
        max_lists: how many lists a context has at most.
        deterministic: one list a context.
        explore: how often production's own list is shown instead, so that the next log still sees
            what this one saw.
        judge: the estimator that says what the policy is worth.
        folds: in how many parts the records are. More choose by more records, and judge by fewer.
            1: the policy is not judged, and `value` is the naive one.
        confidence: of the intervals.
        workers: how many processes solve at a time. In a script, more than one need the usual
            ``if __name__ == "__main__":``. On Spark its own workers do it.

    Examples:
        >>> log = {
        ...     "context": ["q"] * 400,
        ...     "items": [[1, 2], [2, 1]] * 200,
        ...     "clicks": [[0, 1], [1, 0]] * 100 + [[0, 0], [1, 0]] * 100,
        ... }
        >>> best = optimize(log, metric="clicks@1")
        >>> best.policy.table.to_pyarrow().to_pylist()
        [{'context': 'q', 'item_1': 2, 'probability': 1.0, 'changed': True}]
        >>> best.production, round(best.value, 2)
        (0.5, 1.0)
    """
    what, by = _checked(metric, estimator, clip)
    limits = _limits(change, max_lists, deterministic=deterministic, explore=explore, folds=folds)
    counted, notes = settle(log)
    check_columns(counted.shape, [what.source], ())
    parts = folded(counted, folds)
    with parts.engine.scratch() as keep, working() as say:
        say("counting")
        source = Counted(parts, what, keep)
        wish = replace(
            limits,
            pinned=_pinned(pinned, source),
            **_banned(banned, source),
            groups=tuple((_as_logged(items, source), share) for items, share in at_least),
            seen=seen,
            fallback=fallback,
        )
        by_list = lists is not None or (isinstance(by, Weighted) and by.model.over_lists)
        rows = source.listed(_given(lists)) if by_list else source.slots()
        rows = keep(rows, "counts")
        model = source.model(by, by.clip[0] if by.clip else clip, pessimism)
        depth = model.depth
        best = Best(model, wish, folds, by_list)
        every = parts.engine.rows(rows.aggregate(n=rows.count()))[0]["n"]

        def tell(done: int) -> None:
            say(f"the best lists, {done / max(every, 1):.0%} of the log")

        columns = schema(rows.schema().to_pyarrow(), depth)
        job = Job(CONTEXT, best, columns, workers, _CHUNK, tell)
        home, answers = parts.engine.worked(rows, job)
        production = bring(_production(source, depth), parts.engine, home)
        production = home.materialise(production, "production")
        say("judging")
        policy = Lists(
            home.materialise(_policy(answers, production, depth, explore), "policy"),
            items=numbered(ITEM, depth),
        )
    judged = _judged(parts, home, answers, depth, what, judge, confidence) if folds > 1 else None
    row = _row(home, answers, judged, what, by, explore)
    notes += _said(row, home, answers, judged, explore) + _learnt(home, answers, explore)
    return Optimized(
        (row,),
        tuple(row),
        tuple(notes),
        policy=policy,
        evaluation=judged,
        gains=gains(home, _contexts(answers), 1 - explore),
        where=home,
        answers=answers,
    )


# --- what is asked --------------------------------------------------------------------------------


def _checked(metric: str | Metric, estimator: object, clip: float) -> tuple[Metric, Any]:
    what = Metric(metric)
    if what.first:
        raise ModelError(
            f"{what.name} counts first clicks, which depend on all that stands above, so that the "
            "best list is not found slot by slot. Optimise clicks@K or dcg@K, and evaluate the "
            f"policy by {what.name}."
        )
    found = parse_estimators(estimator, clip)
    if len(found) > 1:
        raise ModelError(f"estimator={estimator!r}: a policy is the best by one of them.")
    by = found[0]
    if isinstance(by, Ladder):
        if by.top != "ip" or by.segments:
            raise ModelError(
                f"{by.name!r}: what an item is worth there depends on the rest of the list, or on "
                "other contexts. Optimise by Ladder('ip'), and judge by any: judge='ladder'."
            )
        return what, by
    cell = by.model.cell
    if callable(cell) or not by.model.sees_items or len(by.clip or ()) > 1:
        raise ModelError(
            f"{by.name!r} cannot choose a policy: it needs one clip, and a cell of 'item', of "
            "'item' and 'position', 'list' or 'prefix'. Use 'ladder-ip', 'ip', 'item', 'pbm' or "
            "'list'."
        )
    return what, by


def _limits(
    change: float | None,
    max_lists: int | None,
    *,
    deterministic: bool,
    explore: float,
    folds: int,
) -> Wish:
    for name, share in (("change", change), ("explore", explore)):
        if share is not None and not 0 <= share <= 1:
            raise PolicyError(f"{name}={share!r}: give a share between 0 and 1.")
    if max_lists is not None and max_lists < 1:
        raise PolicyError(f"max_lists={max_lists!r}: a context has at least one list.")
    if folds < 1:
        raise ModelError(f"folds={folds!r}: give a number of parts, or 1 for no judgement.")
    return Wish(change=change, lists=1 if deterministic else max_lists, explore=explore)


def _given(lists: object) -> Observed | None:
    """The lists to choose from, besides those of the log."""
    if lists is None or (isinstance(lists, str) and lists == "logged"):
        return None
    return Observed(read_log(lists, clicks=None))


def _pinned(pinned: object, source: Counted) -> dict[Hashable, dict[int, Hashable]]:
    found: dict[Hashable, dict[int, Hashable]] = {}
    for row in _table(pinned, (CONTEXT, ITEM, POSITION)):
        context, item = _typed(row[CONTEXT], source, CONTEXT), _typed(row[ITEM], source, ITEM)
        at = found.setdefault(context, {})
        if at.setdefault(int(row[POSITION]), item) != item:
            raise PolicyError(
                f"pinned: {at[int(row[POSITION])]!r} and {item!r} are both to be at position "
                f"{row[POSITION]} of context {context!r}. Pin one item there."
            )
    return found


def _banned(banned: object, source: Counted) -> dict[str, Any]:
    if banned is None:
        return {}
    if isinstance(banned, list | tuple | set | frozenset):
        return {"banned": _as_logged(banned, source)}
    by_context: dict[Hashable, set[Hashable]] = {}
    for row in _table(banned, (CONTEXT, ITEM)):
        context = _typed(row[CONTEXT], source, CONTEXT)
        by_context.setdefault(context, set()).add(_typed(row[ITEM], source, ITEM))
    return {"banned_in": {context: frozenset(items) for context, items in by_context.items()}}


def _table(source: object, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of a small table of wishes."""
    if source is None:
        return []
    engine, table = open_source(source)
    missing = [c for c in columns if c not in table.columns]
    if missing:
        raise PolicyError(
            f"there is no column {missing[0]!r} in {', '.join(table.columns)}; "
            f"{', '.join(columns)} are needed."
        )
    return engine.rows(table.select(*columns))


def _as_logged(items: Iterable[Hashable], source: Counted) -> frozenset[Hashable]:
    return frozenset(_typed(item, source, ITEM) for item in items)


def _typed(value: Hashable, source: Counted, column: str) -> Hashable:
    """As the log has it: text, or a number."""
    kind = source.lists[column if column in source.lists.columns else f"{column}_1"].type()
    return str(value) if kind.is_string() else value


# --- what comes of it -----------------------------------------------------------------------------


def _production(source: Counted, depth: int) -> ir.Table:
    """What was shown, down to a depth: `context`, `item_1` …, `probability`."""
    lists, items = source.lists, numbered(ITEM, depth)
    counts = lists.group_by([CONTEXT, *items]).aggregate(**{N: total(lists[N])})
    sums = lists.group_by(CONTEXT).aggregate(all=total(lists[N]))
    both = counts.join(sums, CONTEXT)
    share = both[N].cast("float64") / both["all"].cast("float64")
    return both.select(CONTEXT, *items, **{PROBABILITY: share})


def _contexts(answers: ir.Table) -> ir.Table:
    """What was said of each context, and how many lists it has."""
    rows = answers.filter(answers[FOLD] == ALL)
    said = ["why", "records", "production", "naive", "sure", "se", "se_next"]
    return rows.group_by([CONTEXT, *said]).aggregate(lists=rows[PROBABILITY].count())


def _policy(answers: ir.Table, production: ir.Table, depth: int, explore: float) -> ir.Table:
    """The best lists, and production's where it stays, or is explored beside them."""
    columns = [CONTEXT, *numbered(ITEM, depth)]
    whole = answers.filter(answers[FOLD] == ALL)
    new = whole.filter(whole["why"] == CHANGED)
    parts = [new.select(*columns, PROBABILITY).mutate(changed=ibis.literal(True))]
    old = production.anti_join(new, CONTEXT)
    parts.append(old.select(*columns, PROBABILITY).mutate(changed=ibis.literal(False)))
    if explore > 0:
        too = production.semi_join(new, CONTEXT).select(*columns, PROBABILITY)
        mixed = ibis.union(
            too.mutate(**{PROBABILITY: too[PROBABILITY] * real(explore)}),
            new.select(*columns, **{PROBABILITY: new[PROBABILITY] * real(1 - explore)}),
        )
        summed = mixed.group_by(columns).aggregate(**{PROBABILITY: mixed[PROBABILITY].sum()})
        parts[0] = summed.mutate(changed=ibis.literal(True))
    return ibis.union(*parts)


def _judged(
    parts: Tally,
    home: Engine,
    answers: ir.Table,
    depth: int,
    what: Metric,
    judge: object,
    confidence: float,
) -> Evaluation | None:
    """What policies are worth to the records that had no say in them; None if none was chosen.

    A fold of a context is a context of its own, whose policy was chosen without it: so it is one
    evaluation like any other.
    """
    new = answers.filter((answers[FOLD] != ALL) & (answers["why"] == CHANGED))
    chosen = new.select(
        **{CONTEXT: named(new[CONTEXT].cast("string"), new[FOLD])},
        **{c: new[c] for c in (*numbered(ITEM, depth), PROBABILITY)},
    )
    chosen = home.materialise(chosen, "chosen")
    if not home.rows(chosen.aggregate(n=chosen.count()))[0]["n"]:
        return None
    return evaluate(
        apart(parts),
        Lists(chosen, items=numbered(ITEM, depth)),
        metrics=what,
        estimators=judge,
        missing="production",
        confidence=confidence,
    )


_JUDGED = ("value", "se", "low", "high")
_PAIRED = ("change", "change_low", "change_high", "lift", "lift_low", "lift_high")


def _row(
    home: Engine,
    answers: ir.Table,
    judged: Evaluation | None,
    what: Metric,
    by: Weighted | Ladder,
    explore: float,
) -> dict[str, Value]:
    contexts = _contexts(answers)
    changed = contexts["why"] == CHANGED
    n = contexts["records"]
    sums = home.rows(
        contexts.aggregate(
            records=n.sum(),
            production=(n * contexts["production"]).sum(),
            naive=(n * contexts["naive"]).sum(),
            contexts=contexts.count(),
            changed=changed.sum(),
            lists=contexts["lists"].sum(),
        )
    )[0]
    records = sums["records"] or 1.0
    production = (sums["production"] or 0.0) / records
    naive = (sums["naive"] or 0.0) / records
    honest = judged.to_dicts()[0] if judged else {}
    left = 1 - explore

    def mixed(value: Value, start: float) -> Value:
        """Of what is shown a share `left` of the time, and production otherwise."""
        return None if value is None else left * float(value) + explore * start

    start = honest.get("production", production)
    alone = production if judged is None and not sums["changed"] else naive
    ends: dict[str, Value] = {
        c: mixed(honest.get(c, alone if c == "value" else None), float(start or 0.0))
        for c in _JUDGED
        if c != "se"
    }
    return {
        "estimator": by.name,
        "metric": what.name,
        "value": ends["value"],
        "se": mixed(honest.get("se"), 0.0),
        "low": ends["low"],
        "high": ends["high"],
        "naive": left * naive + explore * production,
        "production": production,
        **{c: mixed(honest.get(c), 0.0) for c in _PAIRED},
        "covered": honest.get("covered"),
        "contexts": int(sums["contexts"] or 0),
        "changed": int(sums["changed"] or 0),
        "kept": int((sums["contexts"] or 0) - (sums["changed"] or 0)),
        "lists": int(sums["lists"] or 0),
        "verdict": honest.get("verdict"),
    }


def _said(
    row: dict[str, Value],
    home: Engine,
    answers: ir.Table,
    judged: Evaluation | None,
    explore: float,
) -> list[str]:
    """In words: what was changed, why the rest was not, and what flattery was taken away."""
    kept = answers.filter((answers[FOLD] == ALL) & (answers["why"] != CHANGED))
    reasons = home.rows(kept.group_by("why").aggregate(n=kept.count()))
    notes = [
        f"{row['changed']:,} of {row['contexts']:,} contexts get a new policy."
        + "".join(
            f" {r['n']:,} stay as they are: {_WHY[r['why']]}."
            for r in sorted(reasons, key=lambda r: -r["n"])
        )
    ]
    if judged is None:
        notes.append(
            "The policy was not judged by records of its own"
            + (
                ", so value is the naive one, which flatters. Use folds=2."
                if row["changed"]
                else "."
            )
        )
        return notes
    notes.append(
        f"The estimate that it was chosen by says {row['naive']:.4g}; records that had no say in "
        f"it say {_number(row['value'])}, and production earns {row['production']:.4g}."
    )
    alone = "Without exploring: " if explore else ""
    return notes + [alone + note for note in judged.notes]


def _number(value: Value) -> str:
    return "nothing" if value is None else f"{float(value):.4g}"


def _learnt(home: Engine, answers: ir.Table, explore: float) -> list[str]:
    """What the next log would tell, if production is explored."""
    if not explore:
        return []
    new = answers.filter((answers[FOLD] == ALL) & (answers["why"] == CHANGED))
    contexts = new.filter(new["se"] > 0).select(CONTEXT, "se", "se_next").distinct()
    left = contexts["se_next"] / contexts["se"]
    sums = contexts.aggregate(n=contexts.count(), mean=left.mean(), half=(left < real(0.5)).sum())
    row = home.rows(sums)[0]
    said = f"Production is shown {explore:.0%} of the time."
    if row["n"]:
        said += (
            " As many records again would shrink the standard errors of the changed contexts to "
            f"{row['mean']:.0%} on average, and those of {row['half']:,} to less than half: "
            "column se_next of `contexts`."
        )
    return [said]
