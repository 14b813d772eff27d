"""A verdict that somebody has suppressed, with an end and a reason: it does not count as failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from pulsar_doctor.diagnosis.answers import Finding


@dataclass(frozen=True, slots=True)
class Suppression:
    """One entry of a file of suppressions. The patterns are those of a shell: *, ? and [ ]."""

    topic: str  # pattern of full names
    subscription: str  # pattern
    cause: str | None  # None: every cause, and what is unknown
    until_ms: int  # since the epoch
    why: str

    def __str__(self) -> str:
        return f"until {self.until:%Y-%m-%d %H:%M} UTC: {self.why}"

    @property
    def until(self) -> datetime:
        """When it ends."""
        return datetime.fromtimestamp(self.until_ms / 1000, UTC)

    def names(self, topics: Iterable[str], subscription: str) -> bool:
        """Whether it is about that subscription. topics: the full names of the same topic."""
        topic = any(fnmatchcase(each, self.topic) for each in topics)
        return topic and fnmatchcase(subscription, self.subscription)


def covering(
    findings: Sequence[Finding], entries: Sequence[Suppression], *, unknown: bool
) -> Suppression | None:
    """The one that ends first of those that cover the verdict together; None: they do not.

    Each finding has to be covered, and information needs not. A verdict that is unknown has no
    cause that is certain, so that only an entry for every cause covers it.
    """
    codes = {each.code for each in findings if each.severity != "info"}
    of_any = any(each.cause is None for each in entries)
    wanted: set[str | None] = {None} if unknown or of_any or not codes else {*codes}
    used = [each for each in entries if each.cause in wanted]
    if not used or wanted - {each.cause for each in used}:
        return None
    return min(used, key=lambda each: each.until_ms)
