"""One harness of random cases: who draws them, who says what is right, and who asks.

| file | what it is |
|---|---|
| `tests.drawn` | the plain generator: logs as they are, by options and a seed |
| `plain` | its logs as columns with candidates, of which a test can change what it likes |
| `draws` | the hostile generator: odd names, weights, sizes and days; one seed, one `Case` |
| `given` | a `Case` as a user would give it: a log, policies, a logging policy |
| `judge` | what `tests.truth` says of every row of an answer, and whether the library agrees |
| `others`, `pairs`, `ratios` | the same of backtests, ladders, baselines, comparisons, ratios |
| `changes`, `unchanged` | what must not matter, and the same asked of both logs |
| `engines` | faulty logs on every engine: the tally or the error of DuckDB, to the last bit |

`python -m tests.fuzz --help` draws as many as one likes; `test_fuzz` and `test_changes` a few.
"""
