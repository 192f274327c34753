"""Ask all questions: `python -m tests.goldens` compares the answers with those that were kept.

With `--write` they are kept instead. `--only NAME` asks those whose name has this text in it.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.goldens import answers
from tests.goldens.questions import questions

_MOST = 12  # differences of one question that are printed


def main() -> int:
    """1 if an answer is not what it was, otherwise 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.goldens", description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the answers")
    parser.add_argument("--only", default="", help="only questions with this text in their name")
    parser.add_argument("--times", action="store_true", help="print how long each question takes")
    asked = parser.parse_args()
    kept, now, wrong = answers.read(), dict[str, answers.Answer](), 0
    for question in (each for each in questions() if asked.only in each.name):
        start, name = time.process_time(), question.name
        now[name] = given = answers.answer_of(question)
        if asked.times:
            print(f"{time.process_time() - start:6.2f} s  {name}", flush=True)  # noqa: T201
        found = answers.differences(kept[name], given) if name in kept else ["no answer was kept"]
        if found and not asked.write:
            wrong += 1
            print(f"{name}: {len(found)} differences", *found[:_MOST], sep="\n    ", flush=True)  # noqa: T201
    if asked.write:
        answers.write((kept if asked.only else {}) | now)
        return 0
    if not asked.only and (left := kept.keys() - now.keys()):
        print(f"{len(left)} answers that were kept are not asked for, such as {min(left)!r}")  # noqa: T201
    print(f"{len(now)} questions, {wrong} with other answers than were kept")  # noqa: T201
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
