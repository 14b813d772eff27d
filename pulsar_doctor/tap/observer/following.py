"""The process that understands: follows a trace's journals, keeps the ledgers, seals segments.

Nothing that happens here reaches the traffic. If it dies, another observer goes on where the
journals stand: the sealed parts are done, the journals behind them are read again from their start.

As a process, `python -m pulsar_doctor.tap.observer DIR`, it works until the relay has ended. Ctrl-C
reaches the relay too, which ends, so it is not heeded here; SIGTERM ends it at once. With `--tell`
it also judges, and speaks with its parent over stdin and stdout: see telling.py.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pulsar_doctor.errors import DoctorError
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.tap.observer.channel import Channel
from pulsar_doctor.tap.observer.events import ASKS, Begin
from pulsar_doctor.tap.observer.telling import Teller
from pulsar_doctor.trace import folder
from pulsar_doctor.trace.sealing import Sealer
from pulsar_doctor.wire.columns import Row

POLL_SECONDS = 0.1
LOCK_WAIT_SECONDS = 5.0  # an observer that was killed lets go of the lock at once, a reader soon
RELAY_WAIT_SECONDS = 10.0
TELL = "--tell"


class Observer:
    """Follows one trace; holds the right to seal it for its life.

    on_row: called with each row once its ledger is known; it must not change the row. After a
    restart the rows of the journals that are not sealed come again. Raises BeingSealedError where
    another process seals this trace.
    """

    def __init__(self, trace_dir: Path, on_row: Callable[[Row], object] | None = None) -> None:
        self._sealer = Sealer(trace_dir, on_row, LOCK_WAIT_SECONDS)

    @property
    def timeline(self) -> Timeline:
        """The ledgers after the last row."""
        return self._sealer.timeline

    @property
    def sealed(self) -> int:
        """The last part that is sealed; 0 before the first."""
        return self._sealer.sealed

    @property
    def expired_rows(self) -> int:
        """Rows that a ring has dropped."""
        return self._sealer.expired_rows

    @property
    def unread_bytes(self) -> int:
        """Bytes of the journals that it has not read yet."""
        return self._sealer.unread_bytes

    @property
    def trouble(self) -> str | None:
        """Why the disk refuses to have the trace sealed; None where it does not."""
        return self._sealer.trouble

    def poll(self) -> int:
        """Reads what the journal has gained, seals what is complete; how many rows came."""
        return self._sealer.follow()

    def keep(self, reason: str, through: int) -> Path | None:
        """Keeps what a ring holds, up to this part at least, as a trace of its own, and says where.

        None: that part is not sealed yet. reason: a few words without secrets. Raises OSError where
        the disk refuses.
        """
        return self._sealer.keep(reason, through)

    def finish(self) -> int:
        """Reads to the end and seals the rest, once the relay has ended; how many rows came."""
        return self._sealer.finish()

    def close(self) -> None:
        """Stops where it stands; whoever comes next reads the unsealed journals again."""
        self._sealer.close()


def follow(trace_dir: Path, teller: Teller | None = None) -> None:
    """Observes a trace until its relay has ended, then seals the rest.

    teller: is shown each row, and speaks with whoever started this process.
    """
    folder.read_meta(trace_dir)
    _wait_for_relay(trace_dir)
    observer = Observer(trace_dir, teller.row if teller else None)
    pause = teller.wait if teller else time.sleep
    try:
        while folder.is_live(trace_dir):
            if teller:
                teller.hear()
            rows = observer.poll()
            if teller:
                teller.caught_up(observer)
            if not rows:
                pause(POLL_SECONDS)
        observer.finish()
        if teller:
            teller.end(observer)
    finally:
        observer.close()


def _wait_for_relay(trace_dir: Path) -> None:
    until = time.monotonic() + RELAY_WAIT_SECONDS
    lock = trace_dir / folder.RELAY_LOCK
    while not lock.exists() and not folder.journals(trace_dir) and time.monotonic() < until:
        time.sleep(POLL_SECONDS)


def _teller() -> Teller:
    """The first line of stdin says how to work; what follows is read as it comes."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(0, 1)):
        line += byte
    begin = ASKS.of_line(line)
    return Teller(Channel(0, 1), begin if isinstance(begin, Begin) else Begin())


def main(arguments: list[str]) -> int:
    """The process; its exit code is that of the error, if any, which it says on stderr."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        follow(Path(arguments[0]), _teller() if TELL in arguments[1:] else None)
    except DoctorError as error:
        print(f"pulsar-doctor: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"pulsar-doctor: the trace cannot be sealed: {error}", file=sys.stderr)
        return DoctorError.exit_code
    return 0
