"""Writes what is generated in man/, completions/, docs/, README.md: `python -m tests.generate`.

A test fails while something of it is stale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from tests import cause_pages, completions, manpages, screenshots
from tests.conformance import published
from tests.parts.monitoring import made
from tests.report import json_page

# What it is, and what gives its files, each with the text that it should hold.
GENERATORS: Mapping[str, Callable[[], Iterable[tuple[Path, str]]]] = {
    "manual pages": manpages.files,
    "pages of causes": cause_pages.files,
    "completion in shells": completions.files,
    "numbers in docs/json.md": json_page.files,
    "measured clients in docs/clients.md": published.files,
    "alert rules and the dashboard of monitoring": made.files,
    "screens and output on pages": screenshots.files,
}
WHOLE = (
    *manpages.FOLDER.glob("man?"),
    completions.FOLDER,
    cause_pages.FOLDER,
    screenshots.FOLDER,
)  # folders that hold nothing else


def stale(name: str) -> list[Path]:
    """The files of one generator that are missing or hold something else."""
    return [path for path, text in GENERATORS[name]() if not holds(path, text)]


def holds(path: Path, text: str) -> bool:
    """Of a picture only the words count: its colours depend on the version of rich."""
    kept = path.read_text("utf-8") if path.exists() else ""
    words = screenshots.words if path.suffix == ".svg" else str
    return words(kept) == words(text)


def left_over(made: Iterable[Path]) -> Iterator[Path]:
    """Files that nothing makes any more."""
    known = set(made)
    yield from (path for folder in WHOLE for path in folder.iterdir() if path not in known)


def main() -> None:
    """Writes what is stale, and removes what is left over."""
    made = []
    for files in GENERATORS.values():
        for path, text in files():  # one after the other: a page may be of two generators
            made.append(path)
            if not holds(path, text):
                path.write_text(text, "utf-8")
                print(path.relative_to(screenshots.ROOT))
    for path in left_over(made):
        path.unlink()
        print(f"{path.relative_to(screenshots.ROOT)}: removed")


if __name__ == "__main__":
    main()
