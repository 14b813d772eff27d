"""Chooses how a tap or a live capture is shown: on a terminal, or as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from pulsar_doctor.cli._calls import is_given, talk
from pulsar_doctor.wording.gate import stdout, warn

if TYPE_CHECKING:
    from pulsar_doctor.parts.tap.events import Screen


def lines_on(out: TextIO) -> Screen:
    """Everything as lines on one stream."""
    from pulsar_doctor.parts.tap.report.screens import Lines

    return Lines(out, out, talk(), warn)


def screen_of(changes: TextIO | None = None) -> Screen:
    """A terminal where stdout is one. changes: where verdicts go as lines, and nothing is drawn."""
    from pulsar_doctor.parts.tap.report.screens import Lines
    from pulsar_doctor.parts.tap.report.terminal import Terminal
    from pulsar_doctor.report.paper import console_on

    console = console_on(stdout())
    if console.is_terminal and not console.is_dumb_terminal and changes is None:
        return Terminal(console, talk(), warn, quiet=is_given("quiet"))
    return Lines(stdout(), changes or stdout(), talk(), warn)
