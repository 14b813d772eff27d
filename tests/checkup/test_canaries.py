"""A thousand planted secrets are in no page and in no file of a bundle; with --redact, no names.

Payloads, keys and properties of messages, credentials of connections, what users attach, secret
settings of a broker. Names: of tenants, topics, subscriptions, consumers, producers, and addresses.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.samples import Recorder, StatsAnswer
from pulsar_doctor.broker.samples.bundled import packed, trace_unpacked
from pulsar_doctor.checkup.bundle import BundleParts, allowed, bundle_of
from pulsar_doctor.checkup.case import case_of, for_page
from pulsar_doctor.checkup.incident import Incident, Recordings, of_recordings, redacted
from pulsar_doctor.checkup.judge import Judge
from pulsar_doctor.checkup.recorded import read_trace
from pulsar_doctor.checkup.redacting import Pseudonyms
from pulsar_doctor.parts.capture.connections import TO_BROKER, TO_CLIENT
from pulsar_doctor.parts.capture.following import CaptureFollowing
from pulsar_doctor.parts.capture.running import RunningCapture
from pulsar_doctor.parts.capture.writing import TraceWriter
from pulsar_doctor.report.incident.page import page
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wire.columns import values_of
from tests.checkup.test_case import judge
from tests.made.frames import field
from tests.parts.capture.packing import START_NS, Talk
from tests.parts.tap.tapped import CONNECTED, command_frame, flow, frame
from tests.report.checkups import written
from tests.wire.test_batches import part_of

SECRET, NAME = re.compile(rb"SECRET-\d{4}"), re.compile(rb"NAME-\d\d|10\.77\.0\.\d+")
TOPIC, SUBSCRIPTION = "persistent://NAME-01/NAME-02/NAME-03", "NAME-04"
CLIENT = b"\x0a\x4d\0\x07", 43668  # 10.77.0.7
MESSAGES, CONSUMERS = 150, 20
SETTINGS = {
    "brokerClientAuthenticationParameters": "SECRET-0001", "clusterName": "NAME-09",
    "dispatcherMaxReadBatchSize": "SECRET-0002", "maxUnackedMessagesPerConsumer": "50000",
}  # fmt: skip


class Planting:
    """Each secret is another one."""

    def __init__(self) -> None:
        self.planted = 2  # of SETTINGS

    def secret(self) -> str:
        self.planted += 1
        return f"SECRET-{self.planted:04d}"

    def attached(self) -> dict[str, str]:
        return {self.secret(): self.secret() for _ in range(3)}

    def message(self, entry: int) -> bytes:
        command = command_frame(
            9, "message", consumer_id=1, message_id={"ledger_id": 7, "entry_id": entry}
        )[8:]
        key, *more = (self.secret().encode() for _ in range(4))
        metadata = field(6, key) + field(4, field(1, more[0]) + field(2, more[1]))
        return frame(command, part_of(metadata, more[2]))

    def packets(self) -> Talk:
        """A consumer that acknowledges some of its messages."""
        credentials = field(3, self.secret().encode())
        connect = field(1, b"client") + credentials
        subscribe = b"".join((
            field(1, TOPIC.encode()), field(2, SUBSCRIPTION.encode()), b"\x18\x01\x20\x01\x28\x01",
            field(6, b"NAME-05"),
            field(10, field(1, self.secret().encode()) + field(2, self.secret().encode())),
        ))  # fmt: skip
        talk = Talk(client=CLIENT).open()
        talk.say(TO_BROKER, frame(b"\x08\x02" + field(2, connect))).say(TO_CLIENT, CONNECTED)
        talk.say(TO_BROKER, frame(b"\x08\x04" + field(4, subscribe)))
        talk.say(TO_CLIENT, command_frame(13, "success", request_id=1)).say(TO_BROKER, flow(1000))
        for entry in range(MESSAGES):
            talk.say(TO_CLIENT, self.message(entry))
        for entry in (3, 4, 9):
            ids = [{"ledger_id": 7, "entry_id": entry}]
            talk.say(TO_BROKER, command_frame(10, "ack", consumer_id=1, message_id=ids))
        return talk.wait(60)

    def stats(self) -> dict[str, Any]:
        consumers = [
            {"consumerName": f"NAME-{10 + n}", "address": f"/10.77.0.{n}:{5000 + n}",
             "metadata": self.attached(), "availablePermits": 0, "unackedMessages": 5,
             "msgOutCounter": 5, "connectedSince": "2026-05-01T12:00:00Z"}
            for n in range(CONSUMERS)
        ]  # fmt: skip
        publishers = [
            {
                "producerName": f"NAME-{n}",
                "address": f"/10.77.0.{n}:{n}",
                "metadata": self.attached(),
            }
            for n in range(70, 90)
        ]
        subscription = {
            "type": "Shared", "msgBacklog": 300, "unackedMessages": 300, "consumers": consumers,
            "subscriptionProperties": self.attached(),
        }  # fmt: skip
        return {
            "ownerBroker": "10.77.0.1:8080", "publishers": publishers,
            "subscriptions": {SUBSCRIPTION: subscription, "NAME-06": {"type": "Shared"}},
        }  # fmt: skip

    def samples(self, file: Path) -> Path:
        cursor = {
            "markDeletePosition": "7:2", "readPosition": "7:260", "state": "Open",
            "individuallyDeletedMessages": "[(7:4..7:6],(7:9..7:12]]",
            "properties": self.attached(), "cursorProperties": self.attached(),
        }  # fmt: skip
        internal = {
            "cursors": {SUBSCRIPTION: cursor}, "lastConfirmedEntry": "7:299",
            "ledgers": [{"ledgerId": 7, "entries": 300, "size": 9000, "metadata": self.secret()}],
        }  # fmt: skip
        with Recorder(file) as recorder:
            for second in range(3):
                at_ms = START_NS // 1_000_000 + 1000 * second
                recorder.add(StatsAnswer(TOPIC, at_ms, self.stats(), internal))
        return file


def captured(talk: Talk, folder: Path) -> Path:
    with TraceWriter(folder, {"files": []}) as writer:
        running = RunningCapture(writer, lambda out: CaptureFollowing(out, [6650]))
        for packet in talk.packets:
            running.packet(packet)
        running.pass_time(talk.now_ns)
        running.finish()
    return folder


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> tuple[Incident, Judge, Path, bytes]:
    """What a trace and samples with secrets in them show; the judge, the trace and the samples."""
    folder, planting = tmp_path_factory.mktemp("canaries"), Planting()
    trace = captured(planting.packets(), folder / "capture.ptrace")
    file = planting.samples(folder / "samples.jsonl.gz")
    assert planting.planted >= 1000
    read = read_trace(trace, say=print, say_more=print)
    both = replace(judge(), wires=read.wires, wires_by="capture", captured=lambda: read.wires)
    recordings = Recordings(trace, SampleFiles([str(file)]))
    return of_recordings(recordings, judge(), print, print), both, trace, file.read_bytes()


def page_and_bundle(those: Any, *, redact: bool) -> tuple[bytes, bytes]:
    made, both, trace, samples = those
    checkup = replace(made.checkup)
    shown = redacted(made, judge(), ()) if redact else made
    html = page(shown, for_page(case_of(shown.checkup))).encode()
    parts = BundleParts(Pseudonyms() if redact else None, trace)
    return html, packed(bundle_of(checkup, samples, allowed(SETTINGS), both, parts))


def texts_of_page(html: bytes) -> Iterator[tuple[str, bytes]]:
    """As it is, as it is read, and what is in its Base64."""
    yield "page", html
    yield "page, read", unescape(html.decode()).encode()
    for run in re.findall(rb"[A-Za-z0-9+/]{16,}={0,2}", html):
        if len(run) % 4 == 0:
            yield "page, Base64", unpacked(b64decode(run))


def texts_of_bundle(content: bytes, room: Path) -> Iterator[tuple[str, bytes]]:
    """Each file, unpacked, and the rows of the trace."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        files = {each.name: archive.extractfile(each).read() for each in archive}  # type: ignore[union-attr]
    for name, text in files.items():
        yield name, name.encode() + unpacked(text)
    trace = trace_unpacked(files, room)
    for row in open_trace(trace).rows() if trace else ():
        yield (
            "rows",
            b" ".join(
                value if isinstance(value, bytes) else str(value).encode()
                for value in values_of(row)
            ),
        )


def unpacked(content: bytes) -> bytes:
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b\x08") else content


def texts_of(those: Any, room: Path, *, redact: bool) -> list[tuple[str, bytes]]:
    html, bundle = page_and_bundle(those, redact=redact)
    return [*texts_of_page(html), *texts_of_bundle(bundle, room)]


@pytest.fixture(scope="module")
def texts(incident: Any, tmp_path_factory: pytest.TempPathFactory) -> list[list[tuple[str, bytes]]]:
    """All that can be read, with names and without."""
    room = tmp_path_factory.mktemp("room")
    return [texts_of(incident, room, redact=redact) for redact in (False, True)]


def found(pattern: re.Pattern[bytes], texts: list[tuple[str, bytes]]) -> set[str]:
    """Where there is something of the kind."""
    return {where for where, text in texts if pattern.search(text)}


def test_no_secret_is_in_a_page_or_a_bundle(texts: Any) -> None:
    named, redacted = texts
    assert found(SECRET, named) == found(SECRET, redacted) == set()


def test_metrics_have_no_secret_and_no_name_but_those_of_their_labels(incident: Any) -> None:
    made, *_ = incident
    text = written("prometheus", replace(made.checkup)).encode()
    labels = rb'(?:cluster|namespace|topic|subscription)="[^"]*"'
    assert b"NAME-04" in text
    assert found(SECRET, [("page", text)]) == set()
    assert found(NAME, [("page without these labels", re.sub(labels, b"", text))]) == set()
    assert not re.search(rb"10\.77|NAME-0[578]|NAME-1", text), "no consumer, no address"


def test_no_name_and_no_address_is_there_where_it_is_redacted(texts: Any) -> None:
    assert found(NAME, texts[True]) == set()


def test_the_search_finds_names_everywhere_where_nothing_is_redacted(texts: Any) -> None:
    assert found(NAME, texts[False]) >= {
        "page", "page, Base64", "README.txt", "case.json", "samples.jsonl.gz", "rows",
    }  # fmt: skip


def test_the_search_finds_one_secret(incident: Any, tmp_path: Path) -> None:
    made, *others = incident
    leaking = replace(made, checkup=replace(made.checkup, files=("SECRET-9999",)))
    texts = texts_of((leaking, *others), tmp_path, redact=False)
    assert found(SECRET, texts) >= {"page", "page, Base64", "case.json"}


def test_what_is_searched_shows_the_incident(incident: Any) -> None:
    made, *_ = incident
    assert made.timelines.consumers
    assert made.holes
    assert {each.status for each in made.checkup.diagnoses} & {"stalled", "warning", "unknown"}
