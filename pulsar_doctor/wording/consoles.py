"""Filters what rich prints: names from outside cannot control the terminal."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from pulsar_doctor.wording.printable import printable_lines

WORD = re.compile(  # a number keeps its unit
    r"(?:\A\s+)?(?:(?<!\S)\d\S* (?=(?:ms|s|min|h|d)\b))?\S+\s*"
)


class GatedConsole(Console):
    """A console on which no name of others is obeyed. With NO_COLOR it writes plain text.

    text_width: characters of a line of text, where a row of a table may be longer.
    """

    def __init__(self, text_width: int | None = None, **options: Any) -> None:
        if os.environ.get("NO_COLOR"):  # rich itself leaves out colours, and keeps bold and dim
            options["color_system"] = None
        super().__init__(**options)
        self._text_width = text_width

    @property
    def text_width(self) -> int:
        """Characters of a line of text."""
        return self._text_width or self.width

    def print(self, *objects: Any, **options: Any) -> None:
        """Prints text without breaking a word, however long it is."""
        if len(objects) == 1 and isinstance(objects[0], Text):
            if not options.get("soft_wrap"):
                objects = (Text("\n").join(wrapped(objects[0], self.text_width)),)
            options["soft_wrap"] = True
        super().print(*objects, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Rich's own step from what is drawn to text with a style, on every level of it."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(printable_lines(text), style)


def wrapped(text: Text, width: int, set_in: int = 0) -> Iterator[Text]:
    """The lines of a text, broken between words only: names and addresses stay whole.

    set_in: characters that all lines but the first are shorter.
    """
    for line in text.split("\n", allow_blank=True):
        line.plain = printable_lines(line.plain)  # before it is measured
        offsets: list[int] = []
        column = 0
        for word in WORD.finditer(line.plain):
            if column > set_in * bool(offsets) and column + cell_len(word[0].rstrip()) > width:
                offsets.append(word.start())
                column = set_in
            column += cell_len(word[0])
        for part in line.divide(offsets):
            part.rstrip()
            yield part
