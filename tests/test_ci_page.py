"""The files of docs/ci.md: they can be read, and their shell parts work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

PAGE = Path(__file__).parent.parent / "docs" / "ci.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
CONSUMER = """
import os, pulsar
client = pulsar.Client(os.environ["PULSAR_SERVICE_URL"])
consumer = client.subscribe(os.environ["TOPIC"], "billing", pulsar.ConsumerType.Shared)
for number in range(200):
    message = consumer.receive()
    if number < {acknowledged}:
        consumer.acknowledge(message)
client.close()
"""


def of(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def shell_parts() -> list[str]:
    """What a shell is given by any of the files."""
    github, gitlab = (yaml.safe_load(text) for text in of("yaml"))
    steps = github["jobs"]["consumer"]["steps"]
    parts = [step["run"] for step in steps if "run" in step]
    parts += gitlab["smoke"]["before_script"] + gitlab["smoke"]["script"]
    return [*of("sh"), *parts, *re.findall(r"sh '(.*)'$", of("groovy")[0], re.M)]


@pytest.mark.usefixtures("outside")
def test_a_shell_can_read_every_part_of_the_files() -> None:
    parts = shell_parts()
    assert len(parts) == 8
    for part in parts:
        subprocess.run(["sh", "-n", "-c", part], check=True)
    assert sum("sh ci/smoke.sh" in part for part in parts) == 3


@pytest.mark.slow
@pytest.mark.parametrize(("acknowledged", "code"), [(200, 0), (100, 1)])
def test_the_script_passes_and_fails_as_the_page_says(broker, tmp_path, acknowledged, code):
    [script] = of("sh")
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "smoke.sh").write_text(script)
    (tmp_path / "my_consumer.py").write_text(CONSUMER.format(acknowledged=acknowledged))
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PULSAR")}
    ran = subprocess.run(
        ["sh", "ci/smoke.sh", "junit"],
        cwd=tmp_path,
        env=ours
        | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PULSAR_DOCTOR_CACHE": str(tmp_path / "cache"),
            "PULSAR_DOCTOR_PULSAR_HOME": str(broker.home),
        },
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert ran.returncode == code, ran.stderr
    [suite] = ElementTree.fromstring(ran.stdout)
    assert suite.get("failures") == str(code)
    assert (tmp_path / "smoke.ptrace").is_dir()
    assert ran.stderr.splitlines()[-1] == "the sandbox is stopped"
