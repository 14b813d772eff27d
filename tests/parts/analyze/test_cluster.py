"""Any Spark will do: a cluster and a Connect server, on which nothing of ours is installed.

The job runs as a program of its own (job.py), as pulsar-doctor does. Executors find no Python
at all, so that a job that needs one cannot end well.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.parts.analyze.java import spark_java_home
from tests.parts.analyze.cluster import (
    EXECUTOR_MEMORY,
    FOREIGN,
    HOST,
    NO_PYTHON,
    SparkCluster,
    connect_server,
    spark_cluster,
    wheel,
)
from tests.parts.analyze.made_traces import batches, limits, redeliveries, restarts, slow
from tests.parts.analyze.planted import PLANTED
from tests.support.cluster import Node
from tests.support.processes import linux, listening
from tests.support.terminals import terminal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
JOB = Path(__file__).with_name("job.py")
MAKERS = (slow, batches, limits, redeliveries, restarts)
SMALL = {"spark.sql.shuffle.partitions": "2"}  # or small traces make a thousand tasks
# A job that needs Python on the executors.
WITH_PYTHON = """
import sys
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.master(sys.argv[1]).config("spark.executor.memory", sys.argv[2])
spark = spark.config("spark.driver.host", "127.0.0.1").getOrCreate()
print(spark.range(10).select(F.udf(lambda n: n)("id")).collect())
"""


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("traces")
    return [str(path) for make in MAKERS for path in make(folder / make.__name__)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("spark") / "cluster") as running:
        yield running


@pytest.fixture(scope="module")
def here(traces: list[str]) -> dict[str, Any]:
    """What Spark on this machine says of the traces."""
    return job("local[2]", traces)


def test_the_aggregates_of_this_machine_are_those_of_the_cluster(
    cluster: SparkCluster, traces: list[str], here: dict[str, Any]
) -> None:
    before = cluster.tasks()
    assert job(cluster.url, traces, cluster.conf) == here
    assert all(here.values())  # there was something to compare
    assert both_worked(cluster, before)


def test_no_executor_could_have_run_python(cluster: SparkCluster) -> None:
    run = python("-c", WITH_PYTHON, cluster.url, EXECUTOR_MEMORY)
    assert run.returncode != 0
    assert "pyspark.daemon" in run.stderr


def test_the_aggregates_of_this_machine_are_those_of_a_connect_server(
    cluster: SparkCluster, traces: list[str], here: dict[str, Any], tmp_path: Path
) -> None:
    before = cluster.tasks()
    with connect_server(tmp_path / "connect", master=cluster.url, conf=cluster.conf) as server:
        assert job(server.url, traces) == here
    assert both_worked(cluster, before)


@pytest.fixture(scope="module")
def document(traces: list[str]) -> Any:
    """What a user on this machine is told of the traces, and the exit code."""
    return analyzed("-m", "pulsar_doctor", "analyze", "--master", "local[2]", *traces)


def test_analyze_on_a_cluster(cluster: SparkCluster, traces: list[str], document: Any) -> None:
    before = cluster.tasks()
    asked = ("--master", cluster.url, *as_options(cluster.conf), *traces)
    assert analyzed("-m", "pulsar_doctor", "analyze", *asked) == document
    assert document[0]["stalls"]
    assert both_worked(cluster, before)


def test_spark_submit(cluster: SparkCluster, traces: list[str], document: Any) -> None:
    before = cluster.tasks()
    program = python("-m", "pulsar_doctor.parts.analyze", "--path").stdout.strip()
    submit = str(wheel() / "bin" / "spark-submit")
    conf = as_options(cluster.conf | SMALL)
    asked = ("--master", cluster.url, *conf, program, *traces, "-q", "-o", "json")
    run = ran("bash", submit, *asked)  # it makes one stream of both, so: -q
    assert read(run) == document
    assert both_worked(cluster, before)


@linux
def test_analyze_through_a_connect_server_shows_how_far_it_is(
    traces: list[str], document: Any, tmp_path: Path
) -> None:
    with connect_server(tmp_path / "connect") as server:
        asked = ("-m", "pulsar_doctor.parts.analyze", "--remote", server.url, *traces,
                 *as_options(SMALL), "-o", "json")  # fmt: skip
        with terminal() as (end, drawn):
            done = subprocess.run(
                [sys.executable, *asked], env=outside(), stdout=subprocess.PIPE, stderr=end,
                text=True, timeout=300, check=False,
            )  # fmt: skip
        shown = b"".join(drawn).decode("utf-8", "replace")
        asked = ("-m", "pulsar_doctor", "analyze", "-q", "--remote", server.url, *traces)
        refused = python(*asked, "--sql", "SELECT 1")  # there is nobody here who could check it
    assert (json.loads(done.stdout), done.returncode) == document
    assert re.search(r"\w+ .* stage \d+ of \d+ .* tasks", shown)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "a client of Spark Connect has none" in refused.stderr


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Good traces, each kind of bad one, and one that a crash left, sealed to be counted alike."""
    folder = tmp_path_factory.mktemp("mixed")
    slow(folder / "good.ptrace")
    for plant in PLANTED:
        plant(folder / f"{plant}.ptrace")
    return str(folder)


@pytest.fixture(scope="module")
def of_mixed(mixed: str) -> Any:
    return analyzed("-m", "pulsar_doctor", "analyze", "--master", "local[2]", mixed)


def test_a_cluster_leaves_out_the_same_bad_traces(
    cluster: SparkCluster, mixed: str, of_mixed: Any
) -> None:
    asked = ("--master", cluster.url, *as_options(cluster.conf), mixed)
    assert analyzed("-m", "pulsar_doctor", "analyze", *asked) == of_mixed
    assert len(of_mixed[0]["left_out"]) == len(PLANTED)


def test_a_connect_server_leaves_out_the_same_bad_traces(
    cluster: SparkCluster, mixed: str, of_mixed: Any, tmp_path: Path
) -> None:
    with connect_server(tmp_path / "connect", master=cluster.url, conf=cluster.conf) as server:
        asked = ("--remote", server.url, *as_options(SMALL), mixed)
        said, code = analyzed("-m", "pulsar_doctor", "analyze", *asked)
    for document in (said, of_mixed[0]):
        for each in document["left_out"]:  # there it has a scheme
            for name, text in each.items():
                each[name] = re.sub(r"file:/+", "/", text)
        document["left_out"].sort(key=lambda each: each["trace"])
    assert (said, code) == of_mixed


@linux
def test_everything_listens_on_the_loopback_only_and_ends(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        one = stack.enter_context(spark_cluster(tmp_path / "cluster"))
        server = stack.enter_context(connect_server(tmp_path / "connect")).server
        java = [pid_of_java(node) for node in (one.master, *one.workers, server)]
        heard = [address for pid in java for address in listening(pid)]
        stack.callback(int, "a test that fails")
        with pytest.raises(ValueError, match="a test that fails"):
            stack.close()
    assert len(heard) >= len(java)
    assert {str(getattr(at, "ipv4_mapped", None) or at) for at in heard} == {HOST}
    assert not [pid for pid in java if Path(f"/proc/{pid}").exists()]


def pid_of_java(node: Node) -> int:
    """Of the process that a supervisor keeps."""
    assert node.process is not None
    supervisor = node.process.pid
    (pid,) = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    assert Path(f"/proc/{pid}/comm").read_text().strip() == "java"
    return int(pid)


def both_worked(cluster: SparkCluster, before: Sequence[int]) -> bool:
    """Whether each worker has run tasks since then."""
    return all(now > then for now, then in zip(cluster.tasks(), before, strict=True))


def job(where: str, traces: Sequence[str], conf: dict[str, str] | None = None) -> Any:
    """Runs job.py; what it found."""
    settings = [f"{name}={text}" for name, text in {**SMALL, **(conf or {})}.items()]
    run = python(str(JOB), where, *settings, "--", *traces)
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout)


def as_options(conf: dict[str, str]) -> list[str]:
    """Settings as Spark and we take them on the command line."""
    return [word for item in conf.items() for word in ("--conf", "=".join(item))]


def analyzed(*arguments: str) -> tuple[Any, int]:
    """Runs `analyze` as a program of its own; its document and its exit code."""
    return read(python(*arguments, *as_options(SMALL), "-o", "json"))


def read(run: subprocess.CompletedProcess[str]) -> tuple[Any, int]:
    assert run.returncode in (0, 1, 3, 4), run.stderr[-3000:]
    return json.loads(run.stdout), run.returncode


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return ran(sys.executable, *arguments)


def ran(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=outside(), capture_output=True, text=True, timeout=400, check=False
    )


def outside() -> dict[str, str]:
    """The environment of a driver: it has Python, the executors are told to use none."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(FOREIGN)}
    python = {"PYSPARK_PYTHON": NO_PYTHON, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return kept | python | {"JAVA_HOME": str(spark_java_home())}
