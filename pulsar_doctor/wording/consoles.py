"""Filters what rich prints: names from outside cannot control the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from pulsar_doctor.wording.printable import printable_lines


class GatedConsole(Console):
    """A console on which no name of others is obeyed."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Rich's own step from what is drawn to text with a style, on every level of it."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(printable_lines(text), style)
