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
    """Settings with the sandbox's addresses if --sandbox is given; else the same settings."""
    if not settings.sandbox:
        yield settings
        return
    with running(settings.pulsar_home, say=say) as sandbox:
        yield replace(settings, service_url=sandbox.service_url, admin_url=sandbox.admin_url)


@contextlib.contextmanager
def running(
    pulsar_home: Path | None = None,
    *,
    reuse: bool = True,
    conf: Mapping[str, str] | None = None,
    data: Path | None = None,
    version: str | None = None,
    say: Say = to_stderr,
) -> Iterator[Sandbox]:
    """The background sandbox if `reuse` and it fits; else one for the with-block only.

    conf: settings of standalone.conf, over ours. data: a folder that is kept; the next sandbox on
    it has the same topics and, where they are still free, the same ports. version: of Apache
    Pulsar, if no pulsar_home is given; by default versions.DEFAULT.
    Raises DoctorError if Pulsar or Java is missing, or the broker does not become healthy.
    """
    wanted = conf or {}
    background = _background() if reuse and data is None else None
    if background and background.fits(wanted, _named(pulsar_home, version)):
        yield background.sandbox
        return
    sandbox, process = standalone.launch(_plan(pulsar_home, data, wanted, version, say), say)
    try:
        yield sandbox
    finally:
        supervisor.end(process)


def start(
    pulsar_home: Path | None = None,
    *,
    conf: Mapping[str, str] | None = None,
    data: Path | None = None,
    version: str | None = None,
    say: Say = to_stderr,
) -> Sandbox:
    """Starts the background sandbox, which runs until `stop`, or returns the one that runs.

    Raises DoctorError as `running` does, and if the one that runs has other settings.
    """
    wanted = conf or {}
    cache = cache_folder()
    with in_words(cache), alone(cache / "start.lock", lambda: say("another sandbox is starting")):
        if background := _background():
            return _same(background, wanted, _named(pulsar_home, version), data)
        plan = _plan(pulsar_home, data, wanted, version, say)
        sandbox, process = standalone.launch(plan, say)
        try:
            _remember(BackgroundSandbox(sandbox, process.pid, plan.lock, dict(plan.conf)))
            supervisor.tell(process, supervisor.STAY)
        except BaseException:
            supervisor.end(process)
            raise
        process.returncode = 0  # It outlives us: nobody here waits for it.
        return sandbox


def stop() -> bool:
    """Ends the background sandbox; False if none runs. Raises DoctorError if it does not end."""
    background = _background()
    if background is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(background.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while supervisor.lives(background.lock):
        if time.monotonic() > deadline:
            raise DoctorError(f"the sandbox does not end; look at process {background.pid}")
        time.sleep(0.05)
    _state_file().unlink(missing_ok=True)
    return True


def status() -> Sandbox | None:
    """The background sandbox, or None if none runs."""
    background = _background()
    return background.sandbox if background else None


def outlives(settings: Settings) -> bool:
    """Whether the broker of these settings runs on after this program."""
    background = _background() if settings.sandbox else None
    return not settings.sandbox or (
        background is not None and background.sandbox.service_url == settings.service_url
    )


@dataclass(frozen=True, slots=True)
class BackgroundSandbox:
    """The background sandbox as its state file describes it; `pid` is its supervisor's."""

    sandbox: Sandbox
    pid: int
    lock: Path
    conf: dict[str, str]

    def fits(self, wanted: Mapping[str, str], home: Path | None) -> bool:
        """Whether the sandbox has these settings and, if one is given, this distribution."""
        same_home = home is None or home.absolute() == self.sandbox.home
        return same_home and wanted.items() <= self.conf.items()


def _named(home: Path | None, version: str | None) -> Path | None:
    """The distribution that a folder or a version names; None: any will do."""
    return versions.home_of(version) if home is None and version else home


def _plan(
    home: Path | None, data: Path | None, conf: Mapping[str, str], version: str | None, say: Say
) -> standalone.StandalonePlan:
    ports.require_free(conf)  # before a download
    java_home = distribution.java_home()
    return standalone.plan(versions.pulsar_home(home, say, version), java_home, data, conf)


def _same(
    background: BackgroundSandbox, wanted: Mapping[str, str], home: Path | None, data: Path | None
) -> Sandbox:
    same_data = data is None or data.absolute() == background.sandbox.data
    if same_data and background.fits(wanted, home):
        return background.sandbox
    raise DoctorError(
        "a sandbox with other settings runs already; `pulsar-doctor sandbox stop` ends it"
    )


def _state_file() -> Path:
    return cache_folder() / "sandbox.json"


def _remember(background: BackgroundSandbox) -> None:
    beside = _state_file().with_suffix(".new")
    beside.write_text(json.dumps(asdict(background), default=str, indent=2), "utf-8")
    beside.replace(_state_file())


def _background() -> BackgroundSandbox | None:
    try:
        state: dict[str, Any] = json.loads(_state_file().read_text("utf-8"))
        where = state["sandbox"]
        sandbox = Sandbox(**(where | {name: Path(where[name]) for name in PATHS}))
        background = BackgroundSandbox(
            sandbox, int(state["pid"]), Path(state["lock"]), dict(state["conf"])
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return background if supervisor.lives(background.lock) else None
