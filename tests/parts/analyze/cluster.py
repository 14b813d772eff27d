"""Spark as others have it, on this machine: a standalone cluster, a Connect server.

Both start from the pyspark wheel alone. Every process is kept as the sandbox keeps its broker: free
ports on loopback, small heaps, and an end when the test ends, however it ends.

Nobody's Python is found there: PYSPARK_PYTHON is a program that fails, and so is the first `python`
of the PATH. A job that needs Python on an executor does not run here.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx2

from pulsar_doctor.parts.analyze.java import spark_java_home
from pulsar_doctor.parts.sandbox.ports import HOST
from tests.support.cluster import Node, free_ports, listens

WORKERS = 2
WORKER_MEMORY = "700m"
EXECUTOR_MEMORY = "512m"  # a worker has room for one
NO_PYTHON = "/bin/false"
MASTER_CLASS = "org.apache.spark.deploy.master.Master"
WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"
CONNECT_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
# The quick compiler alone: several JVMs on few cores start sooner with it.
JVM = "-XX:+UseSerialGC -XX:-UsePerfData -XX:TieredStopAtLevel=1"
FOREIGN = ("SPARK_", "PYSPARK_", "PYTHON", "HADOOP_", "PULSAR_")
FOREIGN_NAMES = frozenset({"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH"})


def wheel() -> Path:
    """The folder of the installed pyspark: a whole Spark."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@dataclass(frozen=True)
class SparkCluster:
    """A running master and its workers, each with a folder of its own."""

    url: str
    web_url: str
    master: Node
    workers: tuple[Node, ...]

    @property
    def conf(self) -> dict[str, str]:
        """What a job must ask for to get an executor on each worker."""
        return {
            "spark.executor.memory": EXECUTOR_MEMORY,
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.log.level": "INFO",  # of executors too, whose logs tell what they ran
        }

    def alive(self) -> int:
        """Workers that the master counts on."""
        try:
            answer = httpx2.get(f"{self.web_url}/json/", timeout=10, trust_env=False)
        except httpx2.TransportError:
            return 0
        # While it starts it answers with its start page, whatever it is asked.
        told = "json" in answer.headers.get("content-type", "")
        return int(answer.json()["aliveworkers"]) if told else 0

    def said(self, worker: int) -> str:
        """What the executors on this worker have logged, of all applications so far."""
        logs = sorted((self.workers[worker].folder / "work").glob("app-*/*/std*"))
        return "\n".join(log.read_text("utf-8", "replace") for log in logs)

    def tasks(self) -> list[int]:
        """How many tasks each worker has run so far."""
        return [
            len(re.findall(r"Finished task \S+ in stage", self.said(n)))
            for n in range(len(self.workers))
        ]


@contextlib.contextmanager
def spark_cluster(folder: Path, *, home: Path | None = None) -> Iterator[SparkCluster]:
    """A master and two workers of one core each for the with-block.

    home: of another Spark than the installed one.
    """
    home = home or wheel()
    port, web_port, *worker_ports = free_ports(2 + 2 * WORKERS)
    url = f"spark://{HOST}:{port}"
    master = _node(
        home, folder / "master", MASTER_CLASS,
        ("--host", HOST, "--port", str(port), "--webui-port", str(web_port)),
    )  # fmt: skip
    workers = []
    for number in range(WORKERS):
        under = folder / f"worker{number}"
        own, web = worker_ports[2 * number : 2 * number + 2]
        workers.append(
            _node(
                home, under, WORKER_CLASS,
                ("--host", HOST, "--port", str(own), "--webui-port", str(web), "--cores", "1",
                 "--memory", WORKER_MEMORY, "--work-dir", str(under / "work"), url),
            )
        )  # fmt: skip
    cluster = SparkCluster(url, f"http://{HOST}:{web_port}", master, tuple(workers))
    with _running([master, *workers]):
        master.wait(lambda: listens(port) and listens(web_port))
        for worker in workers:
            worker.start()
        master.wait(lambda: cluster.alive() == WORKERS)
        yield cluster


@dataclass(frozen=True)
class ConnectServer:
    """A running Spark Connect server; it asks nobody for a name."""

    url: str
    server: Node


@contextlib.contextmanager
def connect_server(
    folder: Path, *, master: str = "local[2]", conf: Mapping[str, str] | None = None
) -> Iterator[ConnectServer]:
    """A Spark Connect server for the with-block; it runs its jobs on `master`."""
    (port,) = free_ports(1)
    settings = {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    } | dict(conf or {})
    said = [word for name, text in settings.items() for word in ("--conf", f"{name}={text}")]
    server = _node(
        wheel(), folder, "org.apache.spark.deploy.SparkSubmit",
        ("--master", master, "--class", CONNECT_CLASS, *said, "spark-internal"),
        memory="640m",
    )  # fmt: skip
    with _running([server]):
        server.wait(lambda: listens(port))
        yield ConnectServer(f"sc://{HOST}:{port}", server)


@contextlib.contextmanager
def _running(nodes: Sequence[Node]) -> Iterator[None]:
    """Starts the first one; ends all of them."""
    try:
        nodes[0].start()
        yield
    finally:
        for node in reversed(nodes):
            node.kill()


def _node(
    home: Path, folder: Path, name: str, arguments: Sequence[str], memory: str = "160m"
) -> Node:
    """A process of Spark: this class, in an environment without us."""
    folder.mkdir(parents=True)
    environ = environment(folder) | {"SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": memory}
    # spark-class becomes Java itself; in a folder of its own, since Spark leaves things there.
    command = ("bash", "-c", 'cd "$0" && exec "$@"', str(folder), "bash",
               str(home / "bin" / "spark-class"), name, *arguments)  # fmt: skip
    return Node(folder, command, environ)


def environment(folder: Path) -> dict[str, str]:
    """What a process of the cluster finds: Java, and no Python."""
    temporary = folder / "tmp"
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    for name in ("python", "python3", Path(sys.executable).name):
        (programs / name).unlink(missing_ok=True)
        (programs / name).symlink_to(NO_PYTHON)
    kept = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(FOREIGN) and name not in FOREIGN_NAMES
    }
    return kept | {
        "JAVA_HOME": str(spark_java_home()),
        "PATH": f"{programs}:/usr/bin:/bin",
        "PYSPARK_PYTHON": NO_PYTHON,
        "SPARK_LOCAL_IP": HOST,
        "SPARK_CONF_DIR": str(folder),
        "SPARK_LOCAL_DIRS": str(temporary),
        "SPARK_LOG_DIR": str(temporary),
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_JAVA_OPTS": f"{JVM} -Djava.io.tmpdir={temporary}",
        "SPARK_SUBMIT_OPTS": f"{JVM} -Djava.io.tmpdir={temporary}",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
    }
