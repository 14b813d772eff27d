"""The screens in the README and in docs/ show what the commands print now."""

from __future__ import annotations

from tests.screenshots import BYTES_MOST, FOLDER, PAGES, ROOT, SCREENS, SHOWN


def test_a_screenshot_is_small() -> None:
    assert all(path.stat().st_size < BYTES_MOST for path in FOLDER.iterdir())


def test_every_screenshot_is_on_a_page_and_the_readme_shows_a_command_with_its_output() -> None:
    pages = "".join(page.read_text("utf-8") for page in PAGES)
    assert {path.stem for path in FOLDER.iterdir()} == SCREENS.keys()
    assert [name for name in SCREENS if f"screens/{name}.svg" not in pages] == []
    readme = (ROOT / "README.md").read_text("utf-8")
    assert len(readme.encode()) <= 12 * 1024
    assert SHOWN.search(readme)
