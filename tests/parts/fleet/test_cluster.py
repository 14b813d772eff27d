"""`fleet` on a cluster of two workers and through a Connect server: the same as on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pulsar_doctor.parts.fleet.answering import ANSWERS, BETWEEN, DAILY
from tests.parts.analyze.cluster import SparkCluster, connect_server
from tests.parts.analyze.test_cluster import SMALL, as_options, both_worked, python
from tests.parts.analyze.test_cluster import cluster as cluster  # noqa: PLC0414
from tests.parts.fleet import twin
from tests.parts.fleet.made import BEGIN, MadeFleet

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
REMEDY = f"{BEGIN:%Y-%m}-02"


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    MadeFleet(20, 3, events=20).write(folder)
    return folder


@pytest.fixture(scope="module")
def here(records: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any]:
    return asked(records, tmp_path_factory.mktemp("here"), "--master", "local[2]")


def test_a_cluster_and_a_connect_server_say_and_save_the_same(
    cluster: SparkCluster, records: Path, here: tuple[str, Any], tmp_path: Path
) -> None:
    before = cluster.tasks()
    conf = as_options(cluster.conf)
    assert asked(records, tmp_path / "cluster", "--master", cluster.url, *conf) == here
    assert both_worked(cluster, before)
    with connect_server(tmp_path / "connect", master=cluster.url, conf=cluster.conf) as server:
        before = cluster.tasks()
        assert asked(records, tmp_path / "saved", "--remote", server.url) == here
    assert both_worked(cluster, before)
    document = json.loads(here[0])
    assert document["episodes"]
    assert document["stalled"]


def asked(records: Path, kept: Path, *where: str) -> tuple[str, Any]:
    """The bytes that `fleet` prints, and the tables that it saves."""
    kept.mkdir(exist_ok=True)
    asks = ("-q", "fleet", str(records), "--save", str(kept), "--remedy", REMEDY, "-o", "json")
    run = python("-m", "pulsar_doctor", *asks, *where, *as_options(SMALL))
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout, {
        name: twin.alike(twin.rows_of(duckdb.connect(), f"FROM '{kept}/{name}/**/*.parquet'"))
        for name in (*DAILY, *BETWEEN, *ANSWERS)
    }
