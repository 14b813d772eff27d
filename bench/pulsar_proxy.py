"""The distribution's own proxy, on loopback, as a peer to measure against."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pulsar_doctor.parts.sandbox.distribution import java_home
from pulsar_doctor.parts.sandbox.standalone import own_environment, with_settings
from pulsar_doctor.parts.sandbox.versions import pulsar_home

START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Proxy:
    """A running proxy."""

    port: int
    pid: int


@contextlib.contextmanager
def proxy(level: int, service_url: str, admin_url: str = "http://127.0.0.1:9") -> Iterator[Proxy]:
    """A proxy at this proxyLogLevel: 0 looks at nothing, 2 reads and logs every command."""
    home, java = pulsar_home(None), java_home()
    with tempfile.TemporaryDirectory(prefix="pulsar-doctor-proxy-") as folder:
        port, web = free_port(), free_port()
        template = (home / "conf" / "proxy.conf").read_text()
        conf = Path(folder) / "proxy.conf"
        settings = {
            "brokerServiceURL": service_url,
            "brokerWebServiceURL": admin_url,
            "bindAddress": "127.0.0.1",
            "advertisedAddress": "127.0.0.1",
            "clusterName": "bench",
            "servicePort": str(port),
            "webServicePort": str(web),
            "proxyLogLevel": str(level),
            "brokerProxyAllowedTargetPorts": "*",
            "brokerProxyAllowedIPAddresses": "127.0.0.1",
        }
        conf.write_text(with_settings(template, settings))
        environment = own_environment() | {
            "JAVA_HOME": str(java),
            "PULSAR_PROXY_CONF": str(conf),
            "PULSAR_MEM": "-Xms256m -Xmx512m -XX:MaxDirectMemorySize=512m",
            "PULSAR_GC_LOG": "-Xlog:disable",
            "PULSAR_LOG_DIR": folder,
            "OTEL_SDK_DISABLED": "true",
        }
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen(
                ["bash", str(home / "bin" / "pulsar"), "proxy"],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment,
                start_new_session=True,
            )  # fmt: skip
            try:
                wait_for(web, process, Path(folder) / "log")  # the last one that it opens
                yield Proxy(port, process.pid)
            finally:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def free_port() -> int:
    """One that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until it listens."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise SystemExit(f"the proxy does not come up:\n{log.read_text()[-2000:]}")
