"""Captures in the background, for `examine` and `bundle`.

Of a process, the connections that are there when it begins, on the ports of their other ends.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.evidence.process_report import TcpConnection
from pulsar_doctor.ledger.consumers import Subscription
from pulsar_doctor.parts.capture.asking import BrokerPoll
from pulsar_doctor.parts.capture.following import CaptureFollowing
from pulsar_doctor.parts.capture.interface import ANY, PORTS_MOST, Interface
from pulsar_doctor.parts.capture.reported import ConsumerSample
from pulsar_doctor.parts.capture.running import RunningCapture
from pulsar_doctor.parts.capture.writing import TraceWriter
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wording.addresses import shown

USUAL_PORTS = (6650, 6651)
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CapturedPart:
    """Which packets: of connections to these ports, of these clients; none: of all clients."""

    ports: Sequence[int]
    clients: Sequence[str] = ()

    @classmethod
    def of(cls, connections: Collection[TcpConnection]) -> CapturedPart:
        """The connections that a process has made itself, those to the likeliest ports first.

        Who listens has many connections on one port of its own: others have made those.
        """
        own = Counter(each.local[1] for each in connections)
        ports = {each.remote[1] for each in connections if own[each.local[1]] == 1}
        likeliest = sorted(ports, key=lambda port: (port not in USUAL_PORTS, port))[:PORTS_MOST]
        return cls(likeliest, [shown(each.local) for each in connections])


class BackgroundCapture:
    """A running capture; a context manager. say: hears what is wrong with it.

    topics: topics with the consumers to read from the broker; none: those at these addresses.
    folder: keeps the trace; None: it ends with the capture. Raises DoctorError where packets may
    not be read, or cannot be kept.
    """

    def __init__(
        self,
        part: CapturedPart,
        settings: Settings,
        topics: Collection[str],
        say: Say,
        folder: Path | None = None,
    ) -> None:
        self._say = say
        self._over = threading.Event()
        self._error: DoctorError | None = None
        self._wires: Sequence[Subscription] | None = None
        with ExitStack() as stack:
            self._interface = stack.enter_context(Interface(ANY, part.ports))
            if folder is None:
                temporary = tempfile.TemporaryDirectory(prefix="pulsar-doctor-examine-")
                folder = Path(stack.enter_context(temporary), "examined.ptrace")
            self._folder = folder
            self._writer = stack.enter_context(TraceWriter(folder, {"files": [ANY]}))
            samples = SimpleQueue[ConsumerSample]()
            self._running = RunningCapture(
                self._writer,
                lambda out: CaptureFollowing(out, part.ports, part.clients),
                samples=samples,
                whole_topics=bool(topics),
            )
            broker = BrokerPoll(settings, topics, self._running.addresses, samples, lambda _: None)
            stack.callback(broker.close)
            self._running.before_end = broker.close
            self._thread = threading.Thread(target=self._work, daemon=True, name="capture")
            self._thread.start()
            stack.callback(self._end)
            self._stack = stack.pop_all()

    def __enter__(self) -> BackgroundCapture:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def wires(self) -> Sequence[Subscription]:
        """The capture ends; what it has shown of each subscription that has a name."""
        if self._wires is None:
            self._wires = self._read()
        return self._wires

    def _read(self) -> Sequence[Subscription]:
        self._end()
        try:
            if self._error is not None:
                raise self._error
            self._running.finish()
            self._writer.close()
            return open_trace(self._folder, self._say).timeline().subscriptions()
        except DoctorError as error:
            self._say(f"its packets could not be read to the end: {error}")
            return ()

    def _end(self) -> None:
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        try:
            for packet in self._interface.packets():
                if packet is not None:
                    self._running.packet(packet)
                else:
                    now_ns = time.time_ns()
                    self._running.pass_time(now_ns)
                    self._writer.pass_time(now_ns)
                if self._over.is_set():
                    return
        except DoctorError as error:
            self._error = error
