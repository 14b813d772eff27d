"""Follows a trace's journals: updates the accounts and seals segments.

Nothing that happens here reaches the traffic. If it dies, another observer continues where the
journals are: the sealed parts are done, the journals behind them are read again from their start.

As a process, `python -m pulsar_doctor.parts.tap.observer DIR`, it works until the relay has ended.
Ctrl-C reaches the relay too, which ends, so it is not heeded here; SIGTERM ends it at once. With
`--tell` it also judges, and speaks with its parent over stdin and stdout: see telling.py.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path

from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.tap.observer.channel import Channel
from pulsar_doctor.parts.tap.observer.events import ASKS, Begin
from pulsar_doctor.parts.tap.observer.telling import Teller
from pulsar_doctor.parts.tap.relay.lines import first_line
from pulsar_doctor.trace import folder
from pulsar_doctor.trace.sealing import Sealer
from pulsar_doctor.wording.gate import complain

POLL_SECONDS = 0.1
LOCK_WAIT_SECONDS = 5.0  # an observer that was killed lets go of the lock at once, a reader soon
RELAY_WAIT_SECONDS = 10.0
TELL = "--tell"


def follow(trace_dir: Path, teller: Teller | None = None) -> None:
    """Observes a trace until its relay has ended, then seals the rest.

    teller: is shown each row, and speaks with whoever started this process.
    """
    folder.read_meta(trace_dir)
    _wait_for_relay(trace_dir)
    sealer = Sealer(trace_dir, teller.row if teller else None, LOCK_WAIT_SECONDS)
    if teller:
        teller.begin(sealer)
    pause = teller.wait if teller else time.sleep
    try:
        while folder.is_live(trace_dir):
            if teller:
                teller.hear()
            rows = sealer.follow()
            if teller:
                teller.caught_up(sealer)
            if not rows:
                pause(POLL_SECONDS)
        sealer.finish()
        if teller:
            teller.end(sealer)
    finally:
        sealer.close()


def _wait_for_relay(trace_dir: Path) -> None:
    until = time.monotonic() + RELAY_WAIT_SECONDS
    lock = trace_dir / folder.RELAY_LOCK
    while not lock.exists() and not folder.journals(trace_dir) and time.monotonic() < until:
        time.sleep(POLL_SECONDS)


def _teller() -> Teller:
    """The first line of stdin says how to work; what follows is read as it comes."""
    begin = ASKS.of_line(first_line())
    return Teller(Channel(0, 1), begin if isinstance(begin, Begin) else Begin())


def main(arguments: list[str]) -> int:
    """The process; its exit code is that of the error, if any, which it says on stderr."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        follow(Path(arguments[0]), _teller() if TELL in arguments[1:] else None)
    except DoctorError as error:
        complain(str(error))
        return error.exit_code
    except OSError as error:
        complain(f"the trace cannot be sealed: {error}")
        return DoctorError.exit_code
    return 0
