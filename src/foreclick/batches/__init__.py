"""Batches: a tally as integer-coded arrays, and policies in the same numbers."""

from foreclick.batches.arrays import Bools, Floats, Ints, padded, ratio, sums
from foreclick.batches.batch import EMPTY, Batch, Cluster, Reward
from foreclick.batches.candidate import Candidate, CodedLists, CodedSlots, Coding, Several
from foreclick.batches.decode import decode, row_schema
from foreclick.batches.drawn import context_draws, only_contexts, some_contexts, text_draws
from foreclick.batches.encode import Codebook
from foreclick.batches.facts import (
    FEW_RECORDS,
    contexts_repeat,
    count_periods,
    largest_rewards,
    records_without_period,
    size_of,
)
from foreclick.batches.pool import pooled
from foreclick.batches.source import Batches, Remembered, Totals, batches_of, regrouped

__all__ = [
    "EMPTY",
    "FEW_RECORDS",
    "Batch",
    "Batches",
    "Bools",
    "Candidate",
    "Cluster",
    "Codebook",
    "CodedLists",
    "CodedSlots",
    "Coding",
    "Floats",
    "Ints",
    "Remembered",
    "Reward",
    "Several",
    "Totals",
    "batches_of",
    "context_draws",
    "contexts_repeat",
    "count_periods",
    "decode",
    "largest_rewards",
    "only_contexts",
    "padded",
    "pooled",
    "ratio",
    "records_without_period",
    "regrouped",
    "row_schema",
    "size_of",
    "some_contexts",
    "sums",
    "text_draws",
]
