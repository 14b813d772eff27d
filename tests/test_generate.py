"""Nothing that is generated is stale."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import generate


@pytest.mark.parametrize("name", generate.GENERATORS)
def test_nothing_generated_is_stale(name: str) -> None:
    assert generate.stale(name) == [], "run `python -m tests.generate`"


def test_no_file_is_left_over_in_folders_that_are_generated_whole() -> None:
    made = [path for files in generate.GENERATORS.values() for path, _ in files()]
    assert list(generate.left_over(made)) == []


def test_a_file_that_is_missing_or_differs_is_stale(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    assert not generate.holds(page, "new\n")
    page.write_text("old\n")
    assert not generate.holds(page, "new\n")
    page.write_text("new\n")
    assert generate.holds(page, "new\n")
