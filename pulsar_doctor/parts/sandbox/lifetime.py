"""Starts and stops the sandbox: for one command, or until `sandbox stop`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.sandbox import distribution, ports, standalone, supervisor, versions
from pulsar_doctor.parts.sandbox.distribution import Say, alone, cache_folder, in_words, to_stderr
from pulsar_doctor.parts.sandbox.standalone import Sandbox

__all__ = ["Sandbox", "connected", "outlives", "running", "start", "status", "stop"]

BATCH_INDEX_ACKS = {"acknowledgmentAtBatchIndexLevelEnabled": "true"}
STOP_SECONDS = 30.0
PATHS = ("home", "java_home", "data", "log")


@contextlib.contextmanager
def connected(settings: Settings, say: Say = to_stderr) -> Iterator[Settings]:
    """Settings that lead to the sandbox where --sandbox was given; else the same settings."""
    if not settings.sandbox:
        yield settings
        return
    with running(settings.pulsar_home, say=say) as sandbox:
        yield replace(settings, service_url=sandbox.service_url, admin_url=sandbox.admin_url)


@contextlib.contextmanager
def running(
    pulsar_home: Path | None = None,
    *,
    batch_index_acks: bool = False,
    reuse: bool = True,
    conf: Mapping[str, str] | None = None,
    data: Path | None = None,
    version: str | None = None,
    say: Say = to_stderr,
) -> Iterator[Sandbox]:
    """The sandbox that stays, where one fits and `reuse`; else one for the with-block only.

    conf: settings of standalone.conf, over ours. data: a folder that is kept; the next sandbox on
    it has the same topics and, where they are still free, the same ports. version: of Apache
    Pulsar, where no pulsar_home is named; by default versions.DEFAULT.
    Raises DoctorError where Pulsar or Java cannot be had, or the broker does not become healthy.
    """
    wanted = _wanted(conf, batch_index_acks)
    standing = _standing() if reuse and data is None else None
    if standing and standing.fits(wanted, _named(pulsar_home, version)):
        yield standing.sandbox
        return
    sandbox, process = standalone.launch(_plan(pulsar_home, data, wanted, version, say), say)
    try:
        yield sandbox
    finally:
        supervisor.end(process)


def start(
    pulsar_home: Path | None = None,
    *,
    batch_index_acks: bool = False,
    conf: Mapping[str, str] | None = None,
    data: Path | None = None,
    version: str | None = None,
    say: Say = to_stderr,
) -> Sandbox:
    """Starts the sandbox that stays until `stop`, or gives the one that runs already.

    Raises DoctorError as `running` does, and where the one that runs has other settings.
    """
    wanted = _wanted(conf, batch_index_acks)
    cache = cache_folder()
    with in_words(cache), alone(cache / "start.lock", lambda: say("another sandbox is starting")):
        if standing := _standing():
            return _same(standing, wanted, _named(pulsar_home, version), data)
        plan = _plan(pulsar_home, data, wanted, version, say)
        sandbox, process = standalone.launch(plan, say)
        try:
            _remember(StandingSandbox(sandbox, process.pid, plan.lock, dict(plan.conf)))
            supervisor.tell(process, supervisor.STAY)
        except BaseException:
            supervisor.end(process)
            raise
        process.returncode = 0  # It outlives us: nobody here waits for it.
        return sandbox


def stop() -> bool:
    """Ends the sandbox that stays; False where none runs. Raises DoctorError where it will not."""
    standing = _standing()
    if standing is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(standing.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while supervisor.lives(standing.lock):
        if time.monotonic() > deadline:
            raise DoctorError(f"the sandbox does not end; look at process {standing.pid}")
        time.sleep(0.05)
    _state_file().unlink(missing_ok=True)
    return True


def status() -> Sandbox | None:
    """The sandbox that stays, or None where none runs."""
    standing = _standing()
    return standing.sandbox if standing else None


def outlives(settings: Settings) -> bool:
    """Whether the broker of these settings is there when we have ended."""
    standing = _standing() if settings.sandbox else None
    return not settings.sandbox or (
        standing is not None and standing.sandbox.service_url == settings.service_url
    )


@dataclass(frozen=True, slots=True)
class StandingSandbox:
    """The sandbox that stays, as its file remembers it; `pid` is its supervisor's."""

    sandbox: Sandbox
    pid: int
    lock: Path
    conf: dict[str, str]

    def fits(self, wanted: Mapping[str, str], home: Path | None) -> bool:
        """Whether it has these settings and, if one is named, this distribution."""
        same_home = home is None or home.absolute() == self.sandbox.home
        return same_home and wanted.items() <= self.conf.items()


def _wanted(conf: Mapping[str, str] | None, batch_index_acks: bool) -> dict[str, str]:
    return (BATCH_INDEX_ACKS if batch_index_acks else {}) | dict(conf or {})


def _named(home: Path | None, version: str | None) -> Path | None:
    """The folder of the Pulsar that was named, in whichever way; None: any will do."""
    return versions.home_of(version) if home is None and version else home


def _plan(
    home: Path | None, data: Path | None, conf: Mapping[str, str], version: str | None, say: Say
) -> standalone.StandalonePlan:
    ports.require_free(conf)  # before a download
    java_home = distribution.java_home()
    return standalone.plan(versions.pulsar_home(home, say, version), java_home, data, conf)


def _same(
    standing: StandingSandbox, wanted: Mapping[str, str], home: Path | None, data: Path | None
) -> Sandbox:
    same_data = data is None or data.absolute() == standing.sandbox.data
    if same_data and standing.fits(wanted, home):
        return standing.sandbox
    raise DoctorError(
        "a sandbox with other settings runs already; `pulsar-doctor sandbox stop` ends it"
    )


def _state_file() -> Path:
    return cache_folder() / "sandbox.json"


def _remember(standing: StandingSandbox) -> None:
    beside = _state_file().with_suffix(".new")
    beside.write_text(json.dumps(asdict(standing), default=str, indent=2), "utf-8")
    beside.replace(_state_file())


def _standing() -> StandingSandbox | None:
    try:
        state: dict[str, Any] = json.loads(_state_file().read_text("utf-8"))
        where = state["sandbox"]
        sandbox = Sandbox(**(where | {name: Path(where[name]) for name in PATHS}))
        standing = StandingSandbox(
            sandbox, int(state["pid"]), Path(state["lock"]), dict(state["conf"])
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return standing if supervisor.lives(standing.lock) else None
