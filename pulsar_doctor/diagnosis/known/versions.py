"""Compares versions of brokers and clients, and reads them from a client's text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pulsar_doctor.errors import InputError
from pulsar_doctor.ledger.clients import clients_of

VERSION = re.compile(r"v?([0-9]+(?:\.[0-9]+)+)(?:-M([0-9]+)(?![0-9]))?(.*)", re.DOTALL)
BOUND = re.compile(r"(>=|<=|>|<)(\S+)")
FINAL = 10**6  # after every milestone
PARTS = 4
NO_PART = re.compile("[0-9]{10}")  # clients send any text as their version


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """One version, comparable."""

    parts: tuple[int, ...]  # of its number
    milestone: int  # FINAL: it is none
    text: str

    @property
    def is_vendors(self) -> bool:
        """Whether it has more parts than an Apache release: which fixes it has is not known."""
        return len(self.text.split("-", maxsplit=1)[0].split(".")) > 3


def version_of(text: str) -> Version | None:
    """A version with what follows it, such as `4.0.8-SNAPSHOT`; None where there is none."""
    match = VERSION.match(text.strip())
    if match is None or NO_PART.search(match[0], 0, match.start(3)):
        return None
    parts = tuple(int(part) for part in match[1].split(".")[:PARTS])
    milestone = int(match[2]) if match[2] else FINAL
    shown = match[1] + (f"-M{match[2]}" if match[2] else "")
    return Version(parts + (0,) * (PARTS - len(parts)), milestone, shown)


def client_of(text: str | None) -> tuple[str, Version | None] | None:
    """The component and version of a client, by what it reports; None where that is of nobody."""
    for client in clients_of(text):
        for beginning in client.reports:
            if text and client.issues and text.startswith(beginning):
                return client.issues[0], version_of(text[len(beginning) :].lstrip("-v "))
    return None


def may_be(component: str, text: str | None) -> bool:
    """Whether a client that reports this can be of that component, or built on it."""
    return not text or any(component in each.issues for each in clients_of(text))


def check_range(text: str) -> None:
    """Raises InputError where it is no range such as `>=4.0.0,<4.0.13`."""
    for bound in text.split(","):
        match = BOUND.fullmatch(bound)
        if match is None or version_of(match[2]) is None:
            raise InputError(f"{text!r} is not a range of versions, such as >=4.0.0,<4.0.13")


def within(version: Version, range_text: str) -> bool:
    """Whether a version lies in such a range."""
    return all(_holds(version, *bound) for bound in BOUND.findall(range_text.replace(",", " ")))


def is_line_of(version: Version, range_text: str) -> bool:
    """Whether it is of the release line in which such a range begins."""
    lower = version_of(range_text.lstrip("<>="))
    return lower is not None and lower.parts[:2] == version.parts[:2]


def _holds(version: Version, sign: str, text: str) -> bool:
    bound = version_of(text)
    assert bound is not None
    one, other = (version.parts, version.milestone), (bound.parts, bound.milestone)
    return {">=": one >= other, "<=": one <= other, ">": one > other, "<": one < other}[sign]


def next_fix(version: Version, fixes: tuple[str, ...]) -> str | None:
    """The lowest of these versions that is above; None where there is none."""
    known = [fix for fix in map(version_of, fixes) if fix is not None and fix > version]
    return min(known).text if known else None
