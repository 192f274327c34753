"""Whether other estimators come to the same as the one that answers, and what was not compared.

An estimator is compared where it covers 90 % of what the candidate would show. It then

| it | if |
|---|---|
| contradicts the answer | `verdicts.contradicts`, of a ladder and `ip`: nobody can tell |
| agrees | its estimate has the answer's sign, and its interval for chance holds the answer's |
| neither confirms nor contradicts | else, the two intervals have a value in common |
| has the verdict, not the size | else, the two verdicts are the same |
| differs | else |

What an estimator did not see moves an end of its interval, not its interval for chance: that it
cannot exclude the answer for having seen too little is no agreement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from foreclick.estimators import MEANINGS
from foreclick.models import MODELS
from foreclick.questions.reasons import MIN_COVERED
from foreclick.results import format_value, span
from foreclick.words import few, listed, plural

NEXT_TO_NOTHING = 0.01  # of the candidate's exposure; an estimator that saw less shows no number
AGREES = ("agrees", "agree")  # of one estimator, and of several
ALLOWS = (
    "neither confirms nor contradicts the answer",
    "neither confirm nor contradict the answer",
)
SAME_VERDICT = (
    "gives the same verdict, but another size",
    "give the same verdict, but another size",
)
DIFFERS = ("differs from the answer", "differ from the answer")
CONTRADICTS = ("contradicts the answer", "contradict the answer")

_ROLES = {"ladder": "the ladder", "ladder-ip": "the ladder", "ip": "the cautious check"}
_ANYWHERE = "same item, any position"
_SENSES = {"ladder": _ANYWHERE, "ladder-ip": _ANYWHERE, "item": _ANYWHERE, "pbm": _ANYWHERE}
_SENSES |= {"ip": "same item, same position", "prefix": "same item below the same items"}
_SENSES |= {"list": "same list"}
_FEW = 3  # rows of an estimator whose numbers are given
_NEEDED = f"({MIN_COVERED:.0%} needed)"

Row = Mapping[str, Any]


class Beside(NamedTuple):
    """What another estimator says beside the answer; and whether a verdict says they contradict."""

    answer: Row
    other: Row
    disputed: bool


def is_blind(row: Row) -> bool:
    """Whether the estimator saw next to nothing of the candidate."""
    return row["value"] is None or (row["covered"] or 0.0) < NEXT_TO_NOTHING


def relation(beside: Beside) -> tuple[str, str]:
    """How another estimator stands to the answer, see above: a verb for one, and for several.

    Examples:
        >>> answer = {"change": 0.4, "change_low": 0.2, "change_high": 0.6, "verdict": "better"}
        >>> unseen = {"borrowed": 0.0, "margin": 0.8}
        >>> other = {
        ...     "change": -0.1,
        ...     "change_low": -0.3,
        ...     "change_high": 0.9,
        ...     "verdict": "cannot tell",
        ... }
        >>> relation(Beside(answer, other | unseen, disputed=False))[0]
        'neither confirms nor contradicts the answer'
        >>> other |= {"change": 0.3, "change_low": 0.1, "change_high": 1.3}
        >>> relation(Beside(answer, other | unseen, disputed=False))[0]
        'agrees'
    """
    answer, other, disputed = beside
    if disputed:
        return CONTRADICTS
    low, high = other["change_low"], other["change_high"]
    ends = low, high, answer["change_low"], answer["change_high"]
    if any(end is None for end in ends):  # nobody knows how far apart is far
        return ALLOWS
    least, most = low + (other["borrowed"] or 0.0), high - (other["margin"] or 0.0)
    if other["change"] * answer["change"] >= 0 and least <= answer["change"] <= most:
        return AGREES
    if low <= answer["change_high"] and answer["change_low"] <= high:
        return ALLOWS
    return SAME_VERDICT if other["verdict"] == answer["verdict"] else DIFFERS


# --- in words -------------------------------------------------------------------------------------


def sense_of(estimator: str) -> str:
    """What the log must have shown for an estimator to have seen it; empty if users say what."""
    return _SENSES.get(estimator, "")


def seen_words(estimator: str, shares: Mapping[str, float | None]) -> str:
    """How much of the candidate the log saw, and in which sense, by metric.

    Examples:
        >>> seen_words("ladder", {"clicks@3": 0.9991, "dcg@10": 0.9991})
        'The log saw 99.9% of what the candidate would show (same item, any position).'
    """
    by_metric = {metric: format_value("covered", share) for metric, share in shares.items()}
    sense = f" ({sense_of(estimator)})" if sense_of(estimator) else ""
    if len(different := set(by_metric.values())) == 1:
        share = different.pop()
        how_much = "all that" if share == "100%" else f"{share} of what"
        return f"The log saw {how_much} the candidate would show{sense}."
    each = listed([f"{share} for {metric}" for metric, share in by_metric.items()])
    return f"Of what the candidate would show, the log saw {each}{sense}."


def agreement(others: Mapping[str, Sequence[Beside]], by: Sequence[str]) -> list[str]:
    """What came of comparing other estimators with the answer; which were not compared, and why.

    Args:
        others: by name, what each says beside the answer.
        by: the columns that name a part of the answer.
    """
    groups: dict[tuple[tuple[str, str], str], list[tuple[str, list[Row]]]] = {}
    too_little, steady = [], []
    for name, every in others.items():
        if name in MODELS and not MODELS[name].sees_items:
            steady.append(name)
            continue
        known = [each for each in every if not is_blind(each.answer)]
        compared: dict[tuple[str, str], list[Row]] = {}
        little = []
        for each in known:
            if each.disputed or (each.other["covered"] or 0.0) >= MIN_COVERED:
                compared.setdefault(relation(each), []).append(each.other)
            else:
                little.append(each.other)
        for verbs, rows in compared.items():
            where = "" if len(rows) == len(known) else _where(rows, len(known), by)
            groups.setdefault((verbs, where), []).append((name, rows))
        if little:
            too_little.append((name, _shares(little, len(known), by)))
    sentences = [_compared(verbs, where, found) for (verbs, where), found in groups.items()]
    if too_little:
        sentences.append(_not_compared(too_little))
    if steady:
        sentences.append(f"Not compared, because it ignores the ranking: {', '.join(steady)}.")
    return sentences


def check_words(name: str, covered: Mapping[str, float]) -> list[str]:
    """The candidates that a check does not contradict, and those of which it covers too little.

    Args:
        name: the estimator that checks.
        covered: the share of each candidate that it covers.
    """
    enough = [one for one, share in covered.items() if share >= MIN_COVERED]
    little = [
        f"{format_value('covered', share)} of {one}"
        for one, share in covered.items()
        if share < MIN_COVERED
    ]
    sentences = []
    if enough:
        sentences.append(f"{named(name)} does not contradict the answer on {few(enough)}.")
    if little:
        which = plural(len(little), "it was", "they were")
        sentences.append(f"{named(name)} covers {few(little)}, so {which} not compared {_NEEDED}.")
    return [_capital(sentence) for sentence in sentences]


def named(name: str) -> str:
    """An estimator with its role and what clicks depend on to it, if it has a role."""
    return f"{_ROLES[name]} ({MEANINGS[name]})" if name in _ROLES else name


def lifts(rows: Sequence[Row]) -> str:
    """The lifts of an estimator with their intervals, if they are few."""
    return ", ".join(map(_lift, rows)) if len(rows) <= _FEW else ""


def _lift(row: Row) -> str:
    column = "change" if row["lift"] is None else "lift"
    if is_blind(row) or row[column] is None:
        return "–"
    low, high = row.get(f"{column}_low"), row.get(f"{column}_high")
    size = format_value(column, row[column])
    return size if low is None or high is None else f"{size} ({span(column, low, high)})"


def _compared(
    verbs: tuple[str, str], where: str, found: Sequence[tuple[str, Sequence[Row]]]
) -> str:
    who, verb = listed([named(name) for name, _ in found]), plural(len(found), *verbs)
    sizes = "; ".join(filter(None, (lifts(rows) for _, rows in found)))
    return _capital(f"{who} {verb}{where}" + (f": {sizes}." if sizes else "."))


def _not_compared(found: Sequence[tuple[str, str]]) -> str:
    (name, shares), *more = found
    which = listed([f"{named(name)} covers {shares}", *(f"{named(n)} {each}" for n, each in more)])
    they = plural(len(found), "it was", "they were")
    return _capital(f"{which}, so {they} not compared {_NEEDED}.")


def _shares(rows: Sequence[Row], count: int, by: Sequence[str]) -> str:
    """How much of the candidate is covered, of so many rows of an estimator."""
    shares = [format_value("covered", row["covered"] or 0.0) for row in rows]
    if len(rows) == count and len(set(shares)) == 1:
        return f"{shares[0]} of it"
    if len(rows) > _FEW:
        most = format_value("covered", max(row["covered"] or 0.0 for row in rows))
        return f"at most {most} of it" + _where(rows, count, by)
    first, *more = [
        f"{share} of it for {_part(row, by)}" for share, row in zip(shares, rows, strict=True)
    ]
    return listed([first, *(each.replace(" of it", "", 1) for each in more)])


def _where(rows: Sequence[Row], count: int, by: Sequence[str]) -> str:
    if len(rows) > _FEW:
        return f" in {len(rows):,} of {count:,} parts"
    return f" on {listed([_part(row, by) for row in rows])}"


def _part(row: Row, by: Sequence[str]) -> str:
    return " ".join([str(row["metric"]), *(format_value(name, row[name]) for name in by)])


def _capital(sentence: str) -> str:
    """With a capital, unless it begins with an estimator's short name."""
    return sentence[0].upper() + sentence[1:] if sentence.startswith("the ") else sentence
