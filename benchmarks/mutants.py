"""Changes the code on purpose, one small change at a time, and counts how many the tests notice.

    .ci/run branches   # which tests reach which line, and how long each takes
    .ci/run mutants    # ARGS="--rooms estimators --scale 3 --seed 7"

A mutant is one operator, constant, condition, name or call in a function, changed. Only the tests
that reach the changed line are run, the fastest ones first, until one fails or their time is spent.
Tests are collected once; a mutant is tried in a fork of that process, where functions get changed
code. Constants and defaults of modules are left as they are.
"""

from __future__ import annotations

import argparse
import ast
import copy
import csv
import gc
import importlib
import json
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple, NoReturn
from xml.etree import ElementTree as ET

import hypothesis
import pytest
from _pytest.runner import runtestprotocol

from coverage import CoverageData

SOURCES = Path("src")
ROOMS = {"estimators": 150, "batches": 50, "tallies": 50, "policies": 50, "inference": 50}
"""Where the numbers are made, and how many mutants each room gets."""
GOAL = 0.9
MOST = 500
MEMORY = 8 << 30
COVERED, TIMES = ".cache/branches", ".cache/branches.xml"

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
NAMES = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "any": "all",
    "all": "any",
    "zeros": "ones",
    "ones": "zeros",
    "zeros_like": "ones_like",
    "ones_like": "zeros_like",
    "floor": "ceil",
    "ceil": "floor",
    "argmin": "argmax",
    "argmax": "argmin",
    "flatnonzero": "arange",
}


class Mutant(NamedTuple):
    """A change of one node of a module."""

    module: str
    line: int
    before: str
    after: str
    place: int

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.before}  ->  {self.after}"


# --- what is changed ------------------------------------------------------------------------------


def changed(node: ast.AST) -> ast.AST | None:
    """What a node becomes; None: it stays as it is."""
    new: Any = copy.copy(node)
    match node:
        case ast.Compare(ops=[op]):
            new.ops = [COMPARED[type(op)]()]
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in COMPUTED:
            new.op = COMPUTED[type(op)]()
        case ast.BoolOp(op=op):
            new.op = ast.Or() if isinstance(op, ast.And) else ast.And()
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            return operand
        case ast.Constant(value=bool(value)):
            new.value = not value
        case ast.Constant(value=int(value) | float(value)):
            new.value = value + 1
        case ast.If(test=test) | ast.IfExp(test=test) if not isinstance(
            test, ast.Compare | ast.BoolOp | ast.UnaryOp
        ):
            new.test = ast.UnaryOp(ast.Not(), test)
        case ast.Name(id=name, ctx=ast.Load()) if name in NAMES:
            new.id = NAMES[name]
        case ast.Attribute(attr=name, ctx=ast.Load()) if name in NAMES:
            new.attr = NAMES[name]
        case ast.Expr(value=ast.Call()):
            return ast.Pass()
        case _:
            return None
    return new  # type: ignore[no-any-return]


def _decides_nothing(node: ast.AST) -> list[ast.AST]:
    """Parts of a node that are left as they are: types, messages, options that change no answer."""
    match node:
        case ast.FunctionDef():
            return [*node.decorator_list, *filter(None, [node.returns])]
        case ast.ClassDef():
            return list(node.decorator_list)
        case ast.AnnAssign(annotation=kind) | ast.arg(annotation=ast.expr() as kind):
            return [kind]
        case ast.Call(func=ast.Name(id="isinstance" | "cast"), args=[*kinds]):
            return list(kinds)
        case ast.keyword(arg="copy" | "strict"):
            return [node.value]
        case ast.BinOp(op=ast.BitOr(), right=ast.Constant(value=None)):
            return [node]
        case ast.Raise() | ast.Assert() | ast.JoinedStr():
            return [node]
    return []


class _Nodes(ast.NodeTransformer):
    """Visits what may be changed, in order, and changes the node at one place."""

    def __init__(self, tree: ast.AST, place: int = -1) -> None:
        self.place, self.found = place, list[tuple[ast.AST, ast.AST]]()
        self.left_out = {part for node in ast.walk(tree) for part in _decides_nothing(node)}
        self.tree = self.visit(tree)

    def visit(self, node: ast.AST) -> Any:
        if node in self.left_out:
            return node
        new = changed(node)
        if new is not None:
            self.found.append((node, new))
            if len(self.found) - 1 == self.place:
                return ast.copy_location(new, node)
        return self.generic_visit(node)


def _path(module: str) -> Path:
    return SOURCES / (module.replace(".", "/") + ".py")


def mutants_of(module: str) -> list[Mutant]:
    """All mutants of the bodies of a module's functions."""
    tree = _tree(module)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = {part for node in functions for line in node.body for part in ast.walk(line)}
    return [
        Mutant(module, getattr(old, "lineno", 0), _brief(old), _brief(new), place)
        for place, (old, new) in enumerate(_Nodes(tree).found)
        if old in inside
    ]


def _tree(module: str) -> ast.Module:
    return ast.parse(_path(module).read_text(encoding="utf-8"))


def _brief(node: ast.AST) -> str:
    if isinstance(node, ast.If):
        return f"if {ast.unparse(node.test)}"
    return ast.unparse(node).replace("\n", " ")[:100]


# --- which tests are run --------------------------------------------------------------------------


class Tests:
    """The tests that reach each line, as `.ci/run branches` recorded them."""

    def __init__(self) -> None:
        self.covered = CoverageData(COVERED)
        self.covered.read()
        self.files = {
            Path(file).as_posix().split("/src/")[-1]: file for file in self.covered.measured_files()
        }
        self.seconds = dict[tuple[str, str], float]()
        for case in ET.parse(TIMES).iter("testcase"):  # noqa: S314 - our own
            self.seconds[case.attrib["classname"], case.attrib["name"]] = float(case.attrib["time"])

    def reaching(self, mutant: Mutant) -> list[str]:
        """Tests that reach a mutant's line, the fastest first; of very many, not all."""
        names = self.covered_lines(mutant.module).get(mutant.line, set())
        return [name for _, name in sorted((self._seconds(name), name) for name in names)[:MOST]]

    @cache  # noqa: B019 - there is one
    def covered_lines(self, module: str) -> dict[int, set[str]]:
        """The tests that reach each line of a module."""
        file = self.files.get(_path(module).relative_to(SOURCES).as_posix(), "")
        found = self.covered.contexts_by_lineno(file) if file else {}
        return {
            line: {c.removesuffix("|run") for c in contexts if c.endswith("|run")}
            for line, contexts in found.items()
        }

    def _seconds(self, name: str) -> float:
        path, *names = name.split("::")
        owner = ".".join([path.removesuffix(".py").replace("/", "."), *names[:-1]])
        return self.seconds.get((owner, names[-1]), 1.0) + 0.01


# --- one mutant after the other -------------------------------------------------------------------


def functions_of(modules: Iterable[str]) -> dict[str, list[FunctionType]]:
    """All functions of some modules, by the path of their file."""
    found = {importlib.import_module(module).__file__ or "": [] for module in modules}
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename in found:
            found[each.__code__.co_filename].append(each)
    return found


def mutate(mutant: Mutant, functions: dict[str, list[FunctionType]]) -> None:
    """Give the functions of a module the code of a mutant."""
    path = sys.modules[mutant.module].__file__ or ""
    tree = ast.fix_missing_locations(_Nodes(_tree(mutant.module), mutant.place).tree)
    new, parts = dict[tuple[str, int], CodeType](), [compile(tree, path, "exec")]
    for part in parts:
        parts += [each for each in part.co_consts if isinstance(each, CodeType)]
        new[part.co_qualname, part.co_firstlineno] = part
    for each in functions[path]:
        each.__code__ = new[each.__code__.co_qualname, each.__code__.co_firstlineno]


class Mutating:
    """A plugin of pytest: runs collected tests again and again, in forks, each with a mutant."""

    def __init__(self, mutants: list[Mutant], seconds: float, record: Path) -> None:
        self.mutants, self.seconds, self.record = mutants, seconds, record
        self.rows = list[dict[str, Any]]()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of running every test once."""
        items, tests = {item.nodeid: item for item in session.items}, Tests()
        chosen = [
            [items[name] for name in tests.reaching(m) if name in items] for m in self.mutants
        ]
        del tests
        self.functions = functions_of({mutant.module for mutant in self.mutants})
        gc.collect()
        gc.freeze()  # forks share memory as long as nobody touches it
        with self.record.open("w") as file:
            for mutant, mine in zip(self.mutants, chosen, strict=True):
                found = self._outcome(mutant, mine)
                self.rows.append({**mutant._asdict(), "tests": len(mine), "outcome": found})
                print(json.dumps(self.rows[-1]), file=file, flush=True)
        # A test that fails without any mutant as well has noticed nothing.
        noticed = sorted({row["outcome"] for row in self.rows} & set(items))
        wrong = self._outcome(None, [items[name] for name in noticed])
        if wrong != "survived":
            raise RuntimeError(f"{wrong} fails without a mutant")
        return True

    def _outcome(self, mutant: Mutant | None, items: list[pytest.Item]) -> str:
        """Which test notices a mutant, or "survived"."""
        told, tell = os.pipe()
        child = os.fork()
        if not child:
            self._run(mutant, items, tell)
        os.close(tell)
        with os.fdopen(told) as answer:
            name = answer.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code > 0:  # without a call, a function may need fewer variables of those around it
            return "not tried"
        return name or f"ended by signal {-code}"

    def _run(self, mutant: Mutant | None, items: list[pytest.Item], tell: int) -> NoReturn:
        """Run tests until one fails or time is spent, in a process of their own."""
        code = 1
        try:
            gc.disable()
            seconds = round(self.seconds) if mutant else 10_000
            signal.alarm(60 * seconds)  # a lock that is never released takes no time of the CPU
            resource.setrlimit(resource.RLIMIT_CPU, (4 * seconds, 4 * seconds))
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            if mutant is not None:
                mutate(mutant, self.functions)
            found = "survived"
            for item, following in zip(items, [*items[1:], None], strict=True):
                if any(report.failed for report in runtestprotocol(item, False, following)):
                    found = item.nodeid
                    break
                if time.process_time() > seconds:
                    break
            os.write(tell, found.encode())
            code = 0
        finally:
            os._exit(code)


# --- all of them ----------------------------------------------------------------------------------


def sample(rooms: list[str], scale: float, seed: int) -> list[Mutant]:
    """So many mutants of each room, at random."""
    found = list[Mutant]()
    for room in rooms:
        files = sorted((SOURCES / "foreclick" / room).rglob("*.py"))
        modules = [".".join(file.relative_to(SOURCES).with_suffix("").parts) for file in files]
        all_of_it = [each for module in modules for each in mutants_of(module)]
        size = min(round(ROOMS[room] * scale), len(all_of_it))
        found += sorted(random.Random(seed).sample(all_of_it, size))  # noqa: S311 - no secret
    return found


def equivalent() -> set[tuple[str, str, str]]:
    """Mutants that no test can notice, each with its reason, in a file."""
    with Path(__file__).with_name("equivalent.csv").open(encoding="utf-8", newline="") as file:
        return {(row["module"], row["text"], row["after"]) for row in csv.DictReader(file)}


def main() -> int:
    """0 if enough mutants are noticed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("--rooms", nargs="+", default=list(ROOMS), choices=ROOMS)
    parser.add_argument("--scale", type=float, default=1, help="so many times as many mutants")
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--seconds", type=float, default=30, help="of tests, for each mutant")
    asked = parser.parse_args()
    # A failing example is enough; nobody reads the smallest one.
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    hypothesis.settings.register_profile("mutants", deadline=None, database=None, phases=phases)
    mutants = sample(asked.rooms, asked.scale, asked.seed)
    mutating = Mutating(mutants, asked.seconds, Path(".cache/mutants.jsonl"))
    options = "-q", "-n0", "-p", "no:cacheprovider", "-m", "not spark and not postgres"
    late = "-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
    pytest.main([*options, *late, "--hypothesis-profile=mutants"], plugins=[mutating])
    return _summed_up(mutating.rows)


def _summed_up(rows: list[dict[str, Any]]) -> int:
    hopeless, total = equivalent(), Counter[tuple[str, str]]()
    for row in rows:
        kind = "not tried" if row["outcome"] == "not tried" else "noticed"
        if row["outcome"] == "survived":
            text = _path(row["module"]).read_text(encoding="utf-8").splitlines()[row["line"] - 1]
            same = (row["module"], text.strip(), row["after"]) in hopeless
            kind = "equivalent" if same else "survived"
            print("{module}:{line}: {before}  ->  {after}: {kind}".format(**row, kind=kind))
        total[row["module"].split(".")[1], kind] += 1
        total["all", kind] += 1
    for room in sorted({room for room, _ in total}, key=lambda room: (room == "all", room)):
        noticed, left = total[room, "noticed"], total[room, "survived"]
        share = noticed / max(noticed + left, 1)
        alike = total[room, "equivalent"]
        print(f"{room:12} {noticed} of {noticed + left} noticed, {share:.1%}; {alike} equivalent")
    return int(share < GOAL)


if __name__ == "__main__":
    sys.exit(main())
