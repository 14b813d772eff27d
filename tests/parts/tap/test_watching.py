"""A tap that is watched: what it tells of a client and a broker that are ours, and when."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.diagnosis.fitted import sure
from pulsar_doctor.parts.tap.events import now_us
from pulsar_doctor.report.trace.consumers import refusal_lines
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from tests.broker.http_broker import Reply, serving
from tests.parts.tap.tap_process import Tap, running
from tests.parts.tap.tapped import (
    CONNECT,
    CONNECTED,
    Peer,
    be_looked_for,
    command_frame,
    flow,
    found,
    message,
)
from tests.support import eventually
from tests.support.documented import MOMENT, NOT_TOLD, NUMBER, WHOLE, Like

TOPIC = "persistent://public/default/orders"
SCHEMA = "pulsar-doctor/tap/2"
SOON = ("--set", "permits-exhausted.refill_wait=1s", "--set", "permits-exhausted.quiet_after=0s")


ADDRESS = Like(r"127\.0\.0\.1:\d+")
SLOW = {  # the consumer, when it has three of four and has acknowledged one
    "incarnation": 1, "name": "slow", "topic": TOPIC, "partition": None,
    "subscription": "billing", "type": "Exclusive", "client_version": "client",
    "address": ADDRESS, "receiver_queue_size": 4, "refill_threshold": 2,
    "available_permits": 1, "parked_permits": 0, "unsent_permits_min": 1, "flows": 1,
    "msg_out_counter": 3, "acknowledged": 1, "unacked_messages": 2, "since_last_flow": NUMBER,
    "next_flow": {"messages": 1, "at_most": True, "seconds": None}, "certain": True,
    "status": "healthy", "code": None,
}  # fmt: skip
HEALTHY = {
    "topic": TOPIC, "partition": None, "subscription": "billing", "type": "Exclusive",
    "status": "healthy", "backlog": None, "account": Like(dict), "balance": Like(dict),
    "pace": None,
    "findings": [],
    "suspects": [], "ruled_out": [], "known_issues": [],
    "not_told": NOT_TOLD, "consumers": Like(list),
}  # fmt: skip
STALLED = {  # a queue of four, of which one was acknowledged
    "code": "permits-exhausted", "severity": "stalled",
    "confidence": sure("permits-exhausted", 0.8), "consumer": "slow",
    "summary": Like(
        r"slow has acknowledged none of its 3 messages for [\d.]+ s: it is stuck, or one message "
        r"takes longer; the next ack will show; the broker may not send it more \(0 permits\), "
        "next FLOW after 1 more message"
    ),
    "evidence": [
        {"name": "available_permits", "value": 0, "unit": "permits"},
        {"name": "unacked_messages", "value": 3, "unit": "messages"},
        {"name": "unacked_entries", "value": 3, "unit": "entries"},
        {"name": "queued", "value": 3, "unit": "messages", "bound": "at least"},
        {"name": "receiver_queue_size", "value": 4, "unit": "messages"},
        {"name": "flows", "value": 1, "unit": "commands"},
        {"name": "msg_out_counter", "value": 4, "unit": "messages"},
        {"name": "next_flow_after", "value": 1, "unit": "messages", "bound": "at most"},
        {"name": "next_flow_in", "value": None, "unit": "seconds"},
        {"name": "sending_after", "value": 1, "unit": "messages"},
        {"name": "pace", "value": None, "unit": "seconds/message"},
        {"name": "pace_source", "value": "cannot tell", "unit": ""},
        {"name": "quiet_for", "value": NUMBER, "unit": "seconds"},
        {"name": "since_last_flow", "value": NUMBER, "unit": "seconds"},
    ],
    "since": MOMENT,
    "where": {
        "address": Like(r"127\.0\.0\.1:\d+"), "client_version": "client", "connected_since": MOMENT,
    },
    "impact": None,
    "remedy": Like("Dump the threads of the process .* if it hangs, restart it, .*"),
    "actions": Like(list),
    "explain": "pulsar-doctor explain permits-exhausted",
    "page": "docs/causes/permits-exhausted.md",
}  # fmt: skip
RELAY = {
    "connections_opened": 1, "connections_open": 1, "connections_refused": 0,
    "connections_silent": 0,
    "targets_refused": 0, "unreachable": 0, "tls_failed": 0, "client_tls_failed": 0,
    "redirects_followed": 0, "redirects_failed": 0, "unparsed": 0, "frames_too_long": 0,
    "bytes_to_broker": 175, "bytes_to_client": 153,
    "records_seen": 10, "records_written": 10, "records_dropped": 0,
}  # fmt: skip
OBSERVER = {"rows": 10, "unread_bytes": WHOLE, "parts_sealed": 0, "expired_rows": 0}


def told(event: str, **more: Any) -> dict[str, Any]:
    """The whole of an event."""
    return {"schema": SCHEMA, "event": event, "at": MOMENT, **more}


class Played:
    """A tap between a client and a broker."""

    def __init__(self, tap: Any, server: socket.socket, stack: contextlib.ExitStack) -> None:
        self.tap = tap
        self.server = server
        address = tap.service_url.removeprefix("pulsar://").split(":")
        sock = socket.create_connection((address[0], int(address[1])))
        self.client = Peer(stack.enter_context(sock)).send(CONNECT)
        self.broker = Peer(stack.enter_context(server.accept()[0]))
        self.to_broker(CONNECT)
        self.to_client(CONNECTED)
        self.entries = 0

    def to_broker(self, data: bytes) -> None:
        """Through the tap; the client's CONNECT has been sent already."""
        if data is not CONNECT:
            self.client.send(data)
        assert self.broker.read(len(data)) == data

    def to_client(self, data: bytes) -> None:
        self.broker.send(data)
        assert self.client.read(len(data)) == data

    def subscribe(self, queue: int = 4, number: int = 1) -> Played:
        subscribe = command_frame(
            4, "subscribe", topic=TOPIC, subscription="billing", sub_type=0, consumer_id=number,
            request_id=number, consumer_name="slow" if number == 1 else f"slow-{number}",
        )  # fmt: skip
        self.to_broker(subscribe)
        self.to_client(command_frame(13, "success", request_id=number))
        if number == 1:
            self.to_broker(flow(queue))
        return self

    def deliver(self, count: int) -> Played:
        for _ in range(count):
            self.entries += 1
            self.to_client(message(1, b"x", self.entries))
        return self

    def ack(self, *entries: int) -> Played:
        ids = [wire.MessageId(ledger_id=7, entry_id=entry) for entry in entries]
        self.to_broker(command_frame(10, "ack", consumer_id=1, ack_type=0, message_id=ids))
        return self

    def stall(self) -> Played:
        """Four of four are delivered, one is acknowledged, and then nothing."""
        return self.subscribe().deliver(4).ack(1)

    def recover(self) -> Played:
        self.ack(2, 3, 4)
        self.to_broker(flow(4))
        return self


@contextlib.contextmanager
def tapped(*arguments: str, **settings: str) -> Iterator[Played]:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        server.settimeout(20)
        url = f"pulsar://127.0.0.1:{server.getsockname()[1]}"
        tap = stack.enter_context(running(*arguments, service_url=url, **settings))
        be_looked_for(server)
        yield Played(tap, server, stack)


def statuses(tap: Tap) -> list[str]:
    """Verdicts as they were told; a warning may come before a stall, as time passes."""
    told = tap.of("verdict")
    assert [event["before"] for event in told[1:]] == [event["status"] for event in told[:-1]]
    return [event["status"] for event in told if event["status"] != "warning"]


def test_json_lines_tell_everything_and_nothing_else_is_on_stdout(tmp_path):
    trace = tmp_path / "t"
    with tapped("-o", "jsonl", "--trace", str(trace), *SOON) as played:
        tap = played.subscribe(queue=4).deliver(3).ack(1).tap
        shown = eventually(
            lambda: [s for s in tap.of("snapshot") if s["consumers"] and s["consumers"][0]["status"]
                     and s["consumers"][0]["acknowledged"]][:1]
        )[0]  # fmt: skip
        counters = tap.counted()
        tap.send(signal.SIGUSR2)
        tap.wait_for("sealed")
        assert list(trace.glob("seg-*.parquet"))
        assert tap.end() == 0
    listening, *_, end = tap.events
    assert all(event["schema"] == SCHEMA and event["at"] == MOMENT for event in tap.events)
    assert listening == told(
        "listening", service_url=tap.service_url, upstream=ADDRESS, trace_dir=str(trace)
    )
    assert shown == told("snapshot", consumers=[SLOW], unread_bytes=WHOLE)
    assert shown["consumers"][0]["since_last_flow"] < 20
    assert tap.of("verdict") == [told("verdict", before=None, **HEALTHY)]
    assert counters == told("counters", relay=RELAY, observer=OBSERVER)
    assert tap.of("sealed") == [told("sealed", through=1)]
    assert end == told(
        "end",
        exit_code=0,
        dropped=0,
        subscriptions=[HEALTHY],
        seen=[],
        trace_dir=str(trace),
        written=11,
        sealed=11,
        expectations=[],
    )


def test_a_stall_and_its_end_are_each_told_once_also_when_the_observer_is_killed(tmp_path):
    with tapped("-o", "jsonl", "--trace", str(tmp_path / "t"), *SOON) as played:
        tap = played.stall().tap
        eventually(lambda: statuses(tap)[-1:] == ["stalled"], 45)
        os.kill(tap.child("pulsar_doctor.parts.tap.observer"), signal.SIGKILL)
        tap.says("the observer ended with -9; starting it again in 1 s")
        before = len(tap.of("snapshot"))
        eventually(lambda: len(tap.of("snapshot")) >= before + 3, 45)
        played.recover()
        eventually(lambda: statuses(tap)[-1:] == ["healthy"], 45)
        assert statuses(tap)[-2:] == ["stalled", "healthy"]
        assert statuses(tap).count("stalled") == 1
        stalled = next(event for event in tap.of("verdict") if event["status"] == "stalled")
        unwell = {**HEALTHY, "status": "stalled", "findings": [STALLED], "ruled_out": Like(list)}
        assert stalled == told("verdict", before=stalled["before"], **unwell)
        assert tap.end(signal.SIGTERM) == 0
    rows = [row.command for row in open_trace(tmp_path / "t").rows()]
    assert rows.count("FLOW") == 2


@pytest.mark.parametrize(
    ("more", "code"),
    [((), 1), (("--fail-on", "never"), 0)],
    ids=["default", "never"],
)
def test_without_a_terminal_changes_are_lines_after_the_address(tmp_path, more, code):
    with tapped("--trace", str(tmp_path / "t"), *SOON, *more) as played:
        tap = played.stall().tap
        tap.says("STALLED  billing on orders")
        tap.says("  fix     ")  # Ctrl-C between two lines would end it before the second
        assert tap.end() == code
    assert tap.out[0] == tap.service_url
    changed = next(n for n, line in enumerate(tap.out) if "STALLED" in line)
    assert "permits-exhausted of slow" in tap.out[changed]
    assert tap.out[changed + 1].strip().startswith("slow has acknowl")
    assert any(line.startswith("  fix     ") for line in tap.out[changed + 2 : changed + 6])
    assert sum("STALLED" in line for line in tap.out) == 2  # once as it happens, once in the end
    assert "\x1b" not in "".join(tap.out)


def test_a_reader_that_went_away_ends_nothing(tmp_path):
    with tapped("-o", "jsonl", "--trace", str(tmp_path / "t"), *SOON) as played:
        tap = played.subscribe().tap
        url = tap.service_url
        tap.leaves = True
        tap.says("nothing more is written to <stdout>: Broken pipe; the tap goes on")
        played.deliver(4).ack(1)
        assert tap.process.poll() is None
        time.sleep(2.5)
        assert tap.end() == 1  # the verdict counts, whoever reads it
    assert url.startswith("pulsar://")


def test_a_reader_that_has_stopped_holds_up_neither_the_traffic_nor_the_end(tmp_path):
    arguments = ("--accept-unknown", "all", "--trace", str(tmp_path / "t"))  # they never ask
    with tapped("-o", "jsonl", *arguments) as played:
        tap = played.tap
        tap.reads.clear()
        for number in range(300):  # so many that no pipe holds what is told of them
            played.subscribe(number=number)
        time.sleep(4)
        played.deliver(4)
        tap.send(signal.SIGTERM)
        assert tap.process.wait(30) == 0
        tap.reads.set()
        assert tap.wait() == 0


def test_a_commands_own_output_stays_its_own(tmp_path):
    script = "print('mine'); raise SystemExit(7)"
    with (
        found() as url,
        running("-o", "jsonl", "--", sys.executable, "-c", script, service_url=url) as tap,
    ):
        assert tap.wait() == 7
    assert [event["event"] for event in tap.events][:1] == ["listening"]
    assert tap.events[-1]["exit_code"] == 7
    assert "mine" in tap.err
    with found() as url, running("--", sys.executable, "-c", script, service_url=url) as tap:
        assert tap.wait() == 7
    assert tap.out[1:] == ["mine"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("/no/such/command", "No such file or directory"),
        ("pyhton", "No such file or directory"),
        (__file__, "Permission denied"),
    ],
)
def test_a_command_that_cannot_be_run_is_wrong_usage_and_leaves_nothing(tmp_path, name, why):
    trace = tmp_path / "t"
    with found() as url, running("--trace", str(trace), "--", name, service_url=url) as tap:
        assert tap.wait() == 2
    assert (tap.out, tap.err) == ([], [f"pulsar-doctor: cannot run {name}: {why}"])
    assert not trace.exists()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("pulsar://127.0.0.1:1", "the broker 127.0.0.1:1 cannot be reached: Connection refused; "
         "give --service-url, or --sandbox to run a real one on this machine"),
        ("pulsar://no.such.host.invalid", "the broker no.such.host.invalid:6650 cannot be reached: "
         "its name is not known; give --service-url, or --sandbox to run a real one on this "
         "machine"),
    ],
    ids=["nothing listens", "no such name"],
)  # fmt: skip
def test_without_a_broker_nothing_begins(tmp_path, url, said):
    trace, made = tmp_path / "t", tmp_path / "made"
    with running("--trace", str(trace), "--", "touch", str(made), service_url=url) as tap:
        assert tap.wait() == 3
    assert (tap.out, tap.err) == ([], [f"pulsar-doctor: {said}"])
    assert not trace.exists()
    assert not made.exists()


def test_a_web_server_is_no_broker(tmp_path):
    with serving(lambda asked: Reply()) as web:
        port = web.url.rpartition(":")[2]
        with running(
            "--trace", str(tmp_path / "t"), service_url=f"pulsar://127.0.0.1:{port}"
        ) as tap:
            assert tap.wait() == 3
    assert tap.err == [
        f"pulsar-doctor: 127.0.0.1:{port} is an HTTP port; the service URL is the broker's binary "
        "port, usually 6650"
    ]


def test_what_was_not_recorded_is_told_as_a_gap_and_in_the_end(tmp_path):
    trace = tmp_path / "t"
    with tapped("-o", "jsonl", "--trace", str(trace), *SOON) as played:
        tap = played.subscribe().tap
        eventually(lambda: tap.of("snapshot")[-1:] and tap.of("snapshot")[-1]["consumers"])
        leave_a_gap(played)
        gap = tap.wait_for("gap")
        counters = tap.counted()["relay"]
        eventually(lambda: tap.of("snapshot")[-1]["consumers"][0]["certain"] is False)
        assert tap.of("snapshot")[-1]["consumers"][0]["available_permits"] is None
        tap.end()
    assert gap == told("gap", seq=WHOLE, dropped=counters["records_dropped"])
    assert gap["dropped"] > 0
    assert counters["records_seen"] == counters["records_written"] + counters["records_dropped"]
    (row,) = [row for row in open_trace(trace).rows() if row.command == "GAP"]
    assert (row.seq, row.dropped) == (gap["seq"], gap["dropped"])
    assert tap.events[-1]["dropped"] == gap["dropped"]
    assert f"{gap['dropped']} commands were not recorded" in tap.err


def leave_a_gap(played: Played) -> None:
    """Flows that the relay cannot write down, and one that it can."""
    relay = played.tap.child("pulsar_doctor.parts.tap.relay")
    before, hard = resource.prlimit(relay, resource.RLIMIT_FSIZE)
    resource.prlimit(relay, resource.RLIMIT_FSIZE, (10, hard))
    for _ in range(7):
        played.to_broker(flow(1))
    time.sleep(0.5)
    resource.prlimit(relay, resource.RLIMIT_FSIZE, (before, hard))
    played.to_broker(flow(1))


def test_a_gap_that_is_read_only_in_the_end_counts_once(tmp_path):
    trace = tmp_path / "t"
    with tapped("-o", "jsonl", "--trace", str(trace), *SOON) as played:
        tap = played.subscribe().tap
        eventually(lambda: tap.of("snapshot")[-1:] and tap.of("snapshot")[-1]["consumers"])
        observer = tap.child("pulsar_doctor.parts.tap.observer")
        os.kill(observer, signal.SIGSTOP)
        leave_a_gap(played)
        tap.send(signal.SIGINT)
        assert played.client.rest() == b""  # the relay has said how many there are
        os.kill(observer, signal.SIGCONT)
        tap.wait()
    (row,) = [row for row in open_trace(trace).rows() if row.command == "GAP"]
    assert row.dropped
    assert tap.events[-1]["dropped"] == row.dropped


def test_who_is_cut_off_at_the_end_is_said():
    with tapped("-o", "jsonl") as played:
        played.tap.end()
        assert "the tap ends; 1 connection of a client is cut off" in played.tap.err
        assert played.client.rest() == b""


def test_a_journal_that_is_deleted_before_it_is_sealed_is_missed_in_the_end(tmp_path):
    trace = tmp_path / "t"
    with tapped("-o", "jsonl", "--trace", str(trace)) as played:
        tap = played.subscribe().tap
        eventually(lambda: tap.counted()["relay"]["records_written"] == 6)
        observer = tap.child("pulsar_doctor.parts.tap.observer")
        os.kill(observer, signal.SIGSTOP)
        tap.send(signal.SIGUSR2)
        eventually((trace / ".journal-000002.pdj").exists)
        os.kill(observer, signal.SIGKILL)  # it may have had it open
        (trace / ".journal-000001.pdj").unlink()
        played.to_broker(flow(1))
        assert tap.end() == 3
    end, missing = tap.events[-1], 6
    assert (end["written"], end["sealed"], end["dropped"]) == (8, 2, missing)
    said = "some of what was written is not in the trace"
    assert said in tap.events[-1]["seen"]
    assert f"{said}: {missing} commands; was a journal deleted?" in tap.err


def test_a_journal_that_is_deleted_while_it_is_written_to_costs_nothing(tmp_path):
    trace = tmp_path / "t"
    with tapped("-o", "jsonl", "--trace", str(trace)) as played:
        tap = played.subscribe().tap
        for number in range(3):
            eventually(lambda: tap.of("snapshot")[-1:] and tap.of("snapshot")[-1]["consumers"])
            (trace / ".journal-000001.pdj").unlink()
            played.to_broker(flow(number + 1))
            eventually((trace / ".journal-000001.pdj").exists)
        assert tap.end() == 0
    rows = list(open_trace(trace).rows())
    assert [row.permits for row in rows if row.command == "FLOW"] == [4, 1, 2, 3]
    assert not [row for row in rows if row.command == "GAP"]
    assert tap.events[-1]["dropped"] == 0
    assert not [line for line in tap.err if "recorded" in line or "written" in line]


def test_refusals_and_clients_that_went_by_are_told_once_and_summed_up(tmp_path):
    trace = tmp_path / "t"
    said = "AuthenticationError: Failed to authenticate"
    with tapped("-o", "jsonl", "--trace", str(trace)) as played:
        tap = played.subscribe().tap
        played.to_broker(command_frame(23, "lookup", topic="elsewhere", request_id=9))
        url = "pulsar://127.0.0.1:9"
        answer = command_frame(
            24, "lookup_response", broker_service_url=url, response=1, request_id=9
        )
        played.broker.send(answer)
        played.client.read(10)
        error = {"request_id": 1, "error": 3, "message": "Failed to authenticate"}
        for _ in range(2):
            played.to_broker(flow(1))
            played.broker.send(command_frame(14, "error", **error))
        refused = tap.wait_for("refused")
        passed = tap.wait_for("passed_by")
        observer = tap.child("pulsar_doctor.parts.tap.observer")
        os.kill(observer, signal.SIGKILL)
        tap.end()
    who = {"address": ADDRESS, "client_version": "client"}
    assert refused == told("refused", reason=said, **who)
    assert passed == told("passed_by", topic="elsewhere", **who)
    assert (len(tap.of("refused")), len(tap.of("passed_by"))) == (1, 1)
    assert "a client was refused" in tap.events[-1]["seen"]
    timeline = open_trace(trace).timeline()
    assert {reason: one.count for reason, one in timeline.refusals.by_reason.items()} == {said: 2}
    assert list(refusal_lines(timeline)) == [
        Like(rf"refused 2 times, first 127\.0\.0\.1:\d+ \(client\): {said}")
    ]


def test_that_the_trace_cannot_be_sealed_is_told_and_that_it_can_again(tmp_path):
    trace = tmp_path / "t"
    with tapped("-o", "jsonl", "--trace", str(trace)) as played:
        tap = played.subscribe().tap
        in_the_way = trace / ".seg-000001.parquet.tmp"
        in_the_way.mkdir()
        tap.send(signal.SIGUSR2)
        assert tap.wait_for("trouble") == told("trouble", reason="Is a directory")
        in_the_way.rmdir()
        assert tap.wait_for("trouble", 2) == told("trouble", reason=None)
        assert tap.wait_for("sealed") == told("sealed", through=1)
        assert tap.end() == 0


def test_a_stall_keeps_what_a_ring_holds(tmp_path):
    trace = tmp_path / "t"
    with tapped("-o", "jsonl", "--trace", str(trace), "--ring", "60s", *SOON) as played:
        tap = played.stall().tap
        kept = tap.wait_for("kept")
        reason = "billing on persistent://public/default/orders: permits-exhausted"
        path = Like(rf"{trace}/_kept/\d{{8}}T\d{{6}}Z-\d{{6}}\.ptrace")
        assert kept == told("kept", through=1, reason=reason, path=path, error=None)
        rows = list(open_trace(Path(kept["path"])).rows())
        assert [row.command for row in rows].count("MESSAGE") == 4
        tap.send(signal.SIGUSR2)
        assert tap.wait_for("kept", 2)["reason"] == "a signal"
        played.recover()
        eventually(lambda: statuses(tap)[-1] == "healthy", 45)
        assert tap.end() == 0
    assert len(tap.of("kept")) == 2


def test_a_ring_wants_to_know_where():
    with running("--ring", "60s", service_url="pulsar://127.0.0.1:1") as tap:
        assert tap.wait() == 2
    assert "--trace" in tap.err[-1]


# What the broker says.


def stats(permits: int, moved_ms: int) -> Reply:
    """As of now, of a consumer that was sent something last at moved_ms."""
    consumer = {
        "consumerName": "slow", "availablePermits": permits, "unackedMessages": 1,
        "msgOutCounter": 1, "lastAckedTimestamp": moved_ms, "lastConsumedTimestamp": moved_ms,
        "lastConsumedFlowTimestamp": moved_ms,
    }  # fmt: skip
    billing = {"type": "Exclusive", "msgBacklog": 9, "consumers": [consumer]}
    document = {"msgInCounter": 10, "subscriptions": {"billing": billing}}
    return Reply(document=document, headers={"Date": formatdate(usegmt=True)})


def test_a_broker_that_says_something_else_is_told_once_with_both_numbers(tmp_path):
    says = (4, 0)
    with serving(lambda asked: stats(*says)) as admin:
        arguments = ("-o", "jsonl", "--trace", str(tmp_path / "t"), "--compare-broker")
        with tapped(*arguments, admin_url=admin.url) as played:
            tap = played.subscribe().tap
            tap.wait_for("verdict")
            says = (3, now_us() // 1000)
            played.deliver(1)
            time.sleep(3)
            assert differing(tap) == []
            played.to_broker(flow(2))  # this one the broker has never got
            eventually(lambda: differing(tap), 45)
            time.sleep(2.5)
            tap.end()
    (told_once,) = differing(tap)
    assert {each["value"] for each in told_once["evidence"]} == {"3", "5"}
    assert {asked.method for asked in admin.asked} == {"GET"}


def differing(tap: Tap) -> list[dict[str, Any]]:
    return [
        finding for verdict in tap.of("verdict") for finding in verdict["findings"]
        if finding["code"] == "permits-differ"
    ]  # fmt: skip


def test_a_broker_that_refuses_to_tell_is_said_once_and_asked_no_more(tmp_path):
    with serving(lambda asked: Reply(403, document={"reason": "no"})) as admin:
        arguments = ("--trace", str(tmp_path / "t"), "--compare-broker")
        with tapped(*arguments, admin_url=admin.url) as played:
            tap = played.subscribe().tap
            tap.says("the broker's permits are not compared: ")
            asked = len(admin.asked)
            played.deliver(2).ack(1, 2)
            time.sleep(2)
            assert len(admin.asked) == asked
            assert tap.end() == 0
    assert sum("not compared" in line for line in tap.err) == 1


def test_a_broker_that_cannot_be_reached_is_said_and_the_tap_goes_on(tmp_path):
    arguments = ("--trace", str(tmp_path / "t"), "--compare-broker")
    with tapped(*arguments, admin_url="http://127.0.0.1:1") as played:
        tap = played.subscribe().tap
        assert "nothing listens at http://127.0.0.1:1" in tap.says("cannot be compared now")
        played.deliver(2).ack(1, 2)
        assert tap.end() == 0
