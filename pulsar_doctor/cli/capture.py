"""pulsar-doctor capture: the ledger of clients that nobody prepared, from captured packets."""

from __future__ import annotations

import heapq
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import FileIO
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from pulsar_doctor.cli._options import SIZE, output_option, say, taking, talk_options
from pulsar_doctor.errors import DoctorError, InputError, needing
from pulsar_doctor.printing.gate import tell, tell_json, warn

if TYPE_CHECKING:
    from types import FrameType

    from pulsar_doctor.capture.files import FileCounts, Packet
    from pulsar_doctor.capture.following import CaptureFollowing

READ_BYTES = 256 * 1024
PIPE = Path("-")
EPILOG = """\b
Examples:
  pulsar-doctor capture incident.pcap --trace incident.ptrace
  tcpdump -U -w - 'tcp port 6650' | pulsar-doctor capture - --trace incident.ptrace
  kubectl exec POD -- tcpdump -U -w - | pulsar-doctor capture - --trace incident.ptrace
  pulsar-doctor stall-check --trace incident.ptrace

\b
Exit codes: 0 a trace was made; 2 wrong usage, or a capture that cannot be read; 3 nothing in it
could be read as Pulsar, or the trace could not be written; 130 interrupted.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRequest:
    """One call, as it was typed. files: PIPE is stdin."""

    files: tuple[Path, ...]
    ports: tuple[int, ...]
    client: str | None
    trace_dir: Path
    max_message_bytes: int
    output: Literal["table", "json"]


@click.command(epilog=EPILOG)
@click.option(
    "--port", "ports", metavar="N", type=click.IntRange(1, 65535), multiple=True,
    default=(6650,), show_default="6650", help="Where brokers listen; may be repeated.",
)  # fmt: skip
@click.option(
    "--client", metavar="ADDRESS",
    help="Only the connections of this client: an IP address, or ip:port.",
)  # fmt: skip
@click.option(
    "--trace", "trace_dir", metavar="DIR", type=click.Path(path_type=Path), required=True,
    help="Write the trace to this folder, which is empty or not there yet.",
)  # fmt: skip
@click.option(
    "--max-message-size", "max_message_bytes", metavar="SIZE", type=SIZE, default="5MiB",
    show_default=True, help="The broker's maxMessageSize, for connections whose beginning is not "
    "in the capture; the others tell it.",
)  # fmt: skip
@output_option("table", "json")
@talk_options
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path)
)
@taking(CaptureRequest)
def command(asked: CaptureRequest) -> int:
    """Makes a trace of captured packets, of clients and brokers that nobody prepared.

    Nothing stands in the way of the traffic, and nothing is restarted. FILE is pcap or pcapng, as
    tcpdump writes them, or gzip of these; several are read as one, by time. `-` is a pipe, which is
    read until it ends or Ctrl-C; the trace can be read while it grows.

    What is written down holds no payload, key or credential; of connections that are not Pulsar
    nothing is written. Every subcommand that reads the trace of a tap reads this one.

    A connection that was there before the capture is read from where the beginning of a frame is
    certain: after a silence of its sender, or after twice the largest message that a broker allows.
    Payloads may hold whole Pulsar frames, and are not taken for them. What its consumers were
    granted before is not known. Where packets are missing the ledgers of that connection are not
    known from there on, which a row UNPARSED says, until a consumer subscribes again; a hole within
    a payload harms nothing. Frames that had to wait for proof have the time at which it came.
    """
    _check(asked)
    with needing("trace", "capture"):
        from pulsar_doctor.capture.writing import TraceWriter
    from pulsar_doctor.capture.files import FileCounts
    from pulsar_doctor.capture.following import CaptureFollowing
    from pulsar_doctor.report import captured

    names = [str(file) for file in asked.files]
    counts = [FileCounts() for _ in names]
    with ExitStack() as stack:
        opened = [stack.enter_context(_opened(file)) for file in asked.files]
        writer = stack.enter_context(TraceWriter(asked.trace_dir, {"files": names}))
        following = CaptureFollowing(writer, asked.ports, _client(asked), asked.max_message_bytes)
        try:
            error = _follow(asked, following, _packets(opened, names, counts, writer.flush))
        finally:
            following.finish()
            drops = sum(each.kernel_drops for each in counts)
            told = captured.document(
                following.totals,
                rows=writer.written,
                trace_dir=str(asked.trace_dir),
                kernel_drops=drops,
            )
            parts = {name: told[name] for name in ("packets", "connections", "bytes")}
            writer.tell({"files": names, **parts})
    return _report(told, following, error, asked)


def _check(asked: CaptureRequest) -> None:
    if PIPE in asked.files and len(asked.files) > 1:
        raise InputError("`-` is a pipe, and is read alone: give either it or files")
    _client(asked)


def _client(asked: CaptureRequest) -> str | None:
    """The client as addresses are written here."""
    if asked.client is None:
        return None
    host, _, port = asked.client.rpartition(":")
    try:
        return str(ip_address(asked.client.strip("[]")))
    except ValueError:
        pass
    try:
        address = ip_address(host.strip("[]"))
        number = int(port)
    except ValueError:
        raise InputError(f"--client {asked.client} is no IP address, nor ip:port") from None
    return f"[{address}]:{number}" if address.version == 6 else f"{address}:{number}"


def _opened(file: Path) -> FileIO:
    if file == PIPE:
        return FileIO(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return FileIO(file, "rb")
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from error


def _packets(
    opened: Sequence[FileIO],
    names: Sequence[str],
    counts: Sequence[FileCounts],
    flush: Callable[[], object],
) -> Iterator[Packet]:
    from pulsar_doctor.capture.files import packets_of

    each = [
        packets_of(_chunks(file, name, flush), name, told)
        for file, name, told in zip(opened, names, counts, strict=True)
    ]
    return heapq.merge(*each, key=lambda packet: packet.time_ns)


def _chunks(file: FileIO, name: str, flush: Callable[[], object]) -> Iterator[bytes]:
    """What is there, as it comes; what was told before is on the disk before more is waited for."""
    while True:
        flush()
        try:
            chunk = file.read(READ_BYTES)
        except OSError as error:
            raise InputError(f"{name} cannot be read: {error.strerror}") from error
        if not chunk:
            return
        yield chunk


def _follow(
    asked: CaptureRequest, following: CaptureFollowing, packets: Iterator[Packet]
) -> DoctorError | None:
    """Reads all packets; what is wrong with a file, behind what came before it."""
    said: set[str] = set()
    piped = PIPE in asked.files
    before = signal.signal(signal.SIGTERM, _interrupt) if piped else None
    try:
        for packet in packets:
            following.packet(packet)
            if following.tls_seen - said:
                _say_tls(following.tls_seen - said)
                said |= following.tls_seen
    except InputError as error:
        return error
    except KeyboardInterrupt:
        if not piped:
            raise
        say("the pipe is read no further")
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
    following.finish()
    if following.tls_seen - said:
        _say_tls(following.tls_seen - said)
    return None


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say_tls(brokers: set[str]) -> None:
    from pulsar_doctor.report.captured import tls_lines

    for line in tls_lines(brokers):
        warn(line)


def _report(
    told: dict[str, object],
    following: CaptureFollowing,
    error: DoctorError | None,
    asked: CaptureRequest,
) -> int:
    from pulsar_doctor.report import captured

    if asked.output == "json":
        tell_json(told, indent=1)
    else:
        for line in captured.lines(told):
            tell(line)
    if error is not None:
        raise error
    if not told["rows"]:
        ports = ", ".join(map(str, asked.ports))
        raise DoctorError(
            f"nothing in it could be read as Pulsar, of {following.totals.connections} connections "
            f"to port {ports}; --port says where brokers listen"
        )
    return 0
