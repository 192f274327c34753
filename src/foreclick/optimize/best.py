"""`optimize`: the best policy that a log supports, and what it is honestly worth."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any

import ibis
import ibis.expr.types as ir

from foreclick._evaluate import Evaluation, evaluate
from foreclick._progress import working
from foreclick._tally import Tally, settle
from foreclick.engines import Engine, Job, bring, real
from foreclick.errors import PolicyError
from foreclick.logs import CONTEXT, ITEM, numbered
from foreclick.metrics import Metric
from foreclick.models import MASS
from foreclick.optimize.answers import ALL, CHANGED, FOLD, PROBABILITY, schema
from foreclick.optimize.asked import Wishes, check_numbers, chosen_by, offered, over_lists
from foreclick.optimize.counted import Counted
from foreclick.optimize.folds import apart, folded, named
from foreclick.optimize.gains import gains
from foreclick.optimize.optimized import Optimized, by_context, summed_up, worded
from foreclick.policies import Lists, Observed
from foreclick.sqlkernel import check_columns

_CHUNK = 50_000  # rows of counts that a process is given at a time


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
        estimator: "ladder-ip" (which other ladders stand for too: the best list is found by what
            an item earns at a position), or one of the paper's with a cell of items, positions or
            lists: "ip", "item", "pbm", "list", "prefix", or a `ClickModel` of that kind.
        pessimism: by how many standard errors rates are lowered; 0 for the paper's plain optimum.
        clip: M of the paper's estimators.
        seen: how often an item must have been shown (at the position, if the estimator tells
            positions apart; the list, by "list") to be shown.
        fallback: whether a context stays as it is unless the new policy is better than production
            even after pessimism. Where production shows what is banned, or breaks another wish, it
            does not stay.
        change: the share of a context's slots that may differ from production's, for a careful
            first step.
        pinned: a table of `context`, `item`, `position`: what must be where.
        banned: items that must not be shown; or a table of `context` and `item`.
        at_least: items and the least share of the slots that they get together, in every context
            which has any of them: ``[(new_items, 0.1)]``.
        lists: which lists there are to choose from: "logged" for those of the log, or a table of
            `context` and `items`; contexts that it leaves out stay as they are. By default, every
            order of a context's items.
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
    from foreclick.optimize.contexts import Best  # noqa: PLC0415 - solvers are slow to import

    what, by = chosen_by(metric, estimator, clip)
    wishes = Wishes(pinned, banned, tuple(at_least))
    check_numbers(
        pessimism,
        {"change": change, "explore": explore},
        {"max_lists": max_lists, "folds": folds, "workers": workers},
    )
    if explore and wishes:
        raise PolicyError(
            "explore= shows production's own lists, which need not keep to pinned=, banned= and "
            "at_least=. Leave one of them out."
        )
    counted, notes = settle(log)
    check_columns(counted.shape, [what.source], ())
    parts = folded(counted, folds)
    with parts.engine.scratch() as keep, working() as say:
        say("counting")
        source = Counted(parts, what, keep)
        model = source.model(by, by.clip[0] if by.clip else clip, pessimism)
        wish = replace(
            wishes.read(source, model.depth),
            change=change,
            lists=1 if deterministic else max_lists,
            seen=seen,
            fallback=fallback,
            explore=explore,
        )
        by_list = over_lists(by, lists)
        rows = keep(source.listed(offered(lists)), "counts") if by_list else source.slots
        every = parts.engine.rows(rows.aggregate(n=rows.count()))[0]["n"]

        def tell(done: int) -> None:
            say(f"the best lists, {done / max(every, 1):.0%} of the log")

        columns = schema(rows.schema().to_pyarrow(), model.depth)
        job = Job(CONTEXT, Best(model, wish, folds, by_list), columns, workers, _CHUNK, tell)
        home, answers = parts.engine.worked(rows, job)
        view = replace(source.view, depth=model.depth)
        shown = Observed(parts).lists(view).rename({PROBABILITY: MASS})
        shown = home.materialise(bring(shown, parts.engine, home), "production")
        table = home.materialise(_policy(answers, shown, model.depth, explore), "policy")
        say("judging")
        judged = None
        if folds > 1:
            judged = _judged(parts, home, answers, model.depth, what, judge, confidence)
    row = summed_up(home, answers, judged, what, by, explore, folds)
    return Optimized(
        (row,),
        tuple(row),
        (*notes, *worded(row, home, answers, judged, explore, folds)),
        policy=Lists(table, items=numbered(ITEM, model.depth)),
        evaluation=judged,
        gains=gains(home, by_context(answers), 1 - explore),
        where=home,
        answers=answers,
    )


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
