"""Which consumers of Key_Shared wait for each other when a key moves."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.broker.stats.values import HashRange


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """How a Key_Shared subscription keeps the order of its keys."""

    out_of_order: bool  # whether it need not keep it
    joined: int | None  # consumers that joined behind mark-delete; None: not reported
    draining: bool  # whether any hash waits for its former owner
    mark_delete: str | None  # its position
    sticky: bool  # whether consumers choose their ranges of hashes
    unowned: tuple[HashRange, ...] | None  # of these, hashes that nobody has; None: not reported
    waits_throughout: int  # entries that waited to be sent again in every sample, at least
    advanced: bool  # whether it moved within the window


@dataclass(frozen=True, slots=True)
class Draining:
    """Hashes that belong to others by now, and wait for the acks of this consumer."""

    hashes: int | None  # those it holds entries of, with messages turned away; None: not reported
    entries: int | None  # what it holds of them; None where `attempts` is not reported
    attempts: int | None  # messages turned away; None where `entries` is not reported
    lately: bool = False  # whether any were within the window
    # Whether one of them drains in every sample, and in one of these nobody held anything else.
    alone: bool = False
