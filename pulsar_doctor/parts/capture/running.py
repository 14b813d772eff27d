"""Runs a capture: reads packets, writes a trace, and names its consumers where possible.

What the broker says is read between two packets, once it is old enough to be held against them; see
naming.py. Without anybody who says so nothing is looked at but frames.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from queue import SimpleQueue

from pulsar_doctor.parts.capture.connections import TcpEnd
from pulsar_doctor.parts.capture.files import Packet
from pulsar_doctor.parts.capture.following import CaptureFollowing
from pulsar_doctor.parts.capture.listening import CaptureListener
from pulsar_doctor.parts.capture.naming import Naming
from pulsar_doctor.parts.capture.packets import address_text
from pulsar_doctor.parts.capture.reported import ConsumerSample, plain_address
from pulsar_doctor.parts.capture.writing import TraceWriter

NOWHERE: TcpEnd = (bytes(4), 0)


class RunningCapture:
    """One capture; changes in place. follow: makes the reader of packets for a listener.

    samples: the broker's statistics, as they come; None: nobody requests them. whole_topics: they
    are of topics that were named, of which all consumers are wanted, silent ones too.
    """

    def __init__(
        self,
        writer: TraceWriter,
        follow: Callable[[CaptureListener], CaptureFollowing],
        *,
        samples: SimpleQueue[ConsumerSample] | None = None,
        whole_topics: bool = False,
    ) -> None:
        self._samples = samples
        self._whole_topics = whole_topics
        self._naming = None if samples is None else Naming(writer)
        self.following = follow(self._naming or writer)  # what became of the packets
        self.before_end: Callable[[], object] | None = None  # before the last samples are read
        self._finished = False

    def addresses(self) -> set[str]:
        """The addresses of the captured clients; another thread may read them."""
        return {address_text(each.sides.client) for each in self.following.connections()}

    @property
    def mistaken(self) -> int:
        """Names of consumers that were taken back."""
        return 0 if self._naming is None else self._naming.mistaken

    def packet(self, packet: Packet) -> None:
        """One packet."""
        if self._naming is not None:
            self._read(packet.time_ns)
        self.following.packet(packet)

    def pass_time(self, now_ns: int) -> None:
        """Time went on, and no packet came."""
        self.following.pass_time(now_ns)
        if self._naming is not None:
            self._read(now_ns)

    def finish(self) -> None:
        """The capture ends; what was passed on until now is read."""
        if not self._finished and self.before_end is not None:
            self.before_end()
        if not self._finished and self._naming is not None:
            self._read(self.following.now_ns, at_end=True)
        self._finished = True
        self.following.finish()

    def _read(self, now_ns: int, *, at_end: bool = False) -> None:
        assert self._naming is not None
        assert self._samples is not None
        while not self._samples.empty():
            sample = self._samples.get()
            self._naming.sample(sample)
            if self._whole_topics:
                for consumer in sample.consumers:
                    self._expect(plain_address(consumer.of.address))
        if self._naming.due(now_ns) or at_end:
            self.following.pass_time(now_ns)
            self._naming.read(now_ns, self.following.connections(), at_end=at_end)

    def _expect(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        try:
            end = ip_address(host.strip("[]")).packed, int(port)
        except ValueError:
            return
        self.following.expect(end, NOWHERE)
