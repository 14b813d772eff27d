"""Topic lookups without a subscription after them: the client may have bypassed the tap.

The answer to a lookup names an address of the tap. Who then neither subscribes nor produces here
has found the broker in another way, or has given up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pulsar_doctor.ledger.topics import split_segment
from pulsar_doctor.wire.columns import CLOSE, Row

FOLLOWS_SECONDS = 10.0
WAITING_MOST = 10_000
SHOWN_MOST = 1_000  # topics
PLAIN = "persistent://public/default/"


@dataclass(frozen=True, slots=True)
class AnsweredLookup:
    """A lookup that was answered."""

    topic: str
    client_addr: str | None
    client_version: str | None
    until_us: int  # when somebody should have come for the topic


class Strays:
    """Topics that clients look up and never use, row by row. Each topic is reported once."""

    def __init__(self) -> None:
        self._lookups: dict[tuple[int | None, int | None], str] = {}
        self._waiting: dict[str, AnsweredLookup] = {}
        self._shown: set[str] = set()

    def add(self, row: Row) -> None:
        """Each row once, in order."""
        if row.command == "LOOKUP" and row.topic:
            self._lookups[row.conn_id, row.request_id] = row.topic
            if len(self._lookups) > WAITING_MOST:
                del self._lookups[next(iter(self._lookups))]
        elif row.command == "LOOKUP_RESPONSE" and row.error_code is None:
            topic = self._lookups.pop((row.conn_id, row.request_id), None)
            if topic and topic not in self._shown and len(self._waiting) < WAITING_MOST:
                until_us = row.ts + round(FOLLOWS_SECONDS * 1e6)
                looked = AnsweredLookup(topic, row.client_addr, row.client_version, until_us)
                self._waiting.setdefault(whole(topic), looked)
        elif row.command in ("SUBSCRIBE", "PRODUCER") and row.topic:
            self._waiting.pop(whole(row.topic), None)
        elif row.command == CLOSE:
            for key in [key for key in self._lookups if key[0] == row.conn_id]:
                del self._lookups[key]

    def late(self, now_us: int) -> Iterator[AnsweredLookup]:
        """The lookups for which nobody came in time."""
        for key, looked in list(self._waiting.items()):
            if looked.until_us > now_us:
                return  # they are in the order of time
            del self._waiting[key]
            if looked.topic not in self._shown and len(self._shown) < SHOWN_MOST:
                self._shown.add(looked.topic)
                yield looked


def whole(topic: str) -> str:
    """One name for each topic, however it is written; of a segment, that of the scalable topic."""
    return (
        split_segment(topic)[0] if "://" in topic else PLAIN + topic.removeprefix("public/default/")
    )
