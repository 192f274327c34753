"""Batches: a tally as integer-coded arrays, and policies in the same numbers."""

from foreclick.batches.arrays import Bools, Floats, Ints, padded, ratio, sums
from foreclick.batches.batch import EMPTY, Batch, Cluster, Reward
from foreclick.batches.candidate import Candidate, CandidateSet, CodedLists, CodedSlots, Coding
from foreclick.batches.drawn import only_contexts, some_contexts
from foreclick.batches.encode import Codebook, decode
from foreclick.batches.facts import (
    FEW_RECORDS,
    count_periods,
    largest_rewards,
    records_without_period,
    size_of,
)
from foreclick.batches.pool import pooled
from foreclick.batches.source import Batches, batches_of, regrouped
