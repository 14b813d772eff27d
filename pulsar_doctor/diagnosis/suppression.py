"""A verdict that somebody has suppressed, with an end and a reason: it does not count as failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pulsar_doctor.diagnosis.answers import Finding


@dataclass(frozen=True, slots=True)
class Suppression:
    """One entry of a file of suppressions, without what it applies to."""

    cause: str | None  # None: every cause, and what is unknown
    until_ms: int  # since the epoch
    why: str

    def __str__(self) -> str:
        return f"until {self.until:%Y-%m-%d %H:%M} UTC: {self.why}"

    @property
    def until(self) -> datetime:
        """Its last moment."""
        return datetime.fromtimestamp(self.until_ms / 1000, UTC)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"until": f"{self.until:%Y-%m-%dT%H:%M:%SZ}", "why": self.why}


def covering(
    findings: Sequence[Finding], entries: Sequence[Suppression], *, unknown: bool
) -> Suppression | None:
    """The one that ends first of those that cover the verdict together; None: they do not.

    Each finding has to be covered, and information needs not. A verdict that is unknown has no
    cause that is certain, so that only an entry for every cause covers it.
    """
    codes = {each.code for each in findings if each.severity != "info"}
    of_any = [each for each in entries if each.cause is None]
    wanted: set[str | None] = {None} if unknown or of_any or not codes else {*codes}
    used = [each for each in entries if each.cause in wanted]
    if not used or wanted - {each.cause for each in used}:
        return None
    return min(used, key=lambda each: each.until_ms)
