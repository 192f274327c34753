"""What will take long, said before the work: about how long, why, and what would be faster."""

from __future__ import annotations

from collections.abc import Sequence

from foreclick.batches import FEW_RECORDS, Batches, batches_of, size_of
from foreclick.estimators import Estimator, Ladder
from foreclick.kept import kept
from foreclick.progress import announce, duration
from foreclick.tallies import Tally

SLOW = 30.0
"""CPU seconds from which work is announced."""

HUGE_CONTEXT = 20_000_000
"""Slots of one context, which is worked on in one piece, from which its memory is announced."""

# Seconds of one core. To read a position of a row of the tally; then, for an estimator with
# intervals: for a position of a row, for one of an item in a context, for a context in a period;
# for the examination of 100 positions, and for a pair of candidates. Rough: each from one or two
# runs (experiments/notes/torture.md), so expect half as much or twice as much.
_READ, _ROW, _PAIR, _SUM = 0.08e-6, 0.04e-6, 0.3e-6, 0.08e-6
_EXAMINED, _COMPARED = 25.0, 1e-3
_SLOT_BYTES = 100


@kept
def _announced(_: Batches) -> set[str]:
    """What was said of a log already."""
    return set()


def announce_effort(counted: Tally, estimators: Sequence[Estimator], candidates: int = 1) -> None:
    """Say how long the work will take, if that is long, and what would make it shorter.

    It is said once of a log: the next question finds most of the work done.
    """
    size, depth = size_of(counted), counted.shape.depth
    periods = len(batches_of(counted).codebook.periods or ())
    ladders = sum(isinstance(estimator, Ladder) for estimator in estimators)
    each, pairs = len(estimators), candidates * (candidates + 1) // 2
    read = depth * _READ * size.rows
    read += candidates * each * depth * (_ROW * size.rows + _PAIR * size.pairs)
    parts = [
        (
            read,
            f"the tally has {size.rows:,} rows of {depth} positions. More processes "
            "(fc.settings(workers=…)) or a part of the log (read_log(…, where=…)) are faster"
            if size.median >= FEW_RECORDS
            else f"{size.contexts:,} contexts hardly repeat (records in the median one: "
            f"{size.median:g}). A coarser context is faster, and says more",
        ),
        (
            candidates * each * _SUM * size.contexts * periods,
            f"{size.contexts:,} contexts × {periods:,} periods. A coarser period is faster",
        ),
        (
            ladders * _EXAMINED * (depth / 100) ** 2,
            f"lists have up to {depth} positions. Fewer (read_log(…, depth=10)) are faster",
        ),
        (
            each * _COMPARED * pairs if candidates > 1 else 0.0,
            f"{candidates} candidates are {pairs:,} pairs. Compare the best ten by fc.evaluate",
        ),
    ]
    texts, seconds = [], sum(part for part, _ in parts)
    if seconds >= SLOW:
        texts.append(f"This takes about {duration(seconds)} of one core: {max(parts)[1]}.")
    if size.largest * depth >= HUGE_CONTEXT:
        texts.append(
            f"One context has {size.largest:,} rows, which are worked on in one piece: about "
            f"{size.largest * depth * _SLOT_BYTES / 1e9:.0f} GB of memory. A finer context needs "
            "less."
        )
    said = _announced(batches_of(counted))
    for text in texts:
        if text not in said:
            said.add(text)
            announce(text)
