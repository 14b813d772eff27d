"""Conditions know true, false and not reported, and run nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from pulsar_doctor.diagnosis.known.expressions import names_in, parsed, truth
from pulsar_doctor.diagnosis.known.numbers import INFINITE, Term, Truth
from pulsar_doctor.errors import InputError


@dataclass
class Told:
    """Numbers by name: an int is exact, a pair is bounds, a name that is missing not reported."""

    numbers: dict[str, Any] = field(default_factory=dict)
    course: dict[str, list[int]] = field(default_factory=dict)
    everybody: list[Told] | None = None

    def value(self, name: str) -> Term:
        found = self.numbers.get(name)
        return (found, found) if type(found) is int else found

    def same(self, name: str) -> Truth:
        values = self.course.get(name)
        return None if values is None else len(set(values)) == 1

    def grew(self, name: str) -> Truth:
        values = self.course.get(name)
        return None if values is None else values[-1] > values[0]

    def consumers(self) -> list[Told] | None:
        return self.everybody


NOW = Told(
    {
        "sub.type": "Shared",
        "sub.backlog": 5,
        "sub.left": (3, INFINITE),
        "con.permits": (-INFINITE, 0),
        "sub.durable": False,
    },
    {"sub.backlog": [5, 5], "sub.replayed": [1, 4]},
    [Told({"con.permits": 0}), Told({"con.permits": 4, "con.held": 2})],
)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("sub.backlog > 4", True),
        ("sub.backlog > 5", False),
        ("sub.backlog != 5", False),
        ("4 < sub.backlog <= 5", True),
        ("sub.replayed > 0", None),
        ("not sub.replayed > 0", None),
        ("sub.replayed > 0 and sub.backlog > 9", False),
        ("sub.replayed > 0 or sub.backlog > 4", True),
        ("sub.replayed > 0 and sub.backlog > 4", None),
        # Bounds decide where all that is possible agrees.
        ("sub.left > 2", True),
        ("sub.left > 3", None),
        ("sub.left < 3", False),
        ("sub.left == 3", None),
        ("sub.left == 2", False),
        ("con.permits <= 0", True),
        ("con.permits > 0", False),
        ("-sub.left < 0", True),
        ("sub.left - sub.backlog > -3", True),
        ("sub.left * 2 >= 6", True),
        ("sub.left % 2 == 0", None),
        ("sub.backlog % 2 == 1", True),
        ("sub.backlog / 0 > 1", None),
        ("sub.type == 'Shared'", True),
        ("sub.type != 'Shared'", False),
        ("sub.type in ['Failover', 'Shared']", True),
        ("sub.type not in ['Failover']", True),
        ("sub.name == 'x'", None),
        ("not sub.durable", True),
        ("any(con.permits > 0)", True),
        ("every(con.permits > 0)", False),
        ("any(con.held > 0)", True),
        ("every(con.held > 0)", None),
        ("any(con.held > 9)", None),
        ("any(con.permits > 0 and con.held == 0)", False),
        ("same(sub.backlog)", True),
        ("same(sub.replayed)", False),
        ("grew(sub.replayed)", True),
        ("grew(sub.backlog)", False),
        ("same(sub.left)", None),
    ],
)
def test_what_a_condition_says(condition: str, expected: Truth) -> None:
    assert truth(parsed(condition), NOW) is expected


def test_where_no_consumer_is_reported_none_is_known() -> None:
    assert truth(parsed("any(con.permits > 0)"), Told()) is None
    assert truth(parsed("every(con.permits > 0)"), Told()) is None
    assert truth(parsed("any(con.permits > 0)"), Told(everybody=[])) is False


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "open('/etc/passwd')",
        "any(con.permits > 0, 1)",
        "sub.backlog.real > 0 if 1 else 2",
        "[x for x in sub.backlog]",
        "lambda: 1",
        "sub['backlog'] > 0",
        "sub.backlog >",
        "(sub.backlog := 3)",
        "f'{sub.backlog}'",
    ],
)
def test_all_else_of_python_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parsed(text)


def test_the_names_in_a_condition() -> None:
    tree = parsed("any(con.permits > 0) and same(sub.backlog) and sub.left < 2 * sub.replayed")
    assert list(names_in(tree)) == ["con.permits", "sub.backlog", "sub.left", "sub.replayed"]
