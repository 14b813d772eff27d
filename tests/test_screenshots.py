"""The screens in the README and in docs/ show what the commands print now."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import screenshots
from tests.screenshots import BYTES_MOST, FOLDER, PAGES, ROOT, SCREENS, drawn, renewed, words

STALE = "run `python -m tests.screenshots`"


@pytest.mark.parametrize("name", SCREENS)
def test_a_screenshot_has_the_words_that_the_command_prints(name: str) -> None:
    kept = (FOLDER / f"{name}.svg").read_text("utf-8")
    assert words(kept) == words(drawn(name)), STALE
    assert len(kept.encode()) < BYTES_MOST


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_the_output_that_its_command_has(page: Path) -> None:
    text = page.read_text("utf-8")
    assert renewed(text) == text, STALE


def test_every_screenshot_is_on_a_page_and_the_readme_shows_a_command_with_its_output() -> None:
    pages = "".join(page.read_text("utf-8") for page in PAGES)
    assert {path.stem for path in FOLDER.iterdir()} == SCREENS.keys()
    assert [name for name in SCREENS if f"screens/{name}.svg" not in pages] == []
    readme = (ROOT / "README.md").read_text("utf-8")
    assert len(readme.encode()) <= 12 * 1024
    assert screenshots.SHOWN.search(readme)
