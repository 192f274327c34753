"""Defaults of the library's verbs, read from their source: help must not import the library."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import foreclick
from foreclick.cli.options import Log

_ROOT = Path(foreclick.__file__).parent
_UNKNOWN = object()
_ALIASES = {"count_by": "weight"}
"""Fields that are called otherwise in the library, because the log has a column of that name."""


def shown_defaults(command: type) -> dict[str, str]:
    """From options to defaults as the help shows them, of those that have one."""
    verb = getattr(command, "verb", None)
    roles, asked = defaults_of("read_log"), defaults_of(verb) if verb else {}
    asked = asked | getattr(command, "usual", {})
    of_log = {field.name for field in fields(Log)}
    found = {}
    for field in fields(command):
        library = roles if field.name in of_log else asked
        text = spelled(library.get(_ALIASES.get(field.name, field.name)))
        if text:
            found[_option(field.name, field.type)] = text
    return found


def option_names(command: type) -> list[str]:
    """All options, those of the first base first."""
    hints = {field.name: field.type for field in fields(command)}
    own = (name for base in command.__mro__ for name in inspect.get_annotations(base))
    return [_option(name, hints[name]) for name in dict.fromkeys(own) if name in hints]


def spelled(value: object) -> str:
    """A default as one would write it on the command line; nothing if there is none to show."""
    if value is None or isinstance(value, bool) or value == ():
        return ""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _option(name: str, hint: Any) -> str:  # noqa: ANN401 - a type
    """The long name of the option that a field is."""
    if get_origin(hint) is Annotated:
        for parameter in get_args(hint)[1:]:
            for option in getattr(parameter, "name", None) or ():
                if option.startswith("--"):
                    return str(option)
        return _option(name, get_args(hint)[0])
    return f"--{name.replace('_', '-')}"


@cache
def defaults_of(verb: str) -> dict[str, Any]:
    """The constant defaults of a function: of the public face, or ``module:function``."""
    home, _, name = verb.rpartition(":")
    function, module = _definition(name, _module(home))
    if not isinstance(function, ast.FunctionDef):
        return {}
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(named[::-1], arguments.defaults[::-1], strict=False),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    values = {name.arg: _value(node, module) for name, node in pairs}
    return {name: value for name, value in values.items() if value is not _UNKNOWN}


@cache
def _module(name: str) -> ast.Module:
    path = _ROOT.joinpath(*name.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def _value(node: ast.expr | None, module: ast.Module) -> Any:  # noqa: ANN401 - any constant
    """The value of an expression: a literal, an infinity, or a constant of some module of ours."""
    if isinstance(node, ast.Attribute) and node.attr == "inf":
        return float("inf")
    if isinstance(node, ast.Name):
        defined, module = _definition(node.id, module)
        return _value(getattr(defined, "value", None), module)
    try:
        return _UNKNOWN if node is None else ast.literal_eval(node)
    except ValueError:
        return _UNKNOWN


def _definition(name: str, module: ast.Module) -> tuple[ast.AST | None, ast.Module]:
    """What defines a name of a module, and where: imports of ours are followed."""
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("foreclick."):
            imported = {alias.asname or alias.name: alias.name for alias in node.names}
            if name in imported:
                home = str(node.module).removeprefix("foreclick.")
                return _definition(imported[name], _module(home))
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        if getattr(node, "name", None) == name or any(
            getattr(target, "id", None) == name for target in targets
        ):
            return node, module
    return None, module
