"""Compares versions of brokers and clients, and reads them from a client's text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pulsar_doctor.errors import InputError

VERSION = re.compile(r"v?([0-9]+(?:\.[0-9]+)+)(?:-M([0-9]+)(?![0-9]))?(.*)", re.DOTALL)
BOUND = re.compile(r"(>=|<=|>|<)(\S+)")
FINAL = 10**6  # after every milestone
PARTS = 4
NO_PART = re.compile("[0-9]{10}")  # clients send any text as their version

# How each client names itself to the broker, in the order in which they are tried.
CLIENTS = (
    ("java", re.compile(r"Pulsar-Java-v(.+)")),
    ("go", re.compile(r"Pulsar[- ]Go[- ]v?(.+)")),
    ("cpp", re.compile(r"Pulsar-CPP-v(.+)")),
    ("rust", re.compile(r"pulsar-rs-v(.+)")),
    ("dotnet", re.compile(r"DotPulsar (.+)")),
)
RUST_BEFORE = "2.0.1-incubating"  # what every pulsar-rs before 6.0.1 says
# Of these only what they are built on names itself.
BUILT_ON = {"spring": "java", "node": "cpp"}
UNNAMED = "unknown"  # what a Go program says that was built without the versions of its modules
# What names no client: the Java client of long ago, and the C++ client before 3.2.0.
BARE = frozenset({"java", "cpp"})


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
    """The kind of client and its version, by what it says of itself; None where it says nothing."""
    for kind, pattern in CLIENTS:
        if match := pattern.match(text or ""):
            return kind, version_of(match[1])
    return ("rust", None) if text == RUST_BEFORE else None


def may_be(component: str, text: str | None) -> bool:
    """Whether a client that says this of itself can be of that component."""
    named, component = client_of(text), BUILT_ON.get(component, component)
    if named is not None:
        return named[0] == component
    if not text:
        return True
    return component in BARE if text[0].isdigit() else (component, text) == ("go", UNNAMED)


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
