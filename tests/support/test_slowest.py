"""The last line of a run names its slowest tests."""

from __future__ import annotations

import pytest

from tests.support.slowest import MOST, slowest


def report(name: str, when: str, seconds: float) -> pytest.TestReport:
    return pytest.TestReport(
        f"tests/{name}", ("", 0, ""), {}, "passed", None, when, duration=seconds
    )


def test_a_test_counts_with_its_fixtures_and_the_slowest_comes_first() -> None:
    reports = [report("a::one", "call", 1.0), report("b::two", "setup", 2.0)]
    reports += [report("b::two", "call", 0.5), report("c::quick", "call", 0.01)]
    assert slowest(reports) == ("slowest tests: b::two 2.5 s, a::one 1.0 s, c::quick 0.0 s")


def test_no_more_than_ten_are_named() -> None:
    reports = [report(f"a::{number}", "call", 1.0) for number in range(MOST + 5)]
    assert slowest(reports).count("a::") == MOST


def test_a_run_without_tests_has_no_such_line() -> None:
    assert slowest([]) == ""
