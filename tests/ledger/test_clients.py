"""A new client is one row of the table: everything that depends on clients reads it there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pulsar_doctor
from pulsar_doctor.diagnosis.actions.consumers import dump_threads
from pulsar_doctor.diagnosis.causes.permit_leak import _may_pause
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.ledger.clients import CLIENTS, SIMULATED, client_of, clients_of
from tests.diagnosis.test_commands import view

ROW = """CLIENTS = (
    ClientLibrary(
        "Zig", ("Pulsar-Zig",), issues=("zig",), simulated="zig", zero_batches="each",
        asks_on_arrival=True, pauses=True, queue_of_one="Zig reads on", dump=("zig-dump", "zd"),
        settings={RECEIVER_QUEUE: ".queue = {}"},
    ),
"""
ASKED = """
import json
from pulsar_doctor.checkup.redacting import Pseudonyms
from pulsar_doctor.diagnosis.actions.settings import setting_of_any
from pulsar_doctor.diagnosis.known.versions import client_of, may_be
print(json.dumps([
    setting_of_any("receiver queue", 1).split(", ")[0],
    client_of("Pulsar-Zig-v1.2.3")[0], client_of("Pulsar-Zig-v1.2.3")[1].text,
    may_be("zig", "Pulsar-Zig-v1.2.3"), may_be("java", "Pulsar-Zig-v1.2.3"),
    Pseudonyms().of("version", "Pulsar-Zig-v1.2.3-billing"),
]))
"""


@pytest.fixture(scope="module")
def with_another_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with one more row in its table, and nothing else changed."""
    package, top = Path(pulsar_doctor.__file__).parent, tmp_path_factory.mktemp("another")
    ledger = top / "pulsar_doctor" / "ledger"
    ledger.mkdir(parents=True)
    for source, target in ((package, ledger.parent), (package / "ledger", ledger)):
        for each in source.iterdir():
            if each.name not in ("ledger", "clients.py", "__pycache__"):
                (target / each.name).symlink_to(each)
    table = (package / "ledger" / "clients.py").read_text()
    assert table.count("CLIENTS = (\n") == 1
    (ledger / "clients.py").write_text(table.replace("CLIENTS = (\n", ROW))
    return top


def ran(top: Path, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=top, capture_output=True, text=True, check=False
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_a_row_is_all_that_advice_known_issues_and_redaction_need(
    with_another_client: Path,
) -> None:
    assert ran(with_another_client, "-c", ASKED) == [
        ".queue = 1 (Zig)", "zig", "1.2.3", True, False, "Pulsar-Zig-v1.2.3",
    ]  # fmt: skip


def test_a_row_is_all_that_a_simulation_needs(with_another_client: Path) -> None:
    options = ("--rate", "100/s", "--process-time", "2s", "--client", "zig", "-o", "json")
    told = ran(with_another_client, "-m", "pulsar_doctor", "simulate", *options)
    assert told["scenario"]["client"] == "zig"
    assert ".queue = 1 (Zig)" in str(told["verdict"])
    assert "Zig reads on" in str(told["verdict"])


def test_each_client_is_simulated_under_one_name() -> None:
    assert list(SIMULATED) == ["java", "pulsar-client", "pulsar-client-listener", "go"]
    assert len([each for each in CLIENTS if each.simulated]) == len(SIMULATED)


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("Pulsar-Java-v4.0.8", {"Java", "Spring"}),
        ("Pulsar-CPP-v3.7.0", {"C++", "Python", "Node.js"}),
        ("Pulsar-CPP-v3.7.1-node-client-v1.17.0", {"Node.js"}),
        ("Pulsar Go 0.12.1", {"Go"}),
        ("2.0.1-incubating", {"Rust"}),
        ("2.10.2", {"Java", "Spring", "C++", "Python", "Node.js"}),
        ("a-client-of-our-own", set()),
        (None, set()),
    ],
)
def test_a_version_may_be_of_several_clients(version: str | None, names: set[str]) -> None:
    assert {each.name for each in clients_of(version)} == names


def test_an_older_go_client_reads_ahead_and_credits_as_a_new_one() -> None:
    assert client_of("Pulsar Go 0.12.1") is client_of("Pulsar-Go-v0.17.0")


@pytest.mark.parametrize("version", [*(each.reports[0] for each in CLIENTS), "2.10.2", None])
def test_there_is_a_dump_of_each_client(version: str | None) -> None:
    assert dump_threads(view("orders"), ConsumerView("w", 0, client_version=version)).brief


def test_a_node_client_is_dumped_by_gdb() -> None:
    node = ConsumerView("w", 0, client_version="Pulsar-CPP-v3.7.1-node-client-v1.17.0")
    assert dump_threads(view("orders"), node).brief == "Dump its threads (gdb)"


@pytest.mark.parametrize(
    ("version", "pauses"),
    [("Pulsar-Java-v4.0.8", True), ("2.10.2", True), (None, True), ("Pulsar-Go-v0.17.0", False)],
)
def test_a_client_that_may_be_java_may_be_paused(version: str | None, pauses: bool) -> None:
    assert _may_pause(ConsumerView("w", 0, client_version=version)) == pauses
