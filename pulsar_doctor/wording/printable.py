"""Names and numbers as a person reads them, whoever wrote them."""

from __future__ import annotations

from collections.abc import Sequence


def printable(text: str) -> str:
    """Names come from others: no control characters, line ends or halves of characters."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def many(count: int, what: str) -> str:
    """`1 topic`, `2 topics`."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def listed(names: Sequence[str], most: int) -> str:
    """`a, b and 3 more`: at most so many names."""
    if len(names) <= most:
        return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
    return f"{', '.join(names[:most])} and {len(names) - most} more"
