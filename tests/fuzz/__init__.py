"""One harness of random cases: who says what is right, and who asks. `tests.cases` draws them.

| file | what it is |
|---|---|
| `judge` | what `tests.truth` says of every row of an answer, and whether the library agrees |
| `others`, `pairs`, `ratios` | the same of backtests, ladders, baselines, comparisons, ratios |
| `changes`, `unchanged` | what must not matter, and the same asked of both logs |
| `engines` | faulty logs on every engine: the tally or the error of DuckDB, to the last bit |

`python -m tests.fuzz --help` draws as many as one likes; `test_fuzz` and `test_changes` a few.
"""
