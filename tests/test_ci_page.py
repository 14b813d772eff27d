"""The files of docs/ci.md: they can be read, and their shell parts work."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

PAGE = Path(__file__).parent.parent / "docs" / "ci.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)


def of(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def github_steps() -> list[dict[str, object]]:
    return yaml.safe_load(of("yaml")[0])["jobs"]["consumer"]["steps"]


def shell_parts() -> list[str]:
    """What a shell is given by any of the files."""
    gitlab = yaml.safe_load(of("yaml")[1])
    parts = gitlab["smoke"]["before_script"] + gitlab["smoke"]["script"]
    return [*of("sh"), *parts, *re.findall(r"sh '(.*)'$", of("groovy")[0], re.M)]


@pytest.mark.usefixtures("outside")
def test_a_shell_can_read_every_part_of_the_files() -> None:
    parts = shell_parts()
    assert len(parts) == 6
    for part in parts:
        subprocess.run(["sh", "-n", "-c", part], check=True)
    assert sum("sh ci/smoke.sh" in part for part in parts) == 2


def test_the_script_of_the_page_is_that_of_the_action() -> None:
    [script] = of("sh")
    assert script == (PAGE.parent.parent / "deploy/action/smoke.sh").read_text()


def test_the_page_gives_the_action_what_it_takes() -> None:
    action = yaml.safe_load((PAGE.parent.parent / "deploy/action/action.yml").read_text())
    [step] = [step for step in github_steps() if "pulsar-doctor" in step.get("uses", "")]
    needed = {name for name, each in action["inputs"].items() if each.get("required")}
    assert needed <= step["with"].keys() <= action["inputs"].keys()
