"""No regular expression of the package takes more than a number of steps for each character."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from pulsar_doctor.checkup.redacting import SHAPES
from pulsar_doctor.parts.analyze.failures import FAILURES
from pulsar_doctor.parts.analyze.masters import _MASTERS
from pulsar_doctor.parts.mcp.calls import ARGUMENTS
from pulsar_doctor.wire import redaction
from tests.support.ambiguity import conflicts
from tests.support.patterns import Computed, Found, patterns

# Patterns that only see text of a bounded length: why, and how long that is.
BOUNDED: Mapping[str, str] = {
    redaction._SECRETS.pattern: "`redact` cuts the line to 800 characters first: 6 ms at most",
}
# Calls whose pattern is a variable: the patterns that it may be, with the way of using them.
TABLES = {
    "checkup/redacting.py: SHAPES.get(kind, '(?P<name>.*)')": ("fullmatch", [*SHAPES.values()]),
    "parts/mcp/calls.py: pattern": ("search", [each for each, _ in ARGUMENTS]),
    "parts/analyze/failures.py: pattern": ("search", [each for each, _, _ in FAILURES]),
    "parts/analyze/masters.py: pattern": ("fullmatch", [*_MASTERS]),
}
QUADRATIC = [
    ("search", r"[A-Z]\w*Impl\("),
    ("search", r"\s+#.*$"),
    ("search", r"(?is)<script\b[^>]{0,200}>(.*?)</script>"),
    ("search", r"(?m)^[ \t]*\{code(?::[^}]*)?\}"),
    ("search", r'\n\{[^\n]*?topic="([^"\n]*)"[^\n]*\} (?!0)'),
    ("search", r"(?m)^\s*(spark\S+)"),
    ("search", r"/_temporary/.*|[.:]+$"),
    ("match", r"(?:[\s\u00a0]+|/\*.*?\*/|#[^\n]*)*x"),
    ("match", r"(?:a+)+b"),
    ("match", r"\w*\d*!"),
    ("fullmatch", r"a:(?:\s+(.*))?"),
    ("search", r"x++y"),
]
LINEAR = [
    ("search", r"(?<!\w)[A-Z]\w*Impl\("),
    ("search", r"(?<!\s)\s+#.*"),
    ("search", r"<script\b[^<>]{0,200}>([^<]*)</script>"),
    ("search", r'\n\{(?>[^\n]*?topic=")([^"\n]*)"[^\n]*\} (?!0)'),
    ("search", r"(?m)^[ \t]*(spark\S+)"),
    ("search", r"\w+"),
    ("match", r"(?:[\s\u00a0]++|#[^\n]*+)*x"),
    ("match", r"\w+\.\w*!"),
    ("fullmatch", r"a:(?:\s+(\S.*))?"),
    ("search", r"(?<=//)[^/@]*@|[?#].*"),
]


@pytest.mark.parametrize(("way", "pattern"), QUADRATIC)
def test_repeats_that_compete_are_found(way: str, pattern: str) -> None:
    assert any(conflicts(re.compile(pattern), [way]))


@pytest.mark.parametrize(("way", "pattern"), LINEAR)
def test_repeats_that_do_not_compete_are_not(way: str, pattern: str) -> None:
    assert not any(conflicts(re.compile(pattern), [way]))


def test_no_pattern_of_the_package_has_repeats_that_compete() -> None:
    tables = [
        Found(f"{place} {pattern!r}", re.compile(pattern), frozenset({way}))
        for place, (way, several) in TABLES.items()
        for pattern in several
    ]
    written = [each for each in patterns() if isinstance(each, Found)]
    found = {
        each.place: next(conflicts(each.compiled, each.ways), None)
        for each in [*written, *tables]
        if each.compiled.pattern not in BOUNDED
    }
    assert {place: conflict for place, conflict in found.items() if conflict} == {}
    assert {each.compiled.pattern for each in written} >= BOUNDED.keys()


def test_every_pattern_that_is_a_variable_is_in_a_table_here() -> None:
    computed = {each.place for each in patterns() if isinstance(each, Computed)}
    assert computed == TABLES.keys()
