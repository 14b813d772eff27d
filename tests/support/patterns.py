"""Finds every regular expression of a package, and how it is used."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pulsar_doctor

ROOT = Path(pulsar_doctor.__file__).parent.parent
ANYWHERE = frozenset({"search", "finditer", "findall", "sub", "subn", "split"})
METHODS = ANYWHERE | {"match", "fullmatch"}
EVERY_WAY = frozenset({"search", "match", "fullmatch"})
Used = dict[re.Pattern[Any] | Path, set[str]]


@dataclass(frozen=True, slots=True)
class Found:
    """One pattern of the package."""

    place: str  # file and line, or the name that it has
    compiled: re.Pattern[Any]
    ways: frozenset[str]  # of search, match and fullmatch


@dataclass(frozen=True, slots=True)
class Computed:
    """A call of `re` with a pattern that only the running program knows."""

    place: str  # file, and the expression


@cache
def patterns() -> list[Found | Computed]:
    """All patterns that are written in the package, by file."""
    files = sorted((ROOT / "pulsar_doctor").rglob("*.py"))
    modules = {path: _module(path) for path in files if path.name != "__main__.py"}
    trees = {path: ast.parse(path.read_text("utf-8")) for path in modules}
    used = _ways_of_names(modules, trees)
    return [each for path, tree in trees.items() for each in _of(path, tree, modules[path], used)]


def _ways(used: Used, compiled: re.Pattern[Any], path: Path) -> frozenset[str]:
    """How it is used: by its name, or else by any variable of its file."""
    return frozenset(used.get(compiled) or used.get(path) or EVERY_WAY)


def _module(path: Path) -> ModuleType:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    return importlib.import_module(name)


def _of(path: Path, tree: ast.Module, module: ModuleType, used: Used) -> Iterator[Found | Computed]:
    file = str(path.relative_to(ROOT / "pulsar_doctor"))
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and _is_of_re(node.func, METHODS | {"compile"})):
            continue
        assert isinstance(node.func, ast.Attribute)
        way = node.func.attr
        try:
            compiled = _compiled(node, way, module)
        except NameError:
            yield Computed(f"{file}: {ast.unparse(node.args[0])}")
            continue
        ways = _ways(used, compiled, path) if way == "compile" else frozenset({_way(way)})
        yield Found(f"{file}:{node.lineno}", compiled, ways)


def _is_of_re(node: ast.expr, names: frozenset[str]) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "re"
        and node.attr in names
    )


def _compiled(call: ast.Call, way: str, module: ModuleType) -> re.Pattern[Any]:
    """The pattern of a call. NameError where a variable of a function is in it."""
    places = {"sub": 4, "subn": 4, "split": 3, "compile": 1}
    flags = [each.value for each in call.keywords if each.arg == "flags"]
    flags += call.args[places.get(way, 2) :]
    written = [call.args[0], *flags[:1]]
    compiled: re.Pattern[Any] = re.compile(*(_value(each, module) for each in written))
    return compiled


def _value(written: ast.expr, module: ModuleType) -> Any:
    return eval(compile(ast.Expression(written), "pattern", "eval"), vars(module))


def _way(method: str) -> str:
    return "search" if method in ANYWHERE else method


def _ways_of_names(modules: dict[Path, ModuleType], trees: dict[Path, ast.Module]) -> Used:
    """The ways in which each pattern with a name is used, and those of variables, by file."""
    used: Used = {}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Attribute) and node.attr in METHODS):
                continue
            owner = _owner(node.value, modules[path])
            if owner is None and node.attr != "split":  # which is a method of any text
                used.setdefault(path, set()).add(_way(node.attr))
            elif isinstance(owner, re.Pattern):
                used.setdefault(owner, set()).add(_way(node.attr))
    return used


def _owner(written: ast.expr, module: ModuleType) -> Any:
    """The value of a name; None of one that only the running program knows."""
    if not isinstance(written, ast.Name | ast.Attribute):
        return None
    try:
        return _value(written, module)
    except (NameError, AttributeError):
        return None
