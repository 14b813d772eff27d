"""Known issues, read from one TOML file for each component."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from pulsar_doctor.diagnosis.known.expressions import names_in, parsed
from pulsar_doctor.diagnosis.known.numbers import NAMES
from pulsar_doctor.diagnosis.known.versions import check_range
from pulsar_doctor.errors import InputError

FOLDER = Path(__file__).with_name("issues")
BROKER = "broker"
LOWER_BOUNDS = ("proven", "reported", "assumed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """One entry; docs/known-issues.md describes its fields."""

    component: str
    id: str
    title: str
    symptom: str
    affects: tuple[str, ...]
    lower_bound: str
    references: tuple[str, ...]
    workaround: str
    fixed_in: tuple[str, ...] = ()
    # What the workaround may break.
    warning: str = ""
    note: str = ""
    # Codes of the causes beside which it is named.
    codes: tuple[str, ...] = ()
    # Conditions that must all hold.
    when: tuple[str, ...] = ()
    # What only a person can look up; with any of it, it never matches.
    by_hand: tuple[str, ...] = ()
    # How the fingerprint was proven: `reproduced on ...`, or `published in ...`; empty: not at all.
    proof: str = ""
    confidence: str = "medium"

    @property
    def conditions(self) -> tuple[ast.expr, ...]:
        """The fingerprint, ready to be evaluated."""
        return tuple(map(_parsed_once, self.when))

    @property
    def of_consumer(self) -> bool:
        """Whether its fingerprint is of one consumer, and not of the whole subscription."""
        return self.component != BROKER or any(map(names_a_consumer, self.conditions))

    @property
    def url(self) -> str:
        """Where it is discussed."""
        return self.references[0]

    @property
    def what_to_do(self) -> str:
        """The workaround, with what it may break."""
        return f"{self.workaround} Warning: {self.warning}" if self.warning else self.workaround


_parsed_once = cache(parsed)


@cache
def names_a_consumer(tree: ast.expr) -> bool:
    """Whether a name of a consumer is outside of any() and every()."""
    if isinstance(tree, ast.Call) and ast.unparse(tree.func) in ("any", "every"):
        return False
    if isinstance(tree, ast.Attribute):
        return any(name.startswith("con.") for name in names_in(tree))
    return any(
        names_a_consumer(node) for node in ast.iter_child_nodes(tree) if isinstance(node, ast.expr)
    )


@cache
def load() -> tuple[Issue, ...]:
    """Loads every issue, by component and file order. Raises InputError for a wrong one."""
    found = []
    for path in sorted(FOLDER.glob("*.toml")):
        document = tomllib.loads(path.read_text("utf-8"))
        found += [issue_of(path.stem, entry) for entry in document["issue"]]
    return tuple(found)


def of_cause(code: str) -> list[Issue]:
    """The known issues that may be behind a cause."""
    return [issue for issue in load() if code in issue.codes]


def issue_of(component: str, entry: Mapping[str, Any]) -> Issue:
    """One entry of a file. Raises InputError that names it, and what is wrong with it."""
    name = entry.get("id", "an entry without an id")
    known = {field.name for field in fields(Issue)} - {"component"}
    if strange := entry.keys() - known:
        raise InputError(f"{name}: there is no field {', '.join(sorted(strange))}")
    try:
        lists: dict[str, Any] = {
            key: tuple(each) if isinstance(each, list) else each for key, each in entry.items()
        }
        issue = Issue(component=component, **lists)
        for text in issue.affects:
            check_range(text)
        for tree in issue.conditions:
            if wrong := set(names_in(tree)) - NAMES:
                raise InputError(f"there is no number {', '.join(sorted(wrong))}")
    except (TypeError, InputError) as error:
        raise InputError(f"{name}: {error}") from None
    return issue
