"""A real cluster on this machine: ZooKeeper, one bookie and as many brokers as a test asks for.

Every process is kept as the sandbox keeps its broker: free ports on loopback, small heaps, and an
end when the test ends, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from pulsar_doctor.parts.sandbox import distribution, supervisor, versions
from pulsar_doctor.parts.sandbox.ports import HOST
from pulsar_doctor.parts.sandbox.standalone import READY, loopback, own_environment, with_settings
from tests.support import eventually

PARTITIONS = 8  # of `partitioned`
EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
MODULAR = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
NAME = "pair"
BUNDLES = 8
MEMORY = "-Xms64m -Xmx{heap} -XX:MaxDirectMemorySize=256m"
START_SECONDS = 180.0
NO_PRESSURE = {
    "managedLedgerDefaultEnsembleSize": "1",
    "managedLedgerDefaultWriteQuorum": "1",
    "managedLedgerDefaultAckQuorum": "1",
    "managedLedgerCacheSizeMB": "32",
    "allowLoopback": "true",
    # Topics stay where the test put them.
    "loadBalancerAutoBundleSplitEnabled": "false",
    "loadBalancerSheddingEnabled": "false",
    "metadataStoreSessionTimeoutMillis": "6000",
}


@dataclass(eq=False)
class Node:
    """One process of the cluster, and how to start it again."""

    folder: Path
    command: tuple[str, ...]
    environ: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "tmp").mkdir(exist_ok=True)
        # Killed at once at the end: nobody wants the data.
        charge = supervisor.Charge(os.getpid(), self.command, (), grace_seconds=0)
        with (self.folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.process = supervisor.launch(charge, dict(self.environ), lock.fileno(), self.log)

    def kill(self) -> None:
        """Its end without a word to anybody, as when the machine is gone."""
        if self.process is not None:
            supervisor.end(self.process)
            self.process = None

    def wait(self, ready: Callable[[], bool]) -> None:
        def answers() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.tail()
            return ready()

        eventually(answers, START_SECONDS)

    def tail(self) -> str:
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-40:])


@dataclass(eq=False)
class Broker(Node):
    """One broker of the cluster."""

    port: int = 0
    web_port: int = 0
    token: str = ""

    @property
    def service_url(self) -> str:
        return f"pulsar://{HOST}:{self.port}"

    @property
    def admin_url(self) -> str:
        return f"http://{HOST}:{self.web_port}"

    @property
    def broker_id(self) -> str:
        """As `unload --destinationBroker` wants it."""
        return f"{HOST}:{self.web_port}"

    def healthy(self) -> bool:
        try:
            with self.admin() as admin:
                return all(admin.get(path).status_code == 200 for path in READY)
        except httpx2.HTTPError:
            return False

    def admin(self) -> httpx2.Client:
        """Its REST API."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return httpx2.Client(base_url=self.admin_url, headers=headers, timeout=60, trust_env=False)


@dataclass
class Cluster:
    """Brokers that share everything else."""

    home: Path
    java_home: Path
    brokers: list[Broker]
    load_manager: str

    @property
    def ports(self) -> set[int]:
        """Of the brokers, for clients."""
        return {broker.port for broker in self.brokers}

    def admin(self) -> httpx2.Client:
        """The REST API of the first broker."""
        return self.brokers[0].admin()

    def owner(self, topic: str) -> Broker:
        """The broker that owns a topic, as one that lives says."""
        path = topic.replace("://", "/")
        living = next(broker for broker in self.brokers if broker.process is not None)
        url = f"{living.admin_url}/lookup/v2/topic/{path}"
        answer = httpx2.get(url, timeout=60, trust_env=False, follow_redirects=True)
        answer.raise_for_status()
        (owner,) = (b for b in self.brokers if b.service_url == answer.json()["brokerUrl"])
        return owner

    def other(self, broker: Broker) -> Broker:
        return next(one for one in self.brokers if one is not broker)


def leader(brokers: Cluster) -> Broker | None:
    """The broker that decides who owns what, once all agree that there is one."""
    with brokers.admin() as admin:
        answer = admin.get("/admin/v2/brokers/leaderBroker")
    if answer.status_code != 200:
        return None
    named = answer.json()
    return next(
        (b for b in brokers.brokers if str(b.web_port) in (named.get("serviceUrl") or "")), None
    )


def new_namespace(brokers: Cluster) -> str:
    """A namespace of which no broker owns a part yet."""
    name = f"public/{secrets.token_hex(4)}"
    policies = {"bundles": {"numBundles": BUNDLES}, "replication_clusters": [NAME]}
    with brokers.admin() as admin:
        admin.put(f"/admin/v2/namespaces/{name}", json=policies).raise_for_status()
    return name


def place(brokers: Cluster, topic: str, broker: Broker) -> None:
    """Has the bundle of a topic unloaded to this broker."""
    with brokers.admin() as admin:
        path = topic.replace("://", "/")
        bundle = follow(admin, "GET", f"/lookup/v2/topic/{path}/bundle").text.strip('"')
        namespace = "/".join(topic.split("/")[2:4])
        url = f"/admin/v2/namespaces/{namespace}/{bundle}/unload"
        follow(admin, "PUT", url, params={"destinationBroker": broker.broker_id})
    eventually(lambda: brokers.owner(topic) is broker, 30)


def follow(admin: httpx2.Client, method: str, url: str, **more: Any) -> httpx2.Response:
    answer = admin.request(method, url, follow_redirects=True, **more)
    answer.raise_for_status()
    return answer


def partitioned(brokers: Cluster, namespace: str) -> str:
    """A partitioned topic of which each broker owns some partitions."""
    topic = f"persistent://{namespace}/spread"
    with brokers.admin() as admin:
        url = f"/admin/v2/{topic.replace('://', '/')}/partitions"
        admin.put(url, json=PARTITIONS).raise_for_status()
    parts = [f"{topic}-partition-{number}" for number in range(PARTITIONS)]
    owners = {part: brokers.owner(part) for part in parts}
    for broker in brokers.brokers:
        if broker not in owners.values():
            place(brokers, parts[0], broker)
    assert {brokers.owner(part).port for part in parts} == brokers.ports
    return topic


def free_ports(count: int) -> list[int]:
    """So many ports that nobody else has at the moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in sockets]


@contextlib.contextmanager
def cluster(
    folder: Path,
    *,
    load_manager: str = EXTENSIBLE,
    brokers: int = 2,
    conf: Callable[[int], Mapping[str, str]] = lambda number: {},
    token: str = "",
) -> Iterator[Cluster]:
    """A healthy cluster for the with-block.

    conf: settings of each broker's broker.conf, over ours. token: what its REST API wants to see.
    """
    home = versions.pulsar_home(None)
    java_home = distribution.java_home()
    zookeeper_port, bookie_port, *ports = free_ports(2 + 2 * brokers)
    store = f"{HOST}:{zookeeper_port}"
    nodes: list[Node] = []

    def node(name: str, template: str, settings: Mapping[str, str], heap: str) -> Node:
        under = folder / name
        under.mkdir(parents=True)
        text = (home / "conf" / template).read_text("utf-8")
        (under / template).write_text(with_settings(text, settings), "utf-8")
        variable = {"zookeeper": "PULSAR_ZK_CONF", "bookie": "PULSAR_BOOKKEEPER_CONF"}
        environ = environment(home, java_home, under, heap) | {
            variable.get(name, "PULSAR_BROKER_CONF"): str(under / template)
        }
        one = Node(
            under, ("bash", str(home / "bin" / "pulsar"), name.rstrip("0123456789")), environ
        )
        nodes.append(one)
        return one

    zookeeper = node(
        "zookeeper", "zookeeper.conf",
        {"dataDir": str(folder / "zookeeper" / "data"), "clientPort": str(zookeeper_port),
         "clientPortAddress": HOST, "admin.enableServer": "false", "forceSync": "no",
         "metricsProvider.className": "org.apache.zookeeper.metrics.impl.NullMetricsProvider"},
        "128m",
    )  # fmt: skip
    bookie = node(
        "bookie", "bookkeeper.conf",
        {"bookiePort": str(bookie_port), "allowLoopback": "true", "advertisedAddress": HOST,
         "listeningInterface": loopback(), "zkServers": store, "journalSyncData": "false",
         "journalDirectory": str(folder / "bookie" / "journal"),
         "ledgerDirectories": str(folder / "bookie" / "ledgers"),
         "statsProviderClass": "org.apache.bookkeeper.stats.NullStatsProvider",
         "autoRecoveryDaemonEnabled": "false", "diskUsageThreshold": "0.99",
         "dbStorage_writeCacheMaxSizeMb": "32", "dbStorage_readAheadCacheMaxSizeMb": "32",
         "dbStorage_rocksDB_writeBufferSizeMB": "4", "dbStorage_rocksDB_blockCacheSize": "8388608",
         "numReadWorkerThreads": "1", "numHighPriorityWorkerThreads": "1",
         "numJournalCallbackThreads": "1"},
        "160m",
    )  # fmt: skip
    pair: list[Broker] = []
    for number in range(brokers):
        port, web_port = ports[2 * number : 2 * number + 2]
        settings = NO_PRESSURE | {
            "metadataStoreUrl": f"zk:{store}", "configurationMetadataStoreUrl": f"zk:{store}",
            "clusterName": NAME, "bindAddress": HOST, "advertisedAddress": HOST,
            "brokerServicePort": str(port), "webServicePort": str(web_port),
            "loadManagerClassName": load_manager,
        }  # fmt: skip
        bare = node(f"broker{number}", "broker.conf", settings | dict(conf(number)), "256m")
        broker = Broker(bare.folder, bare.command, bare.environ, None, port, web_port, token)
        nodes[-1] = broker
        pair.append(broker)
    try:
        zookeeper.start()
        zookeeper.wait(lambda: listens(zookeeper_port))
        initialize(home, zookeeper.environ, store, pair[0])
        bookie.start()
        bookie.wait(lambda: listens(bookie_port))
        for broker in pair:
            broker.start()
        for broker in pair:
            broker.wait(broker.healthy)
        yield Cluster(home, java_home, pair, load_manager)
    finally:
        for one in reversed(nodes):
            one.kill()


@contextlib.contextmanager
def standalone(
    folder: Path, *, conf: Mapping[str, str] | None = None, token: str = ""
) -> Iterator[Broker]:
    """A broker on its own that keeps ports and messages when it is killed and started again.

    conf: settings of standalone.conf, over ours. token: what its REST API wants to see.
    """
    home, java_home = versions.pulsar_home(None), distribution.java_home()
    folder.mkdir(parents=True, exist_ok=True)
    port, web_port = free_ports(2)
    ours = {
        "bindAddress": HOST, "advertisedAddress": HOST, "listeningInterface": loopback(),
        "brokerServicePort": str(port), "webServicePort": str(web_port),
    }  # fmt: skip
    text = (home / "conf" / "standalone.conf").read_text("utf-8")
    (folder / "standalone.conf").write_text(with_settings(text, ours | dict(conf or {})), "utf-8")
    command = (
        *("bash", str(home / "bin" / "pulsar"), "standalone", "-nfw", "-nss"),
        *("--metadata-dir", str(folder / "metadata")),
        *("--bookkeeper-dir", str(folder / "bookkeeper"), "--bookkeeper-port", "0"),
    )
    environ = environment(home, java_home, folder, "384m") | {
        "PULSAR_STANDALONE_CONF": str(folder / "standalone.conf")
    }
    broker = Broker(folder, command, environ, None, port, web_port, token)
    try:
        broker.start()
        broker.wait(broker.healthy)
        yield broker
    finally:
        broker.kill()


def environment(home: Path, java_home: Path, folder: Path, heap: str) -> dict[str, str]:
    """What every process of the cluster finds."""
    memory = MEMORY.format(heap=heap)
    java = {"MEM": memory, "GC": "-XX:+UseSerialGC", "GC_LOG": "-Xlog:disable"}
    # A JVM a process on few cores: the quick compiler alone starts it sooner.
    extra = f"-Djava.io.tmpdir={folder / 'tmp'} -XX:-UsePerfData -XX:TieredStopAtLevel=1"
    return (
        own_environment()
        | {f"{kind}_{name}": text for kind in ("PULSAR", "BOOKIE") for name, text in java.items()}
        | {
            "JAVA_HOME": str(java_home),
            "PULSAR_EXTRA_OPTS": extra,
            "BOOKIE_EXTRA_OPTS": extra,
            "PULSAR_LOG_DIR": str(folder / "tmp"),
            "OTEL_SDK_DISABLED": "true",
        }
    )


def initialize(home: Path, environ: Mapping[str, str], store: str, broker: Broker) -> None:
    """Writes into an empty ZooKeeper what the first bookie and broker look for."""
    run = subprocess.run(
        ["bash", str(home / "bin" / "pulsar"), "initialize-cluster-metadata", "--cluster", NAME,
         "--metadata-store", f"zk:{store}", "--configuration-metadata-store", f"zk:{store}",
         "--web-service-url", broker.admin_url, "--broker-service-url", broker.service_url],
        env=dict(environ), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]


def listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), 1).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":  # python -m tests.support.cluster FOLDER [modular]: one to play with
    import sys

    began = time.monotonic()
    chosen = MODULAR if sys.argv[2:] == ["modular"] else EXTENSIBLE
    with cluster(Path(sys.argv[1]), load_manager=chosen) as running:
        print(f"{time.monotonic() - began:.1f} s")
        for each in running.brokers:
            print(each.service_url, each.admin_url, flush=True)
        sys.stdin.read()
