"""The tables of docs/json.md, made from the table of the numbers of a consumer.

`python -m tests.generate` writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pulsar_doctor.evidence.measures import PROCESS, STATS, WIRE
from pulsar_doctor.evidence.numbers import NUMBERS, REPORTED, Number

END = "<!-- end -->"
PAGE = Path(__file__).parents[2] / "docs" / "json.md"
SOURCES = {STATS: "statistics", WIRE: "trace", PROCESS: "process"}
IN_FINDINGS = ("unacked_entries", "queued", "permits_refilled", "permits_owed", "parked_permits",
               "refill_threshold", "largest_batch", "sending_after", "pace", "holds_since",
               "since_work")  # fmt: skip


def page() -> str:
    """The page as it should be."""
    tables = {
        "numbers": _numbers(REPORTED),
        "more": _numbers(NUMBERS[name] for name in IN_FINDINGS),
    }
    text = PAGE.read_text("utf-8")
    for name, lines in tables.items():
        head, begin, rest = text.partition(f"tests.generate: {name} -->\n")
        text = "\n".join((f"{head}{begin}".rstrip("\n"), *lines, END)) + rest.partition(END)[2]
    return text


def _numbers(rows: Iterable[Number]) -> Iterator[str]:
    yield "| name | unit | in the broker's statistics | reported by | meaning |"
    yield "| --- | --- | --- | --- | --- |"
    for row in rows:
        sources = ", ".join(SOURCES[source] for source in row.sources)
        broker = f"`{row.broker}`" if row.broker else ""
        yield f"| `{row.name}` | {row.unit} | {broker} | {sources} | {row.meaning} |"


def files() -> Iterator[tuple[Path, str]]:
    """The page and its text."""
    yield PAGE, page()
