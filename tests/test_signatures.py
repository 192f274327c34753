"""If this fails, something public has changed, and nobody meant it.

A change of it is a change for users. `UPDATE=1 pytest tests/test_signatures.py` rewrites the file:
look at the difference, and give each change a line in the changelog.
"""

import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path

import foreclick as fc
from foreclick import datasets, events, inference, simulate
from foreclick.results import Result

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "tests" / "signatures.txt"
BUILT_BY_US = (BaseException, Result, fc.Log, fc.Tally)
"""Classes whose objects are returned, never made by users: constructors are not public."""


def described(name: str, thing: object) -> Iterator[str]:
    """One line for a function; for a class, its constructor and its public members."""
    if inspect.isclass(thing):
        bases = [base.__name__ for base in thing.__bases__ if base is not object]
        yield f"class {name}({', '.join(bases)})" if bases else f"class {name}"
        if not issubclass(thing, BUILT_BY_US):
            yield f"    {thing.__name__}{signature(thing)}"
        for member in sorted(vars(thing)):
            if not member.startswith("_"):
                yield f"    {of_member(member, inspect.getattr_static(thing, member))}"
    elif inspect.isfunction(thing):
        yield f"{name}{signature(thing)}"


def of_member(name: str, member: object) -> str:
    """A method with its signature; of anything else, the name."""
    kind = {staticmethod: "static ", classmethod: "class "}.get(type(member), "")
    function = member.__func__ if isinstance(member, staticmethod | classmethod) else member
    return f"{kind}{name}{signature(function)}" if inspect.isfunction(function) else name


def signature(thing: object) -> str:
    """Names, annotations as they are written, and defaults; no address of an object."""
    assert callable(thing)
    shown = re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(thing)))
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", shown)


def interface() -> str:
    """All of it, as text."""
    lines = ["# Public signatures. UPDATE=1 pytest tests/test_signatures.py rewrites this file."]
    names = {f"foreclick.{name}": getattr(fc, name) for name in fc.__all__}
    names["foreclick.results.Result"] = Result  # what all results can do
    for part in (fc.errors, datasets, events, inference, simulate):
        public = getattr(part, "__all__", None) or [n for n in vars(part) if not n.startswith("_")]
        for name in public:
            thing = getattr(part, name)
            if getattr(thing, "__module__", "").startswith("foreclick"):
                names[f"{part.__name__}.{name}"] = thing
    for name in sorted(names):
        lines += described(name, names[name])
    return "\n".join(lines) + "\n"


def test_no_public_signature_changes_unnoticed() -> None:
    now = interface()
    if os.environ.get("UPDATE") == "1":
        KEPT.write_text(now)
    assert now == KEPT.read_text(), "UPDATE=1 rewrites it, if the change is meant"


def test_the_version_is_that_of_the_changelog_and_stands_wherever_it_is_read() -> None:
    sections = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections[0] == "Unreleased"
    released = sections[1].split()[0]
    assert fc.__version__ == released or fc.__version__.endswith(".dev0")
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text()
    for file, line in (
        ("CITATION.cff", f"version: {released}\n"),
        ("zensical.toml", f'release = "{released}"\n'),
        ("recipe/recipe.yaml", f'version: "{released}"\n'),
        ("docs/howto/gate.md", f"uses: foreclick/foreclick@v{released}\n"),
    ):
        assert line in (ROOT / file).read_text(), file
