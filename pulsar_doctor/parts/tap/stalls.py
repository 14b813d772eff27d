"""Keeps a copy of the ring when a subscription stalls."""

from __future__ import annotations

import time
from collections.abc import Callable

from pulsar_doctor.diagnosis.verdict import Diagnosis

KEEP_EVERY_SECONDS = 10.0


class Stalls:
    """The stalls that were heard of and are not kept yet. keep: takes the reason in brief."""

    def __init__(self, keep: Callable[[str], object]) -> None:
        self._keep = keep
        self._heard: list[str] = []
        self._kept_at = float("-inf")

    def hear(self, diagnosis: Diagnosis) -> None:
        """A verdict that changed."""
        if diagnosis.status == "stalled":
            code = diagnosis.findings[0].code if diagnosis.findings else "stalled"
            topic = diagnosis.full_topic
            self._heard.append(f"{diagnosis.subscription} on {topic}: {code}")

    def look(self) -> None:
        """Keeps what there is to keep, when it is time."""
        now_seconds = time.monotonic()
        if self._heard and now_seconds - self._kept_at >= KEEP_EVERY_SECONDS:
            first, *more = self._heard
            self._heard, self._kept_at = [], now_seconds
            self._keep(f"{first} and {len(more)} more" if more else first)
