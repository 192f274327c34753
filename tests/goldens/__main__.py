"""Ask all questions: `python -m tests.goldens` compares the answers with those that were kept.

With `--write` they are kept instead. `--only NAME` asks those whose name has this text in it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.goldens import answers
from tests.goldens.questions import Question, questions

_MOST = 12  # differences of one question that are printed


def main() -> int:
    """1 if an answer is not what it was, otherwise 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.goldens", description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the answers")
    parser.add_argument("--only", default="", help="only questions with this text in their name")
    parser.add_argument("--times", action="store_true", help="print how long each question takes")
    asked = parser.parse_args()
    wanted = [question for question in questions() if asked.only in question.name]
    now = {question.name: _answer(question, asked.times) for question in wanted}
    if asked.write:
        kept = answers.read() if asked.only and answers.FILE.exists() else {}
        answers.write(kept | now)
    _count(wanted, now)
    return 0 if asked.write else _compare(wanted, now, everything=not asked.only)


def _answer(question: Question, timed: bool) -> answers.Answer:
    start = time.process_time()
    answer = answers.answer_of(question)
    if timed:
        _say(f"{time.process_time() - start:6.2f} s  {question.name}")
    return answer


def _compare(wanted: list[Question], now: dict[str, answers.Answer], *, everything: bool) -> int:
    kept, wrong, gone = answers.read(), 0, Counter[str]()
    for question in wanted:
        if question.name not in kept:
            _say(f"{question.name}: no answer was kept")
            wrong += 1
            continue
        was, given = kept[question.name], now[question.name]
        gone.update(answers.gone(was, given))
        found = answers.differences(was, given, question.loose)
        if found:
            wrong += 1
            _say(f"{question.name} ({question.tier}): {len(found)} differences")
            _say(*(f"    {one}" for one in found[:_MOST]))
    if everything and (left := kept.keys() - now.keys()):
        _say(f"{len(left)} questions that were kept are not asked here, such as {min(left)!r}")
    for column, times in sorted(gone.items()):
        _say(f"the column {column!r} is dropped in {times} answers, as agreed")
    _say(f"{len(wanted)} questions, {wrong} with other answers than were kept")
    return int(wrong > 0)


def _count(wanted: list[Question], now: dict[str, answers.Answer]) -> None:
    """Print how many questions there are of each tier and kind."""
    for what in ("tier", "kind"):
        counts = Counter(str(getattr(question, what)) for question in wanted)
        _say(", ".join(f"{name} {count}" for name, count in counts.items()))
    refused = [name for name, answer in now.items() if "error" in answer]
    if refused:
        _say(f"{len(refused)} are answered by an error, such as {refused[0]!r}")


def _say(*lines: str) -> None:
    for line in lines:
        print(line, flush=True)  # noqa: T201 - the output


if __name__ == "__main__":
    sys.exit(main())
