"""Random cases: one description, and two generators.

| file | what it is |
|---|---|
| `case` | a log as columns, candidates for it, and a question about them |
| `plain` | logs as they are, by options and a seed |
| `hostile` | odd names, weights, sizes, days and faults; one seed, one case |
| `layouts` | logs in which every role occurs, as arrays, in columns and in rows |
| `tables` | records and policies as tables |
| `asking` | questions through the public API, and which numbers of two answers are the same |
"""
