"""Allowances: every constant that makes an interval wider than the log alone would.

An interval allows for what varies in the log, and for errors that no record shows. How large those
are, a constant has to say. Each paragraph says which error it allows for, where the number comes
from, and what is known of it elsewhere. *Chosen* means that nobody measured it: it was set so that
intervals held in the logs that are named, and other logs may need another one. "Shops" are those of
`simulate.shop`, with the seeds 7, 100 to 105, 200 to 202, 300 to 302, 400 to 402, 500 to 502, 700
to 702 and 4000 to 4002; figures on other seeds are in `docs/evidence.md`, and what was tried is in
`experiments/notes`.

Thresholds of verdicts (how much must be covered, how many records are needed) are rules, not
allowances: they stand in `questions.reasons`.
"""

from __future__ import annotations

# --- the ladder: what its regression may be off by ------------------------------------------------

FORM_ERROR = 0.008
"""The form of the click model: what a candidate shows more and less is off by .8 %, all one way.

Estimated, with the next two, from 340 answers to 45 logs of nine exams, the shops and our own exam
(9001, 9002, 9501, 9502, 9601, 9901, 9911): by the likelihood of their errors, worlds alike. Those
of one log have one sign, whichever the candidate, and 1.0 % where items compete. A share of the
change itself, or of how deep items stand that were never shown, came out as 0 beside it."""

FORM_ERROR_LATER = 0.04
"""The same of answers from records after `trained_until`: 4 %.

Production has gone on learning since, from clicks that the answer rests on: what it gave up after
bad luck looks worse than it is. Measured in our own exam (71 to 73, 9701, 9801): candidates came
out too low, by 3 to 8 % of what they show more and less."""

NEVER_SHOWN_SD = 0.3
"""Items never shown in their context: standard deviation of the logarithm of their common factor.

Production left them out for reasons that ranks do not tell. Estimated, as above: .25 to .36."""

UNREACHABLE_SD = 0.5
"""Items that production cannot show: standard deviation of the logarithm of their common factor.

It counts if the overlap of the rankers says that there are such items: then they are half or twice
as good as others placed so high. Chosen. In shops where they were as good, worse and better,
intervals held 100, 100 and 90 % (seed 10400); no log tells more of them."""

UNREACHABLE_FACTOR = 2.5
"""Items that production's retrieval may not show: at most so many times as good as others.

It moves the upper end alone, where the overlap says that there are some, by as many of them as it
cannot exclude. Chosen, in the same shops."""

OVERLAP_MISFIT = 0.004
"""How much better the overlap must fit with items that production cannot show, to count them.

Chosen, on 18 logs of exams and shops: worse candidates whose items were all within reach reached
.001, those of whose items 30 % were not had .006 to .021. Shares below the best that fit nearly as
well count for the upper end."""

STOPPING_ERROR = 0.1
"""How often a click ends the reading, κ: off by 10 % of itself, however many clicks tell of it.

κ is learnt from first results only, and comes out too low: .5 where shops have .6. Estimated, as
above: .0 to .1."""

RISE_ERROR = 0.5
"""The coefficient of production's rise: off by half of itself.

Luck makes it too small where lists react to clicks. Measured: exams pbm and trust of seed 9001 gave
.53 to .84, where the true rates have .77 to 1.1, so it lacked .45 of itself on average."""

TOGETHER_ERROR = 0.15
"""Clicks that come together: a change is off by the share by which more follow, at most by 15 %.

Readers who differ make it so, and answers are right; or clicks lead readers on, and changes come
out too small, and no log tells which. Chosen: on exam ubm (9001 and 9002, 13 % more clicks) changes
were 8 to 28 % too small; where half of the users are hasty (48 % more), they were right."""

EXAMINATION_CHANGE_SD = 0.1
"""Examination before `trained_until`: standard deviation of the logarithm of how it has changed.

What earlier records say of examination counts as far as that. Chosen on exams 41 and 42; in shops,
where examination does not change, the truth is 0."""

# --- the ladder: what is known before the log -----------------------------------------------------

COEFFICIENT_PRECISION = 1.0
"""A coefficient of the regression is 0 with a standard deviation of 1 before any click is seen.

Chosen. It matters where few clicks decide: in a shop of 20,000 lists (seed 3), by 1 % of the
variance."""

INTERCEPT_PRECISION = 1e-3
"""The same of the intercept, by 1 / variance: nothing is known, but for a log without clicks.

Chosen, so that the equations have a solution."""

EXAMINATION_PRECISION = 1.0
"""The logarithm of examination is −.7 log k with a standard deviation of 1 beforehand.

Chosen; a log whose items move between positions overrules it."""

# --- what a click is worth ------------------------------------------------------------------------

CLICK_VALUE_SHRINKAGE_ERROR = 0.2
"""Click values: what a change owes to the expected value of clicks may be off by 20 % of itself.

As for rates, values that lean on each other differ too little. Chosen, in shops with prices: on
seed 9001, the change of a candidate that prefers dear items came out 1.5 points too low."""

CLICK_VALUE_SLOPE_SD = 0.1
"""Click values by position, k^δ: the standard deviation of δ over logs.

Chosen: a click is worth nearly the same at all positions. It is a prior of δ, too; a log with
many orders of items that move overrules it."""

# --- cells and clusters ---------------------------------------------------------------------------

PSEUDO_RECORDS = 2
"""Small cells: as if so many more records of the usual variance had been seen in each cell.

A cell seen once fits its own rate and shows no variance. Measured: with 1,500 records in 200 cells,
the standard deviation was .0266, without the allowance .0151, with it .0256; intervals of `list`
with 1,000 records held 79 to 94 %, and 89 to 95 % with it (4,000 logs in six worlds, three seeds).
Where a list was seen some ten times and rewards are skewed, 90 to 92 %."""

POOLING_FREEDOM = 10
"""Degrees of freedom: a context with fewer takes the usual variance from all contexts.

Chosen; the figures of `PSEUDO_RECORDS` are with it."""

LEVERAGE_BOUND = 0.9
"""Upper bound of the leverage h by which residuals are divided: 1 / √(1 − h) is at most 3.2.

A day that a rate rests on has made itself expected. Chosen: with h near 1, nothing is left to be
divided. Without any correction, intervals of items shown on two days are up to 1.4 times too short,
by arithmetic (h = 1/2)."""

NEWEY_WEST_LAGS = 4
"""Newey–West lag length: so many days back a day may depend on others, in intervals of a value.

Measured for shocks with an autocorrelation of .6: intervals held 94 instead of 85 % (shocks by
context) and 91 instead of 80 % (shocks in common); 91 to 95 % on seed 771, 14 and 28 days. Without
memory they are 10 % wider than needed and hold 96 %. With longer memory they are too short."""

# --- segments -------------------------------------------------------------------------------------

SEGMENT_TOLERANCE = 1.0
"""By how many standard errors a segment's own clicks must differ to count as a taste of its own.

Click rates are shared by all segments. Beyond it, the difference is one more error of the segment.
Chosen, on shops with a segment of another taste (the study `parts`); 2 would miss more of a taste,
0 would widen the interval of every segment."""

SEGMENT_WEIGHT_BOUND = 10.0
"""The largest weight of a click in that test.

Items that production hardly shows in a segment tell little of it. Chosen; it can hide a taste that
only such items have."""

# --- the best policy ------------------------------------------------------------------------------

SHARED_ERROR_WEIGHT = 2.0
"""In `optimize`, how much more an error that contexts share weighs than one of clicks.

It harms many contexts at once, where errors of clicks average out. Chosen, in dense worlds of
the study `optimize`; where logs hardly explore, it harmed no context (`unexplored`)."""
