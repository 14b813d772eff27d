"""How a consumer works on, by its trace: its pace over its whole life, or lately if that differs.

A minute shows a few messages of a slow worker or none, and shows other numbers at each phase of its
rhythm; its life does not. But a life hides that a fast consumer has become slow, or a slow one has
recovered. So the longest time counts that no shorter one contradicts: its life, then the time since
the broker stopped sending, then the last minute.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from pulsar_doctor.evidence.paces import AT_ONCE, ended, fits
from pulsar_doctor.ledger.balance import BUCKET_NS, PACE_NEEDS, Forecast, Ledger, Pace

MINUTE_NS = 60_000_000_000
WATCHED_LEAST_NS = MINUTE_NS // 2
LONG_NS = 2 * MINUTE_NS  # after which one ack tells a pace


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A time up to now, all of it with messages to work on. done: messages acknowledged in it."""

    ns: int
    done: int

    @property
    def pace(self) -> Pace | None:
        """None where it shows too little."""
        needs = 1 if self.ns >= LONG_NS else PACE_NEEDS
        enough = self.ns >= WATCHED_LEAST_NS and self.done >= needs
        return Pace(self.ns / self.done / 1e9, "measured") if enough else None

    def agrees(self, pace: Pace, each: float) -> bool:
        """Whether one message in each `pace` gives what was done here, an ack more or less."""
        seconds = self.ns / 1e9
        return seconds <= 0 or fits(pace.seconds, self.done, seconds, each)


@dataclass(frozen=True, slots=True)
class Outlook:
    """How a consumer works at one moment, and what comes next."""

    life: Pace | None  # over its whole life
    pace: Pace | None  # as it works now; None while nothing tells
    in_rhythm: bool  # whether it works on as it did
    next_flow: Forecast | None  # at the pace of now; None before the first one

    @classmethod
    def of(cls, ledger: Ledger, now_ns: int) -> Self:
        """Everything that the ledger shows of it."""
        life, ahead, in_rhythm = ledger.pace(), ledger.forecast(), ledger.in_rhythm(now_ns)
        now = _pace(ledger, life, now_ns)
        return cls(life, now, in_rhythm, None if ahead is None else replace(ahead, pace=now))


def _pace(ledger: Ledger, life: Pace | None, now_ns: int) -> Pace | None:
    each = _messages_an_ack(ledger)
    if _has_ended(ledger, life, each, now_ns):
        return None
    since_delivery = _stretch(ledger, ledger.last_message_ns, now_ns)
    minute = _stretch(ledger, now_ns - MINUTE_NS, now_ns)
    measured = life if life is not None and life.source == "measured" else None
    from_longest = (
        (measured, (since_delivery, minute)),
        (since_delivery.pace, (minute,)),
        (minute.pace, ()),
    )
    for known, shorter in from_longest:
        if known is not None and all(stretch.agrees(known, each) for stretch in shorter):
            return known
    return since_delivery.pace or life


def _has_ended(ledger: Ledger, life: Pace | None, each: float, now_ns: int) -> bool:
    """Whether it has been silent for longer than its pace, and its pauses until then, explain."""
    worked_ns = ledger.last_work_ns
    if life is None or life.source != "measured" or worked_ns is None:
        return False
    usual = max(life.seconds * each, ledger.longest_work_gap_ns / 1e9 / AT_ONCE)
    return ended((now_ns - max(worked_ns, ledger.busy_since_ns or 0, ledger.due_ns)) / 1e9, usual)


def _messages_an_ack(ledger: Ledger) -> float:
    """Messages for one ack: one command may acknowledge a whole batch or many messages."""
    of_entries = ledger.messages / max(1, ledger.entries)
    return max(1.0, of_entries, ledger.acknowledged / max(1, ledger.ack_commands))


def _stretch(ledger: Ledger, since_ns: int | None, now_ns: int) -> _Stretch:
    """From then on, as far as it was busy. Acks are counted in buckets: only whole ones count."""
    busy_ns = ledger.busy_since_ns
    if since_ns is None or busy_ns is None or not ledger.recent:
        return _Stretch(0, 0)
    kept_ns = ledger.recent[0][0] * BUCKET_NS
    first = -(-max(since_ns, busy_ns, kept_ns) // BUCKET_NS)
    done = sum(acked for bucket, _, _, acked, _ in ledger.recent if bucket >= first)
    return _Stretch(now_ns - first * BUCKET_NS, done)
