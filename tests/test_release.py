"""What a release consists of is built, and the one file judges with a Python that has nothing."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests import release
from tests.support.command_line import pulsar_doctor

if TYPE_CHECKING:
    import pulsar

    from pulsar_doctor.parts.sandbox.lifetime import Sandbox

STATE = str(release.ROOT / "tests/states/4.0.8/prefetch-hogging.jsonl.gz")
PYTHON = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    release.build(folder)
    return folder


def one_file(built: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run by a Python that has no packages but its own."""
    return subprocess.run(
        [PYTHON, "-I", built / release.ONE_FILE, *arguments], capture_output=True, text=True,
        timeout=60, check=False, cwd=built,
        env={"PATH": os.environ["PATH"], "COLUMNS": "160", "SHIV_ROOT": str(built / "unpacked")},
    )  # fmt: skip


def test_the_one_file_says_what_an_installed_one_does(built: Path) -> None:
    ran, usual = (
        one_file(built, "stall-check", "--stats", STATE),
        pulsar_doctor("stall-check", "--stats", STATE),
    )
    assert (ran.returncode, ran.stdout) == (1, usual.stdout), ran.stderr


def test_the_one_file_judges_a_live_broker(
    built: Path, broker: Sandbox, client: pulsar.Client, topic: str
) -> None:
    client.subscribe(topic, "s")
    where = ("--admin-url", broker.admin_url, "--window", "0s", "-o", "json")
    ran = one_file(built, "stall-check", topic, *where)
    (found,) = json.loads(ran.stdout)["subscriptions"]
    assert (ran.returncode, found["status"]) == (0, "healthy"), ran.stderr


def test_what_the_one_file_lacks_it_says_in_one_sentence(built: Path) -> None:
    ran = one_file(built, "trace", "show", "t.ptrace")
    assert ran.returncode == 3
    assert "pip install 'pulsar-doctor[trace]'" in ran.stderr


def test_each_file_has_its_checksum(built: Path) -> None:
    lines = (built / "SHA256SUMS").read_text().splitlines()
    found = {name: digest for digest, name in (line.split("  ") for line in lines)}
    files = [path for path in built.iterdir() if path.is_file() and path.name != "SHA256SUMS"]
    assert found == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    assert len(found) == 3


def test_the_workflow_of_a_release_builds_what_is_built_here() -> None:
    text = (release.ROOT / ".github/workflows/release.yml").read_text()
    jobs = yaml.safe_load(text)["jobs"]
    steps = [step.get("run", "") for step in jobs["build"]["steps"]]
    assert any("python -m tests.release dist" in step for step in steps)
    assert "pip install -c constraints.txt '.[all,test]'" in text
