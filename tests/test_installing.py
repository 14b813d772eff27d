"""Each line of README and docs/installing.md that installs something is run, and what it installs.

All in one environment, which grows: each extra comes to those before it. So the order of EXTRAS is
from small to large, and nothing that a command needs came with another extra.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import release

if TYPE_CHECKING:
    from pulsar_doctor.parts.sandbox.lifetime import Sandbox

PAGES = ("README.md", "docs/installing.md")
STATE = str(release.ROOT / "tests/states/4.0.8/prefetch-hogging.jsonl.gz")
PACKETS = str(release.ROOT / "tests/parts/capture/recorded/tcpdump-lo.pcap.gz")
INSTALLS = re.compile(r"`([^`\n]*pip install[^`\n]*)`|^([^`|\n]*pip install[^`|\n]*)$", re.M)
EACH, ALL = "pip install '.[EXTRA]'", "pip install -c constraints.txt '.[all]'"
FIRST = "python3 -m venv .venv && .venv/bin/pip install ."
TESTED = (
    "python3 -m venv .venv && .venv/bin/pip install -c constraints.txt '.[all,test]'"
    " && .venv/bin/pytest -n 3"
)
DEMO = "python3 -m venv .venv && .venv/bin/pip install '.[sandbox]' && .venv/bin/pulsar-doctor demo"
NOT_HERE = {"pip install", "pip install pulsar-doctor"}  # no line; not on an index yet
# A page has no charts then, a demo takes a Java that is there, and all of them are several.
WORKS_WITHOUT = {"report", "sandbox", "all"}
# A command that needs the extra, and what it prints.
EXTRAS = {
    "pulsarctl": ("HOME=$PWD pulsar-doctor context list", "of-pulsarctl"),
    "metrics": (f"pulsar-doctor stall-check --stats {STATE} -o prometheus", "# EOF"),
    "mcp": ("pulsar-doctor mcp < /dev/null", "ended with 0"),
    "examine": ("pulsar-doctor examine $PROCESS --attach", "a sleep under <module>"),
    "report": (f"pulsar-doctor report {STATE} -o p.html; cat p.html", 'class="chart"'),
    "trace": (f"pulsar-doctor capture {PACKETS} --port 46557 --trace t.ptrace", "ended with 0"),
    "consume": ("pulsar-doctor produce $TOPIC -n 3", "ended with 0"),
    "sandbox": ("pulsar-doctor demo", "ended with 0"),
    "spark": ("pulsar-doctor analyze t.ptrace", "ended with 0"),
    "all": ("pulsar-doctor --version", "ended with 0"),
}


def documented() -> set[str]:
    """Every line of these pages that installs something."""
    text = "\n".join((release.ROOT / page).read_text() for page in PAGES)
    return {(inline or line).strip() for inline, line in INSTALLS.findall(text)}


def test_each_documented_line_is_run_or_cannot_be() -> None:
    project = tomllib.loads((release.ROOT / "pyproject.toml").read_text())["project"]
    assert documented() == {FIRST, DEMO, TESTED, EACH, ALL} | NOT_HERE
    assert EXTRAS.keys() | {"test"} == project["optional-dependencies"].keys()


@dataclass(frozen=True, slots=True)
class Place:
    """A copy of what a stranger has, in which lines of a shell are run."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, line: str) -> str:
        """What a line prints, on whatever it prints it."""
        ran = subprocess.run(
            ["sh", "-c", line], cwd=self.folder, env=self.environment, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return f"{ran.stdout}\n`{line}` ended with {ran.returncode}"

    def install(self, line: str) -> None:
        """Runs a documented line, which succeeds."""
        printed = self.run(line)
        assert printed.endswith("ended with 0"), printed


@pytest.fixture
def place(tmp_path: Path, broker: Sandbox) -> Iterator[Place]:
    """With a context of pulsarctl, a broker, and a Python process to examine."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=release.ROOT, capture_output=True, check=True).stdout
    for name in filter(None, names.decode().split("\0")):
        if not name.startswith("tests/") and (release.ROOT / name).exists():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(release.ROOT / name, tmp_path / name)
    config = tmp_path / ".config/pulsar/config"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("contexts: {of-pulsarctl: {admin-service-url: 'http://127.0.0.1:1'}}\n")
    topic = f"persistent://public/default/{tmp_path.name}"
    sleeping = [sys.executable, "-c", "import time; time.sleep(999)"]
    with subprocess.Popen(sleeping) as process:
        yield Place(tmp_path, os.environ | {
            "PATH": f"{tmp_path}/.venv/bin:{os.environ['PATH']}", "PROCESS": str(process.pid),
            "TOPIC": topic, "COLUMNS": "160",
            "PULSAR_DOCTOR_SERVICE_URL": broker.service_url,
            "PULSAR_DOCTOR_ADMIN_URL": broker.admin_url,
            "PULSAR_DOCTOR_PULSAR_HOME": str(broker.home),
        })  # fmt: skip
        process.kill()


@pytest.mark.timeout(900)
def test_each_documented_line_installs_what_its_command_needs(place: Place) -> None:
    place.install(FIRST)
    assert "ended with 1" in place.run(f".venv/bin/pulsar-doctor stall-check --stats {STATE}")
    for extra, (command, prints) in EXTRAS.items():
        before = place.run(command)
        assert f"pulsar-doctor[{extra}]" in before or extra in WORKS_WITHOUT, before
        place.install(EACH.replace("EXTRA", extra))
        printed = place.run(command)
        assert prints in printed, printed
        assert "pip install" not in printed
    place.install(ALL)
    place.install(DEMO.replace(" demo", " --version"))
    place.install(TESTED.replace(" -n 3", " --version"))
