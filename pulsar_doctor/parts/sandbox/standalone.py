"""Starts one broker on this machine and waits until it is healthy.

A supervisor removes the folder when the broker ends, unless somebody has named it. All ports are
on loopback: those that were requested, else free ones. Logs outlive their broker.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import httpx2

from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.sandbox import ports, supervisor
from pulsar_doctor.parts.sandbox.distribution import (
    Say,
    alone,
    cache_folder,
    in_words,
    own_folder,
    without_spaces,
)
from pulsar_doctor.parts.sandbox.ports import HOST, PORTS
from pulsar_doctor.trace.folder import for_owner

MEMORY = "-Xms128m -Xmx384m -XX:MaxDirectMemorySize=256m"
START_SECONDS = 120.0
GRACE_SECONDS = 15.0
PORT_TRIES = 3
LOGS_KEPT = 20
LAST_LINES = 15
EXCEPTION = re.compile(
    r"(?:Exception in thread \"[^\"]*\" )?((?:[a-z]\w*\.)+\w*(?:Exception|Error)\b.*)"
)
READY = ("/admin/v2/brokers/health", "/admin/v2/namespaces/public/default")
# What a user's shell may hold and the broker must not see: other ports, more memory, other logs.
FOREIGN = ("PULSAR_", "BOOKIE_", "BK_", "OTEL_")
FOREIGN_NAMES = frozenset(
    {"OPTS", "CLASSPATH", "JAVA_MAJOR_VERSION"}
    | {"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"}
)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Where a running broker is, and what its own tools need."""

    service_url: str
    admin_url: str
    home: Path
    java_home: Path
    data: Path
    log: Path


@dataclass(frozen=True, slots=True)
class StandalonePlan:
    """What a broker is to be, before it has ports; `named` is a folder that somebody keeps."""

    home: Path
    java_home: Path
    name: str
    named: Path | None
    conf: Mapping[str, str]

    @property
    def data(self) -> Path:
        """The broker's folder."""
        return self.named or _folders() / self.name

    @property
    def lock(self) -> Path:
        """Locked for as long as its supervisor lives; a named folder has one broker at a time."""
        return self.named / "lock" if self.named else _folders() / f"{self.name}.lock"

    @property
    def log(self) -> Path:
        """What the start script, Java and the broker say."""
        return cache_folder() / "logs" / f"{self.name}.log"


class DiedError(DoctorError):
    """The broker ended before it was healthy."""


def plan(home: Path, java_home: Path, data: Path | None, conf: Mapping[str, str]) -> StandalonePlan:
    """A plan with a name that nobody else has."""
    name = time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(3)
    named = without_spaces(data.absolute()) if data else None
    return StandalonePlan(home, java_home, name, named, dict(conf))


def launch(plan: StandalonePlan, say: Say) -> tuple[Sandbox, subprocess.Popen[bytes]]:
    """A healthy broker and the process that keeps it; on a taken port it tries other ones.

    Raises DoctorError with the end of the log where it does not become healthy.
    """
    for last in range(PORT_TRIES, 0, -1):
        say(f"starting Apache Pulsar from {plan.home}")
        began = time.monotonic()
        with in_words(plan.data):
            process, sandbox = _spawn(plan)
        try:
            _wait_until_healthy(sandbox, process)
        except DiedError:
            supervisor.end(process)
            if last == 1 or not ports.were_taken(plan.log):
                raise
            ports.forget(plan.data)
        except BaseException:
            supervisor.end(process)
            raise
        else:
            took = time.monotonic() - began
            say(f"healthy after {took:.1f} s: {sandbox.service_url}, log {plan.log}")
            return sandbox, process
    raise AssertionError("unreachable")


def own_environment() -> dict[str, str]:
    """Our environment without what would change Pulsar behind our back."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(FOREIGN) and name not in FOREIGN_NAMES
    }


def _folders() -> Path:
    return cache_folder() / "sandboxes"


def _spawn(plan: StandalonePlan) -> tuple[subprocess.Popen[bytes], Sandbox]:
    own_folder(plan.log.parent)
    with alone(cache_folder() / "sandboxes.lock"):
        _sweep()
        own_folder(_folders())
        (plan.data / "tmp").mkdir(parents=True, exist_ok=True)
        with open(plan.lock, "a", opener=for_owner) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DoctorError(f"another sandbox runs on the data in {plan.data}") from None
            sandbox = _write(plan, ports.of(plan.data, plan.conf))
            charge = _charge(plan)
            process = supervisor.launch(charge, _environment(plan), lock.fileno(), plan.log)
    return process, sandbox


def _sweep() -> None:
    """Removes what a crash of the machine left, and all logs but the newest."""
    for lock in _folders().glob("*.lock"):
        if not supervisor.lives(lock):
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            lock.unlink(missing_ok=True)
    logs = (cache_folder() / "logs").glob("*.log")
    for log in sorted(logs, key=lambda log: log.stat().st_mtime)[:-LOGS_KEPT]:
        log.unlink(missing_ok=True)


def _write(plan: StandalonePlan, at: Mapping[str, int]) -> Sandbox:
    """Writes both configurations; the sandbox that is to be."""
    service_url = f"pulsar://{HOST}:{at['broker']}"
    admin_url = f"http://{HOST}:{at['web']}"
    template = (plan.home / "conf" / "standalone.conf").read_text("utf-8")
    ours = {setting: str(at[name]) for name, (setting, _) in PORTS.items()} | {
        "bindAddress": HOST,
        "advertisedAddress": HOST,
        # The bookie listens on every interface unless it is given one.
        "listeningInterface": loopback(),
    }
    conf = with_settings(template, ours | dict(plan.conf))
    (plan.data / "standalone.conf").write_text(conf, "utf-8")
    client = f"brokerServiceUrl={service_url}\nwebServiceUrl={admin_url}\n"
    (plan.data / "client.conf").write_text(client, "utf-8")
    return Sandbox(service_url, admin_url, plan.home, plan.java_home, plan.data, plan.log)


def loopback() -> str:
    """The name of the loopback interface: lo on Linux, lo0 on macOS."""
    return next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")


def with_settings(template: str, settings: Mapping[str, str]) -> str:
    """A properties file with these settings in it, each once.

    Replaced in place: of a key that is there twice BookKeeper reads the first.
    """
    left = dict(settings)
    lines = []
    for line in template.splitlines():
        key = line.partition("=")[0].strip()
        lines.append(f"{key}={left.pop(key)}" if key in left else line)
    return "\n".join(lines + [f"{key}={value}" for key, value in left.items()]) + "\n"


def _charge(plan: StandalonePlan) -> supervisor.Charge:
    command = (
        *("bash", str(plan.home / "bin" / "pulsar"), "standalone", "-nfw", "-nss"),
        *("--metadata-dir", str(plan.data / "metadata")),
        *("--bookkeeper-dir", str(plan.data / "bookkeeper")),
        # Any free one; in a kept folder the bookie finds its last one in its own cookie.
        *("--bookkeeper-port", "0"),
    )
    gone = (plan.data / "tmp",) if plan.named else (plan.data,)
    return supervisor.Charge(
        owner=os.getpid(),
        command=command,
        remove=(*map(str, gone), str(plan.lock)),
        grace_seconds=GRACE_SECONDS if plan.named else 0,
    )


def _environment(plan: StandalonePlan) -> dict[str, str]:
    temporary = plan.data / "tmp"
    return own_environment() | {
        "JAVA_HOME": str(plan.java_home),
        "PULSAR_STANDALONE_CONF": str(plan.data / "standalone.conf"),
        "PULSAR_MEM": MEMORY,
        # Half the processor time of a start, and as many messages a second, on two cores.
        "PULSAR_GC": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "PULSAR_GC_LOG": "-Xlog:disable",
        "PULSAR_LOG_DIR": str(temporary),
        # Java unpacks native libraries into its temporary folder and, killed, leaves them there.
        "PULSAR_EXTRA_OPTS": f"-Djava.io.tmpdir={temporary} -XX:-UsePerfData "
        f"-XX:ErrorFile={plan.log.with_suffix('.crash.log')} -Dpulsar.allocator.exit_on_oom=true",
        "OTEL_SDK_DISABLED": "true",
    }


def _wait_until_healthy(sandbox: Sandbox, process: subprocess.Popen[bytes]) -> None:
    """Until the broker's health check answers ok and the default namespace is there."""
    deadline = time.monotonic() + START_SECONDS
    with httpx2.Client(base_url=sandbox.admin_url, timeout=10, trust_env=False) as client:
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise DiedError(_failure(sandbox.log, "ended before it was healthy"))
            if all(_answers(client, path) for path in READY):
                return
            time.sleep(0.1)
    raise DoctorError(_failure(sandbox.log, f"was not healthy after {START_SECONDS:.0f} s"))


def _answers(client: httpx2.Client, path: str) -> bool:
    try:
        return client.get(path).status_code == 200
    except httpx2.HTTPError:
        return False


def _failure(log: Path, what: str) -> str:
    lines = log.read_text("utf-8", "replace").splitlines()
    reason = f": {error}" if (error := _own_error(lines)) else ""
    # Without the frames of stack traces: fifteen of those would say nothing.
    lines = [line for line in lines if not line.startswith("\tat ")][-LAST_LINES:]
    return "\n  ".join((f"Apache Pulsar {what}{reason}; the end of its log {log}:", *lines))


def _own_error(lines: Sequence[str]) -> str | None:
    """The first exception that the broker logged as an error: later ones follow from it."""
    for before, line in pairwise(("", *lines)):
        found = EXCEPTION.match(line)
        if found and (" ERROR " in before or line.startswith("Exception in thread")):
            return found[1]
    return None
