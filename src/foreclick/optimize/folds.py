"""Records in parts, so that a policy can be judged by those that had no say in choosing it.

Parts are made of whole periods or of whole buckets of units, where the log has them, and of single
records otherwise: then the n equal records of a row are dealt out as chance would, by a hash.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from foreclick._tally import FEW_PERIODS, Tally, count_periods
from foreclick.engines import HASHES, Engine, Job, force, real, whole
from foreclick.logs import BUCKET, CONTEXT, PERIOD, N
from foreclick.optimize.answers import FOLD

_SEED = "seed"
_BETWEEN = ":"


def folded(tally: Tally, folds: int) -> Tally:
    """The tally with one more segment, `fold`, from 0 to folds − 1."""
    shape = replace(tally.shape, segments=(*tally.shape.segments, FOLD))
    if folds < 2:  # noqa: PLR2004 - all in one
        table = tally.table.mutate(**{FOLD: whole(0)})
        return replace(tally, table=table.select(shape.columns), shape=shape)
    if tally.shape.period and count_periods(tally) >= max(FEW_PERIODS, folds):
        return replace(tally, table=_by_period(tally, folds).select(shape.columns), shape=shape)
    if tally.shape.unit:
        fold = force(tally.table[BUCKET] % folds, "int64")
        table = tally.table.mutate(**{FOLD: fold})
        return replace(tally, table=table.select(shape.columns), shape=shape)
    engine, table = _dealt(tally, folds)
    return replace(tally, engine=engine, table=table.select(shape.columns), shape=shape)


def _by_period(tally: Tally, folds: int) -> ir.Table:
    """One period after the other goes to the next fold; so every fold has early and late ones."""
    table = tally.table
    rows = tally.engine.rows(table.select(PERIOD).distinct())
    periods = sorted((row[PERIOD] for row in rows), key=lambda p: (p is None, str(type(p)), p or 0))
    kind = pa.schema({"of": table[PERIOD].type().to_pyarrow(), FOLD: pa.int64()})
    numbered = pa.table({"of": periods, FOLD: [i % folds for i in range(len(periods))]}, kind)
    which = tally.engine.show(numbered)
    same = (table[PERIOD] == which["of"]) | (table[PERIOD].isnull() & which["of"].isnull())
    return table.join(which, same).drop("of")


def _dealt(tally: Tally, folds: int) -> tuple[Engine, ir.Table]:
    """Every row as often as folds get some of its records."""
    engine, table = tally.engine, tally.table
    text: ir.StringValue = ibis.literal(FOLD)
    for column in tally.shape.keys:
        value = table[column]
        if value.type().is_floating():  # engines write 1.0 in ways of their own
            value = force((value * real(2**20)).floor(), "int64")
        text = text + _BETWEEN + value.cast("string").fill_null("")
    rows = table.mutate(**{N: table[N].cast("float64"), _SEED: engine.hashed(text)})
    fields = rows.schema().to_pyarrow()
    schema = fields.remove(fields.get_field_index(_SEED)).append(pa.field(FOLD, pa.int64()))
    return engine.worked(rows, Job(None, Deal(folds), schema))


@dataclass(frozen=True)
class Deal:
    """Equal records dealt out to folds, each to any of them alike."""

    folds: int

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Rows of a tally with a seed each, as rows with a fold each."""
        n = rows[N].to_numpy()
        seed = rows[_SEED].to_numpy().astype(np.uint64)
        row, fold, share = dealt(n, seed, self.folds)
        kept = rows.drop_columns([_SEED]).take(pa.array(row))
        at = kept.schema.get_field_index(N)
        return kept.set_column(at, N, pa.array(share)).append_column(FOLD, pa.array(fold))


def dealt(n: np.ndarray, seed: np.ndarray, folds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, folds, and how many of the row's n records each has: multinomial, by the seed.

    Fold by fold, of what is left, a binomial share. What n has beyond a whole number goes with
    one more record.
    """
    counts = np.zeros((len(n), folds))
    left = np.floor(n)
    for fold in range(folds - 1):
        some = np.flatnonzero(left)
        u = _uniform(seed[some], fold)
        counts[some, fold] = _binomial(u, left[some], 1.0 / (folds - fold))
        left = left - counts[:, fold]
    counts[:, folds - 1] = left
    rest = n - np.floor(n)
    last = np.floor(_uniform(seed, folds) * folds).astype(np.int64)
    counts[np.arange(len(n)), last] += rest
    row, fold_of = np.nonzero(counts)
    return row, fold_of, counts[row, fold_of]


def _binomial(u: np.ndarray, n: np.ndarray, p: float) -> np.ndarray:
    """The smallest count of n whose probability to be that, or less, is at least u."""
    from scipy import special  # noqa: PLC0415 - slow to import

    found = np.clip(np.ceil(special.bdtrik(u, n, p)), 0, n)
    less = np.maximum(found - 1, 0)  # where the inverse is off by rounding
    return np.where(special.bdtr(less, n.astype(np.int64), p) >= u, less, found)


def _uniform(seed: np.ndarray, stream: int) -> np.ndarray:
    """A number between 0 and 1 for each seed, another one for each stream: SplitMix64."""
    with np.errstate(over="ignore"):
        z = (seed + np.uint64(HASHES) * np.uint64(stream + 1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (np.asarray(z >> np.uint64(11), dtype=np.float64) + 0.5) / 2.0**53


def apart(tally: Tally) -> Tally:
    """The folded tally with every fold of a context as a context of its own."""
    context = tally.table[CONTEXT].cast("string")
    table = tally.table.mutate(**{CONTEXT: named(context, tally.table[FOLD])})
    return replace(tally, table=table.select(tally.shape.columns), learnt={})


def named(context: ir.StringValue, fold: ir.IntegerValue) -> ir.StringValue:
    """What a fold of a context is called."""
    return fold.cast("string") + _BETWEEN + context
