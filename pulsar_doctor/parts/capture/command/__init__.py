"""`pulsar-doctor capture`: makes a trace of running clients from captured packets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from pulsar_doctor.cli._calls import checks, is_given, say, settings
from pulsar_doctor.cli._commands import sectioned
from pulsar_doctor.cli._options import connection_options, taking
from pulsar_doctor.errors import DoctorError, InputError, needing, require_linux
from pulsar_doctor.parts.capture.command.options import PIPE, SECTIONS, CaptureRequest
from pulsar_doctor.parts.tap.report.choosing import screen_of
from pulsar_doctor.wording.gate import stderr, tell_json, warn

if TYPE_CHECKING:
    from pulsar_doctor.parts.capture.files import Packet
    from pulsar_doctor.parts.capture.following import CaptureFollowing
    from pulsar_doctor.parts.capture.listening import CaptureListener
    from pulsar_doctor.parts.capture.running import RunningCapture
    from pulsar_doctor.parts.capture.watching import Watching
    from pulsar_doctor.parts.capture.writing import TraceWriter

GROUP = "watch"
SEAL_SECONDS = 60.0  # of the packets, between two segments, at most
EPILOG = """\b
Examples:
  pulsar-doctor capture incident.pcap --trace incident.ptrace
  pulsar-doctor capture -i eth0 --for 60s --topic billing --trace new.ptrace
  tcpdump -U -w - 'tcp port 6650' | pulsar-doctor capture - --trace new.ptrace
  kubectl exec POD -- tcpdump -U -w - | pulsar-doctor capture - --trace new.ptrace
  pulsar-doctor capture -i any --trace /var/lib/captures/billing.ptrace --ring 10m --max-bytes 2GiB
  pulsar-doctor stall-check --trace incident.ptrace

Exit codes: 0 a trace was made; 1 with --fail-on, a verdict is as bad as that; 2 wrong usage, or a
capture that cannot be read; 3 nothing in it could be read as Pulsar, the trace could not be
written, or with --fail-on a verdict is unknown; 130 interrupted.
"""


@click.command(cls=sectioned(SECTIONS), epilog=EPILOG)
@taking(CaptureRequest)
@connection_options
def command(request: CaptureRequest) -> int:
    """Makes a trace of a running client from packets.

    The traffic is not touched, and nothing is restarted. FILE is pcap or pcapng, as tcpdump writes
    them, or gzip of these; several are read as one, in order of time. `-` is a pipe, which is read
    until it ends or Ctrl-C. The trace can be read while it grows.

    The trace has no payload, key or credential, and nothing of connections that are not Pulsar.
    Every subcommand that reads the trace of a tap can read it.

    A connection that was open before the capture is read from the first proven start of a frame
    (after twice the largest message that a broker allows) or a likely one: three whole frames and a
    second from the start of a segment, with valid checksums, or two silences of its sender.
    Payloads may contain whole Pulsar frames, so no verdict relies on likely rows alone. Each of
    them is marked (grade, join), and is taken back (RETRACTED) if something contradicts it;
    --proven-only leaves them out. If packets are missing, a row UNPARSED says so, and the ledgers
    of that connection are unknown until a consumer subscribes again or the broker reports them. A
    gap inside a payload does no harm. Frames that had to wait have the time at which they were
    recognised.

    A pipe or an interface is watched like a tap: on a terminal each consumer is a line, and a
    verdict that changes is printed once. --ring and --max-bytes keep only the newest part, also of
    files, on the clock of the packets; copies for stalls and SIGUSR2 are kept while packets arrive.
    Without a ring, SIGUSR2 seals what has arrived by then.

    Consumers that subscribed before the capture, and their permits, are read from the broker's
    stats (rows STATS), with --topic or --admin-url. The broker's clock must agree with that of the
    packets within a second.
    """
    _check(request)
    with needing("trace", "capture"):
        from pulsar_doctor.parts.capture.writing import TraceWriter
    from pulsar_doctor.parts.capture import report as captured
    from pulsar_doctor.parts.capture.command.reading import source_of
    from pulsar_doctor.parts.capture.command.watching import idle_of
    from pulsar_doctor.trace.ring import shares

    names = [request.interface] if request.interface else [str(file) for file in request.files]
    limits = shares(request.ring_seconds, request.max_bytes, SEAL_SECONDS)
    with ExitStack() as stack:
        source = source_of(request, stack)
        writer = stack.enter_context(
            TraceWriter(request.trace_dir, {"files": names}, limits, seals=not request.is_live)
        )
        watching = _watching(request, writer, stack, ring=limits.bounded)
        running = _running(request, writer, stack)
        try:
            packets = source.packets(idle_of(request, writer, running, watching))
            error = _follow(request, running, packets, watching)
        finally:
            running.finish()
            document = captured.document(
                running.following.totals,
                rows=writer.written,
                trace_dir=str(request.trace_dir),
                counts=source.counts(),
                not_written=writer.dropped,
                mistaken=running.mistaken,
            )
            parts = {name: document[name] for name in ("packets", "connections", "bytes")}
            writer.tell({"files": names, **parts})
    return _report(document, running.following, error, request)


def _watching(
    request: CaptureRequest, writer: TraceWriter, stack: ExitStack, *, ring: bool
) -> Watching | None:
    """The observer beside what comes as it passes; files seal themselves, faster than it."""
    if not request.is_live:
        return None
    from pulsar_doctor.parts.capture.watching import Watching

    screen = screen_of(stderr() if request.output == "json" else None)
    screen.say(f"capturing; the trace is in {request.trace_dir}; Ctrl-C ends it")
    watching = Watching(request.trace_dir, writer, screen, request.changes, ring=ring)
    return stack.enter_context(watching)


def _running(request: CaptureRequest, writer: TraceWriter, stack: ExitStack) -> RunningCapture:
    """The capture, and whoever tells it what the broker says."""
    from queue import SimpleQueue

    from pulsar_doctor.parts.capture.following import CaptureFollowing
    from pulsar_doctor.parts.capture.reported import ConsumerSample
    from pulsar_doctor.parts.capture.running import RunningCapture

    samples = (
        None
        if not (request.named_by.stats_files or _asks(request))
        else SimpleQueue[ConsumerSample]()
    )

    def follow(out: CaptureListener) -> CaptureFollowing:
        most, proven_only = request.max_message_bytes, request.proven_only
        return CaptureFollowing(out, request.ports, request.clients, most, proven_only=proven_only)

    running = RunningCapture(writer, follow, samples=samples, whole_topics=bool(request.topics))
    if samples is not None and request.named_by.stats_files:
        from pulsar_doctor.broker.samples import read
        from pulsar_doctor.parts.capture.asking import samples_in

        kept = read(replace(request.named_by, named=request.topics))
        for sample in samples_in(kept.windows):
            samples.put(sample)
    elif samples is not None:
        from pulsar_doctor.parts.capture.asking import BrokerPoll

        broker = BrokerPoll(settings(), request.topics, running.addresses, samples, say)
        stack.callback(broker.close)
        running.before_end = broker.close
    return running


def _asks(request: CaptureRequest) -> bool:
    given = click.get_current_context().find_root().ensure_object(dict)
    return bool(request.topics or any(map(given.get, ("admin_url", "context", "sandbox"))))


def _check(request: CaptureRequest) -> None:
    if bool(request.files) == bool(request.interface):
        raise InputError("give either files, or `-` for a pipe, or an interface with -i")
    if request.interface:
        require_linux("capture -i", "tcpdump -U -w - | pulsar-doctor capture - works everywhere")
    if request.named_by.stats_files and _asks(request) and not request.topics:
        raise InputError("--stats replaces the broker: leave out --admin-url")
    if request.named_by.internal_files and not request.named_by.stats_files:
        raise InputError(
            "--internal-stats has no names: give the stats of the same broker with --stats, too"
        )
    if PIPE in request.files and len(request.files) > 1:
        raise InputError("give either `-` (a pipe) or files")
    if request.changes and not request.is_live and request.fail_on == "never":
        raise InputError("--set needs a live capture or --fail-on; `stall-check` takes it, too")
    if request.changes:
        checks(request.changes)
    _ = request.clients


def _follow(
    request: CaptureRequest,
    running: RunningCapture,
    packets: Iterator[Packet],
    watching: Watching | None,
) -> DoctorError | None:
    """Reads all packets; what is wrong with a file, behind what came before it."""
    from pulsar_doctor.parts.capture.command.watching import handlers_of, obeying
    from pulsar_doctor.parts.capture.report import TLS

    named: set[str] = set()

    def say_tls() -> None:
        for broker in sorted(running.following.tls_seen - named):
            warn(TLS.format(broker))
            named.add(broker)

    try:
        with obeying(handlers_of(watching)):
            for packet in packets:
                running.packet(packet)
                say_tls()
    except InputError as error:
        return error
    except KeyboardInterrupt:
        if not request.is_live:
            raise
        say("the capture ends")
    running.finish()
    say_tls()
    return None


def _report(
    document: dict[str, object],
    following: CaptureFollowing,
    error: DoctorError | None,
    request: CaptureRequest,
) -> int:
    from pulsar_doctor.parts.capture import report as captured
    from pulsar_doctor.report.paper import print_page

    if request.output == "json":
        tell_json(document, indent=1)
    else:
        print_page(*captured.lines(document))
    if error is not None:
        raise error
    if not document["rows"]:
        ports = ", ".join(map(str, request.ports))
        raise DoctorError(
            f"nothing in it could be read as Pulsar, of {following.totals.connections} connections "
            f"to port {ports}; --port says where brokers listen"
        )
    return 0 if request.fail_on == "never" else _judged(request)


def _judged(request: CaptureRequest) -> int:
    """The code of the verdicts on the trace, which are printed below what was captured."""
    from pulsar_doctor.checkup.judge import Judge
    from pulsar_doctor.checkup.recorded import of_trace, read_trace
    from pulsar_doctor.diagnosis.short_form import in_short, place
    from pulsar_doctor.report.stall_check.verdict import print_diagnoses

    read = read_trace(request.trace_dir, say=say, say_more=say)
    checkup = of_trace(read, (), Judge(*checks(request.changes)))
    diagnoses = list(checkup.examined())
    if request.output == "json":  # its document is on stdout already
        for diagnosis in diagnoses:
            warn(f"{place(diagnosis.key)}: {in_short(diagnosis)}")
    else:
        print_diagnoses(diagnoses, verbose=is_given("verbose"))
    return checkup.tally.exit_code(request.fail_on)
