"""All behaviours, in the order of the table."""

from __future__ import annotations

from tests.conformance import batches, leaks, pauses, positions, reconnects, refills
from tests.conformance.table import BEHAVIOURS

SECTIONS = {
    "Refills": refills,
    "Batches": batches,
    "Positions": positions,
    "Listeners and pauses": pauses,
    "Connecting again": reconnects,
    "Messages that never reach the application": leaks,
}


def in_section(section: str) -> list[str]:
    """The names of its behaviours."""
    module = SECTIONS[section].__name__
    return [name for name, each in BEHAVIOURS.items() if each.module == module]


def in_order() -> list[str]:
    """All names, section by section."""
    return [name for section in SECTIONS for name in in_section(section)]
