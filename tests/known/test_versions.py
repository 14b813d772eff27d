"""Versions are compared as numbers, and clients are known by what they say of themselves."""

from __future__ import annotations

import pytest

from pulsar_doctor.diagnosis.known.versions import client_of, may_be, next_fix, version_of, within
from pulsar_doctor.ledger import defaults


@pytest.mark.parametrize(
    ("version", "text", "expected"),
    [
        ("4.0.8", ">=4.0.0,<4.0.13", True),
        ("4.0.13", ">=4.0.0,<4.0.13", False),
        ("4.0.9", ">=4.0.10", False),
        ("4.0.8-SNAPSHOT", ">=4.0.8", True),
        ("5.0.0-M1", ">=5.0.0-M1,<5.0.0-M2", True),
        ("5.0.0-M1", ">=5.0.0", False),
        ("5.0.0", ">=5.0.0-M1", True),
        ("0.9.1-0.20230313030101-bcbac9f2ae5c", ">0.9.0,<0.10.0", True),
        ("4.2", "<=4.2.0", True),
        ("4.0.11.3", ">=4.0.11,<4.0.12", True),
    ],
)
def test_a_version_in_a_range(version: str, text: str, expected: bool) -> None:
    found = version_of(version)
    assert found is not None
    assert within(found, text) == expected


@pytest.mark.parametrize(
    ("text", "kind", "version"),
    [
        ("Pulsar-Java-v4.0.8", "java", "4.0.8"),
        ("Pulsar-Java-v5.0.0-M1", "java", "5.0.0-M1"),
        ("Pulsar-Java-v3.3.5-billing", "java", "3.3.5"),
        ("Pulsar-Go-v0.17.0", "go", "0.17.0"),
        ("Pulsar Go v0.12.1", "go", "0.12.1"),
        ("Pulsar Go 0.9.0", "go", "0.9.0"),
        ("Pulsar-CPP-v3.7.0", "cpp", "3.7.0"),
        ("pulsar-rs-v6.3.0", "rust", "6.3.0"),
        ("DotPulsar 4.2.4", "dotnet", "4.2.4"),
    ],
)
def test_a_client_by_its_own_text(text: str, kind: str, version: str) -> None:
    named = client_of(text)
    assert named is not None
    assert named[0] == kind
    assert named[1] is not None
    assert named[1].text == version


@pytest.mark.parametrize(
    "text", ["4." + "9" * 5000, "9" * 5000 + ".0", "4.0.0-M" + "1" * 5000], ids="abc"
)
def test_digits_without_end_are_no_version(text: str) -> None:
    assert version_of(text) is None
    assert client_of(f"Pulsar-Java-v{text}") == ("java", None)
    assert (defaults.version_of(f"4.0.8.{text}") or ())[:2] in {(), (4, 0)}


def test_an_old_rust_client_is_of_no_known_version() -> None:
    assert client_of("2.0.1-incubating") == ("rust", None)
    assert client_of("2.5.2") is None


@pytest.mark.parametrize(
    ("component", "text", "expected"),
    [
        ("java", None, True),
        ("java", "2.5.2", True),
        ("cpp", "3.1.2", True),
        ("node", "3.1.2", True),
        ("go", "3.1.2", False),
        ("go", "unknown", True),
        ("rust", "unknown", False),
        ("spring", "Pulsar-Java-v4.0.7", True),
        ("spring", "Pulsar-Go-v0.16.0", False),
        ("java", "pulsar-flex", False),
    ],
)
def test_which_client_it_may_be(component: str, text: str | None, expected: bool) -> None:
    assert may_be(component, text) == expected


def test_the_next_fix_is_on_the_line_in_use_or_above() -> None:
    fixes = ("3.0.10", "4.0.13", "4.2.4")
    for version, fix in (("4.0.8", "4.0.13"), ("3.0.2", "3.0.10"), ("4.1.1", "4.2.4")):
        found = version_of(version)
        assert found is not None
        assert next_fix(found, fixes) == fix
    newest = version_of("5.0.0")
    assert newest is not None
    assert next_fix(newest, fixes) is None


def test_a_build_of_a_vendor_is_known_by_its_fourth_part() -> None:
    for text, expected in (("4.0.11.3", True), ("4.0.11", False), ("4.0.8-SNAPSHOT", False)):
        found = version_of(text)
        assert found is not None
        assert found.is_vendors == expected
