"""The screens in the README and in docs/: real output of commands over recorded states.

`python -m tests.generate` writes docs/screens/*.svg, and the output below each line of a page that
begins with `$ pulsar-doctor` and reads a recorded state.
"""

from __future__ import annotations

import io
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from html import unescape
from pathlib import Path
from unittest.mock import patch

from rich.text import Text

from pulsar_doctor.cli import run
from pulsar_doctor.wording.consoles import GatedConsole

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "screens"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
WIDTH = 80
BYTES_MOST = 60_000
SCREENS = {
    "stall-check": "stall-check --stats tests/states/4.0.8/prefetch-hogging.jsonl.gz",
    "consumers": "stall-check --set key-shared-blocked.refill_wait=5s"
    " --consumers --stats tests/states/4.0.8/key-shared-blocked.jsonl.gz",
    "details": "stall-check -v --stats tests/states/4.0.8/prefetch-hogging.jsonl.gz",
}
SHOWN = re.compile(
    r"^\$ pulsar-doctor (?P<line>.*tests/states/.*)\n(?:.*\n)*?(?=\$|```)", re.MULTILINE
)
LINE = re.compile(r"<text [^>]*>(.*?)</text>")


def printed(line: str, *, colours: bool) -> str:
    """What a command prints on a terminal of 80 columns."""
    wanted = {"COLUMNS": str(WIDTH), "TERM": "xterm-256color", "COLORTERM": ""}
    wanted |= {"FORCE_COLOR": "1"} if colours else {"NO_COLOR": "1"}
    with chdir(ROOT), patch.dict(os.environ, wanted), redirect_stdout(io.StringIO()) as out:
        for name in {"FORCE_COLOR", "NO_COLOR"} - wanted.keys():
            os.environ.pop(name, None)
        run(shlex.split(line))
    return out.getvalue()


def drawn(name: str) -> str:
    """One screen as SVG."""
    line = SCREENS[name]
    console = GatedConsole(record=True, width=100, file=io.StringIO(), highlight=False)
    console.print(Text(f"$ pulsar-doctor {line}", style="bold"))
    console.print(Text.from_ansi(printed(line, colours=True)), end="")
    return console.export_svg(title="pulsar-doctor", unique_id=name)


def words(svg: str) -> str:
    """The text of an SVG, without spaces and colours, which depend on the version of rich."""
    return "".join("".join(map(unescape, LINE.findall(svg))).split())


def renewed(page: str) -> str:
    """A page with the output that its commands have now."""

    def said(shown: re.Match[str]) -> str:
        line = shown["line"]
        return f"$ pulsar-doctor {line}\n{printed(line, colours=False).rstrip()}\n"

    return SHOWN.sub(said, page)


def files() -> Iterator[tuple[Path, str]]:
    """Each file, and what it should hold."""
    for name in SCREENS:
        yield FOLDER / f"{name}.svg", drawn(name)
    for page in PAGES:
        yield page, renewed(page.read_text("utf-8"))
