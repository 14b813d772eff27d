"""pulsar-doctor tap: sit between any client and its broker, and write down what passes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pulsar_doctor.cli._options import (
    DURATION,
    connection_options,
    say,
    set_option,
    settings,
    trace_option,
)

if TYPE_CHECKING:
    import subprocess

    from pulsar_doctor.tap import Relay

EPILOG = """\b
Examples:
  pulsar-doctor tap --listen 127.0.0.1:6651 --trace billing.ptrace
  pulsar-doctor --service-url pulsar://broker:6650 tap
  pulsar-doctor --sandbox tap --trace t.ptrace -- python my_consumer.py {service_url}
"""
OBSERVER_PAUSE_SECONDS = 1.0
LOOK_SECONDS = 0.2


@click.command(epilog=EPILOG, context_settings={"ignore_unknown_options": False})
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:6651",
    show_default=True,
    help="Where clients connect; port 0 takes a free one. Loopback only.",
)
@trace_option
@click.option(
    "--seal-every",
    type=DURATION,
    default="60s",
    show_default=True,
    help="A Parquet segment at least so often.",
)
@set_option
@connection_options
@click.argument("cmd", nargs=-1, type=click.UNPROCESSED)
def command(
    listen: str,
    trace_dir: Path | None,
    seal_every: float,
    changes: tuple[str, ...],
    cmd: tuple[str, ...],
) -> int:
    """Relays a client's connections to the broker and records every command.

    Point the client at the address that is printed, whatever its language. Traffic passes
    unchanged; what is written down holds no payload, key or credential. Ends with Ctrl-C or
    SIGTERM, or with CMD where one is given (it finds the address in PULSAR_SERVICE_URL, and in
    place of {service_url} in its arguments), and then says whether a consumer stood still.
    """  # fmt: skip
    import tempfile
    from contextlib import ExitStack

    from pulsar_doctor.diagnosis import limits_of
    from pulsar_doctor.rules import load  # a wrong --set is said before anything starts

    limits_of(load(), changes)
    where = settings()
    with ExitStack() as stack:
        if where.sandbox:
            from pulsar_doctor.sandbox import connected

            where = stack.enter_context(connected(where, say))
        if trace_dir is None:
            own = tempfile.TemporaryDirectory(prefix="pulsar-doctor-")
            folder = Path(stack.enter_context(own)) / "trace"
        else:
            folder = trace_dir
        code = _tap(where.service_url, folder, listen, seal_every, cmd)
        return code or _verdict(folder, changes)


def _tap(
    service_url: str, folder: Path, listen: str, seal_every: float, cmd: tuple[str, ...]
) -> int:
    from pulsar_doctor.tap import relaying

    with relaying(service_url, folder, listen=listen, seal_every_seconds=seal_every) as relay:
        click.echo(relay.service_url)
        say(f"tapping {service_url}; the trace is in {folder}; Ctrl-C ends it")
        observer = _Observer(folder)
        try:
            return _run(relay, observer, cmd)
        finally:
            relay.stop()
            observer.finish()


class _Observer:
    """The observer as a process of its own: it may die, the traffic does not notice."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        import subprocess
        import sys

        command = [sys.executable, "-m", "pulsar_doctor.observer", str(self._folder)]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)

    def look_after(self) -> None:
        """Starts it again where it has died; it goes on where the journal stands."""
        import time

        if self._process.poll() is not None:
            say(f"the observer ended with {self._process.returncode}; starting it again")
            time.sleep(OBSERVER_PAUSE_SECONDS)
            self._process = self._start()

    def finish(self) -> None:
        """Waits until it has sealed what the relay left."""
        self._process.wait()


def _run(relay: Relay, observer: _Observer, cmd: tuple[str, ...]) -> int:
    import os
    import signal
    import subprocess
    import time

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    child = None
    if cmd:
        arguments = [part.replace("{service_url}", relay.service_url) for part in cmd]
        environ = {**os.environ, "PULSAR_SERVICE_URL": relay.service_url}
        child = subprocess.Popen(arguments, env=environ)
    try:
        while child is None or child.poll() is None:
            time.sleep(LOOK_SECONDS)
            observer.look_after()
            relay.check()
    except KeyboardInterrupt:  # the normal end of a tap: the verdict's code counts
        if child is not None:
            child.terminate()
            child.wait()
        return 0
    return 0 if child is None else child.returncode


def _verdict(folder: Path, changes: tuple[str, ...]) -> int:
    from pulsar_doctor.diagnosis import Evidence, diagnose, exit_code, limits_of
    from pulsar_doctor.report import verdict
    from pulsar_doctor.rules import load
    from pulsar_doctor.sealing import open_trace

    rules = load()
    limits = limits_of(rules, changes)
    subscriptions = open_trace(folder).timeline().subscriptions()
    diagnoses = [diagnose(Evidence(wire), rules, limits) for wire in subscriptions]
    if not diagnoses:
        say("no consumer came through the tap")
        return 0
    verdict.print_diagnoses(diagnoses)
    return exit_code(diagnoses, "stalled")
