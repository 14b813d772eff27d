"""A real Prometheus and its promtool, where this machine has them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import eventually
from tests.support.wanting import wanting

VARIABLE = "PULSAR_DOCTOR_PROMETHEUS"  # a folder with prometheus and promtool, as Debian packs them
CONFIGURATION = """\
global: {{scrape_interval: 2s, evaluation_interval: 2s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: pulsar-doctor
    honor_labels: true
    static_configs: [{{targets: ["127.0.0.1:{scraped}"]}}]
"""


def tool(name: str) -> str:
    """The path of a program of Prometheus; only for a test that `needing` marks."""
    found = shutil.which(name, path=os.environ.get(VARIABLE) or None)
    assert found is not None
    return found


def needing(name: str) -> pytest.MarkDecorator:
    """Skips a test where there is no such program, before its broker starts."""
    there = shutil.which(name, path=os.environ.get(VARIABLE) or None)
    where = f"{name} (on the PATH, or in the folder {VARIABLE})"
    return pytest.mark.skipif(there is None, reason=wanting(where))


@dataclass(frozen=True, slots=True)
class Prometheus:
    """One that runs."""

    url: str

    def get(self, path: str, **query: str) -> Any:
        """The data of an answer of its API; an error of a query is an error here."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def firing(self, subscription: str) -> dict[str, dict[str, str]]:
        """The labels of the alerts on it that fire, by name."""
        alerts = self.get("alerts")["alerts"]
        return {
            each["labels"]["alertname"]: each["labels"] | each["annotations"]
            for each in alerts
            if each["state"] == "firing" and each["labels"].get("subscription") == subscription
        }

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5):
                return True
        except OSError:
            return False


@contextmanager
def prometheus(folder: Path, rules: str, *, port: int, scraped: int) -> Iterator[Prometheus]:
    """With these rules; it scrapes that port of this machine."""
    program = tool("prometheus")
    (folder / "rules.yml").write_text(rules)
    configuration = CONFIGURATION.format(rules=folder / "rules.yml", scraped=scraped)
    (folder / "prometheus.yml").write_text(configuration)
    command = (
        program, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=error",
    )  # fmt: skip
    process = subprocess.Popen(command)
    try:
        found = Prometheus(f"http://127.0.0.1:{port}")
        eventually(found.is_ready, 60)
        yield found
    finally:
        process.terminate()
        process.wait(30)
