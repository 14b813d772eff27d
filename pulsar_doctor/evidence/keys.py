"""Which consumers of Key_Shared wait for each other when a key moves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """How a Key_Shared subscription keeps the order of its keys.

    out_of_order: whether it need not. joined: consumers that joined behind mark-delete; None where
    that is not told. draining: whether any hash waits for its former owner. mark_delete: its
    position. advanced: whether it moved within the window.
    """

    out_of_order: bool
    joined: int | None
    draining: bool
    mark_delete: str | None
    advanced: bool


@dataclass(frozen=True, slots=True)
class Draining:
    """Hashes that belong to others by now, and wait for the acks of this consumer.

    hashes: those of which it holds entries, and of which messages were turned away; None where that
    is not told. entries: what it holds of them. attempts: messages turned away; both None where one
    is not told. lately: whether any were within the window.
    """

    hashes: int | None
    entries: int | None
    attempts: int | None
    lately: bool = False
