"""Command lines that read a trace; the trace is their last argument."""

from __future__ import annotations

from pulsar_doctor.report.stall_check.formats import FORMATS

Reader = tuple[str, ...]
FEW: tuple[Reader, ...] = (
    ("trace", "show"),
    ("trace", "show", "-o", "jsonl"),
    ("trace", "summary"),
    ("trace", "summary", "-o", "json"),
    ("stall-check", "-o", "json", "--trace"),
    ("stall-check", "-o", "prometheus", "--trace"),
    ("holes", "-o", "json", "--trace"),
)
ALL: tuple[Reader, ...] = (
    *FEW,
    ("trace", "show", "-o", "json"),
    ("trace", "verify"),
    ("trace", "verify", "-o", "json"),
    *(("stall-check", "-o", each, "--trace") for each in FORMATS),
    ("holes", "--trace"),
)
