"""Numbered payloads of any size; the Go program makes the same ones."""

from __future__ import annotations

PATTERN = bytes(range(251))  # a prime length: no two pieces of a frame look alike


def payload(number: int, size: int) -> bytes:
    """Twelve digits and a pattern that begins elsewhere in each message."""
    start = number % len(PATTERN)
    filler = PATTERN[start:] + PATTERN * (max(0, size - 12) // len(PATTERN) + 1)
    return (b"%012d" % number + filler)[: max(size, 12)]
