"""A tap on a terminal: one line for each consumer, redrawn; events scroll above.

Where the terminal gets narrower, most of them wrap what is too wide for them now, and some cut it:
nobody knows where the picture is then. So, once the size has settled, all that is there is moved
up and away, and what is ours is drawn anew.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator

from rich.console import Group
from rich.control import Control
from rich.live import Live
from rich.text import Text

from pulsar_doctor.parts.tap.events import Event, Listening, SayText, Screen
from pulsar_doctor.parts.tap.observer.events import Snapshot
from pulsar_doctor.parts.tap.report.screens import happened, talked
from pulsar_doctor.parts.tap.report.watching import ASCII, UNICODE, lines, title
from pulsar_doctor.wording.consoles import GatedConsole
from pulsar_doctor.wording.gate import stderr

LINES_BESIDE = 2  # the title, and the line that the terminal's cursor is on
ABOVE_MOST = 200  # lines that are drawn anew


class Terminal(Screen):
    """One terminal. say, warn: how to speak on stderr; say is silent under --quiet."""

    def __init__(
        self, console: GatedConsole, say: SayText, warn: SayText, *, quiet: bool = False
    ) -> None:
        super().__init__(
            lambda text: None if quiet else self._speak(text, say),
            lambda text: self._speak(text, warn),
        )
        self._console = console
        self._live: Live | None = None
        self._snapshot: Snapshot | None = None
        self._above: deque[Text] = deque(maxlen=ABOVE_MOST)
        self._drawn = self._seen = console.size
        self._lock = threading.RLock()  # others speak while it draws
        utf = console.encoding.lower().startswith("utf")
        self._signs = UNICODE if utf else ASCII

    def show(self, event: Event) -> None:
        """The consumers below, everything else above."""
        with self._lock:
            if isinstance(event, Listening):
                self._put(Text(event.service_url))
            if isinstance(event, Snapshot):
                self._snapshot = event
                self._draw()
            for line in happened(event, self._console):
                self._put(line)
            for sentence in talked(event):
                self.say(sentence)

    def look(self) -> None:
        """Draws for another size of the terminal, once that has not changed between two checks."""
        with self._lock:
            size, before = self._console.size, self._seen
            self._seen = size
            if self._live is None or size == self._drawn or size != before:
                return
            if size.width < self._drawn.width:
                self._move_away()
            self._drawn = size
            self._draw()

    def close(self) -> None:
        """The last picture stays."""
        with self._lock:
            if self._live is not None:
                self._live.stop()
                self._live = None

    def _speak(self, text: str, otherwise: SayText) -> None:
        """On stderr; above the picture where both are one terminal."""
        with self._lock:
            if not stderr().isatty():
                otherwise(text)
            elif self._live is None:
                self._above.append(Text(text))
                otherwise(text)
            else:
                self._put(Text(text))

    def _put(self, line: Text) -> None:
        self._above.append(line)
        self._console.print(line)

    def _draw(self) -> None:
        """The picture, where it is; not while the terminal changes its size."""
        if self._snapshot is None or (self._live and self._console.size != self._drawn):
            return
        if self._live is None:
            self._drawn = self._seen = self._console.size
            self._live = Live(
                console=self._console, auto_refresh=False, redirect_stdout=False,
                redirect_stderr=False,
            )  # fmt: skip
            self._live.start()
        width, height = self._drawn
        shown = lines(self._snapshot.consumers, self._signs, width, height - LINES_BESIDE)
        picture = (title(self._snapshot, self._signs), *shown)
        self._live.update(Group(*_each(picture)), refresh=True)

    def _move_away(self) -> None:
        """Leaves an empty terminal, with what was on it above, and prints our lines again."""
        assert self._live is not None
        self._live.transient = True
        self._live.stop()
        self._live = None
        self._console.line(self._console.height)
        self._console.control(Control.home())
        for line in self._above:
            self._console.print(line)


def _each(shown: Iterable[Text]) -> Iterator[Text]:
    for line in shown:
        line.no_wrap, line.overflow = True, "crop"
        yield line
