"""The relay as a process: what it writes down and where, how it starts and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.parts.tap.options import RelayOptions
from pulsar_doctor.parts.tap.relay.events import Config
from pulsar_doctor.parts.tap.relaying import Relay, relaying
from pulsar_doctor.parts.tap.upstream import upstream_of
from pulsar_doctor.trace.ring import RingLimits
from pulsar_doctor.wording.typed_json import to_json
from tests.parts.tap.tapped import Tapped, blocks_in, flow, journals, message, rows_in, tapping
from tests.support import eventually


def test_taken_messages_stand_between_the_frames_in_the_order_of_arrival(tapped):
    client, broker = tapped.connected()
    for permits in range(1, 4):
        client.send(flow(permits))
        broker.read(len(flow(permits)))
        tapped.relay.flush()
        tapped.relay.taken(
            topic="t\n€", subscription="s", consumer_name="order", ledger_id=7, entry_id=permits,
            batch_index=None, partition=2,
        )  # fmt: skip
        tapped.relay.flush()
    rows = rows_in(tapped.relay.trace_dir)
    told = [row for row in rows if row.command == "FLOW" or row.consumer_name == "order"][-6:]
    assert [(row.command, row.permits or row.entry_id) for row in told] == [
        ("FLOW", 1), ("TAKEN", 1), ("FLOW", 2), ("TAKEN", 2), ("FLOW", 3), ("TAKEN", 3),
    ]  # fmt: skip
    taken = told[-1]
    assert (taken.topic, taken.partition, taken.batch_index) == ("t\n€", 2, None)
    assert (taken.messages, taken.conn_id) == (1, None)


def test_many_threads_may_tell_at_once(tapped):
    def tell(name: str) -> None:
        for entry_id in range(1000):
            tapped.relay.taken(
                topic="t", subscription="s", consumer_name=name, ledger_id=7, entry_id=entry_id,
                batch_index=0, partition=None,
            )  # fmt: skip
            if entry_id % 300 == 0:
                tapped.relay.flush()

    threads = [threading.Thread(target=tell, args=(f"thread-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tapped.relay.flush()
    rows = rows_in(tapped.relay.trace_dir)
    for n in range(4):
        told = [row.entry_id for row in rows if row.consumer_name == f"thread-{n}"]
        assert told == list(range(1000))


def test_when_the_tap_ends_every_connection_is_closed_and_said_to_be(tmp_path):
    with tapping(tmp_path / "t") as tapped:
        ends = [end for _ in range(3) for end in tapped.connected()]
        os.kill(tapped.relay.pid, signal.SIGINT)  # a terminal's Ctrl-C is not for the relay
        client, broker = ends[:2]
        client.send(flow(9))
        assert broker.read(len(flow(9))) == flow(9)
        tapped.relay.stop()
        assert [end.rest() for end in ends] == [b""] * 6
        rows = rows_in(tmp_path / "t")
        closed = [row for row in rows if row.command == "CLOSE"]
        assert [row.error_message for row in closed] == ["the tap ends"] * 3
        assert "FLOW" in [row.command for row in rows]
        tapped.relay.stop()
        with pytest.raises(DoctorError, match="the relay ended"):
            tapped.relay.flush()


PARENT = """
import sys, time
from pathlib import Path
from pulsar_doctor.parts.tap.relaying import relaying
with relaying("pulsar://127.0.0.1:1", Path(sys.argv[1])) as relay:
    print(relay.pid, flush=True)
    time.sleep(60)
"""


def test_the_death_of_the_parent_ends_the_relay(tmp_path):
    command = [sys.executable, "-c", PARENT, str(tmp_path / "t")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        pid = int(parent.stdout.readline())
        assert os.getsid(pid) != os.getsid(parent.pid)
        parent.kill()
    eventually(lambda: not alive(pid), timeout=5)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_an_idle_relay_says_every_second_that_it_still_watches(tmp_path):
    with tapping(tmp_path / "t"):
        beats = eventually(
            lambda: [b for b in blocks_in(tmp_path / "t") if not b.records][1:], timeout=5
        )
    assert all(beat.conn_id == -1 for beat in beats)
    beats = [block for block in blocks_in(tmp_path / "t") if not block.records]
    assert 0.9e9 < beats[1].mono_ns - beats[0].mono_ns < 2e9


def test_a_journal_is_followed_by_the_next_in_time_and_only_when_there_was_something(tmp_path):
    with tapping(tmp_path / "t", limits=RingLimits(rotate_seconds=0.2)) as tapped:
        time.sleep(0.5)
        assert len(journals(tmp_path / "t")) == 1
        client, broker = tapped.connected()
        for n in range(1, 4):
            client.send(flow(n))
            broker.read(len(flow(n)))
            eventually(lambda n=n: len(journals(tmp_path / "t")) > n)
        tapped.relay.flush()
        time.sleep(0.5)
        assert [path.name for path in journals(tmp_path / "t")] == [
            f".journal-00000{n}.pdj" for n in range(1, 5)
        ]
    permits = [row.permits for row in rows_in(tmp_path / "t") if row.permits]
    assert permits == [1, 2, 3]


def test_a_journal_goes_on_until_its_time_has_come(tapped):
    client, broker = tapped.connected()
    for n in range(1, 5):
        client.send(flow(n))
        broker.read(len(flow(n)))
        time.sleep(0.12)
    assert len(journals(tapped.relay.trace_dir)) == 1


def test_a_full_disk_costs_records_that_are_counted_and_no_byte_of_the_traffic(tmp_path):
    trace = tmp_path / "t"
    with tapping(trace) as tapped:
        client, broker = tapped.connected()
        tapped.relay.flush()
        room = journals(trace)[0].stat().st_size + 10  # some bytes of a block still fit
        before, hard = resource.prlimit(tapped.relay.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(tapped.relay.pid, resource.RLIMIT_FSIZE, (room, hard))
        for n in range(1, 51):
            client.send(flow(n))
            assert broker.read(len(flow(n))) == flow(n)
            if n % 10 == 0:
                tapped.relay.flush()
        assert [row.command for row in rows_in(trace)] == ["OPEN", "CONNECT", "CONNECTED"]
        resource.prlimit(tapped.relay.pid, resource.RLIMIT_FSIZE, (before, hard))
        client.send(flow(77))
        assert broker.read(len(flow(77))) == flow(77)
        tapped.relay.flush()
        *_, gap, last = rows_in(trace)
        assert (gap.command, gap.dropped, gap.conn_id) == ("GAP", 50, None)
        assert (last.permits, gap.mono_ns <= last.mono_ns) == (77, True)
        client.send(flow(78))
        broker.read(len(flow(78)))
        tapped.relay.flush()
        assert rows_in(trace)[-1].permits == 78
    assert sum(row.command == "GAP" for row in rows_in(trace)) == 1


def test_what_belongs_to_the_owner_only_is_for_the_owner_only(tmp_path):
    trace = tmp_path / "made" / "t"
    with tapping(trace):
        assert trace.stat().st_mode & 0o777 == 0o700
        for path in trace.iterdir():
            assert path.stat().st_mode & 0o777 == 0o600, path.name


def test_the_trace_says_what_it_is(tmp_path):
    told = {"c": {"receiver_queue_size": 10}}
    with tapping(tmp_path / "t", given=told) as tapped:
        meta = json.loads((tmp_path / "t" / "_meta.json").read_text())
        assert meta["schema_version"] == 1
        assert len(meta["trace_id"]) == 32
        assert f"pulsar://{meta['tap_address']}" == tapped.relay.service_url
        assert meta["upstream_address"] == tapped.broker_url
        assert meta["told"] == told
        assert meta["clocks"]["wall_us"] == pytest.approx(time.time() * 1e6, abs=20e6)
        assert 0 < meta["clocks"]["mono_ns"] <= time.monotonic_ns()


# How a relay starts, or does not.


def relay_says(trace_dir: Path, port: int = 0) -> dict[str, str]:
    """The first word of a relay whose stdin ends at once."""
    config = {
        "listen_host": "127.0.0.1", "listen_port": port, "upstream": [["127.0.0.1", 1]],
        "trace_dir": str(trace_dir), "seal_every_seconds": 60,
    }  # fmt: skip
    run = subprocess.run(
        [sys.executable, "-m", "pulsar_doctor.parts.tap.relay"],
        input=json.dumps(config).encode() + b"\n" + b"no json\n[]\n{}\n",
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert run.stderr == b""
    return json.loads(run.stdout.splitlines()[0])


def test_one_trace_has_one_relay_and_numbers_go_on_where_another_stopped(tmp_path):
    trace = tmp_path / "t"
    with tapping(trace):
        assert "another tap writes to" in relay_says(trace)["error"]
    (trace / "seg-000007.parquet").touch()
    assert "listening" in relay_says(trace)
    assert journals(trace)[-1].name == ".journal-000008.pdj"


def start(trace_dir: Path, **options: str) -> None:
    """A relay that ends at once, if it comes up."""
    with relaying("pulsar://127.0.0.1:1", trace_dir, RelayOptions(**options)):
        pass


def test_a_port_that_is_taken_is_said_in_one_sentence(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(DoctorError, match=f"cannot listen on {where}: Address already in use"):
            start(tmp_path / "t", listen=where)


@pytest.mark.parametrize(
    ("url", "upstream"),
    [
        ("pulsar://a:1,b:2", "a:1"),
        ("pulsar://:x,b:2", "b:2"),
        ("pulsar://broker", "broker:6650"),
        ("pulsar://[::1]:6650", "[::1]:6650"),
        ("pulsar+ssl://broker", "broker:6651"),
    ],
)
def test_the_first_broker_of_a_service_url_that_can_be_read_is_used(url, upstream):
    assert str(upstream_of(url)) == upstream


@pytest.mark.parametrize(
    "url",
    ["pulsar://joe:canary@broker:1", "pulsar+ssl://a:1,canary@b:2/", "pulsar://a/canary@b"],
)
def test_a_password_in_a_service_url_is_refused_and_not_repeated(url):
    with pytest.raises(InputError) as refused:
        upstream_of(url)
    assert str(refused.value) == (
        "no credentials in the service URL: use --auth-plugin and --auth-params"
    )


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://a:8080", "past the tap"),
        ("https://a:8443", "past the tap"),
        ("pulsar://", "is not a service URL"),
        ("kafka://user:secret@a:1", "no credentials in the service URL"),
        ("kafka://a:1", "kafka://a:1 is not a service URL"),
    ],
)
def test_a_service_url_that_cannot_be_tapped_is_refused_in_clear_words(url, said):
    with pytest.raises(DoctorError, match=said) as refused:
        upstream_of(url)
    assert "secret" not in str(refused.value)


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty"):
        start(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_the_relay_works_without_uvloop(tmp_path):
    code = (
        "import runpy, sys; sys.modules['uvloop'] = None; "
        "runpy.run_module('pulsar_doctor.parts.tap.relay', run_name='__main__')"
    )
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        config = Config("127.0.0.1", 0, (server.getsockname(),), str(tmp_path), 60)
        process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        )
        process.stdin.write(json.dumps(to_json(config)).encode() + b"\n")
        process.stdin.flush()
        listening = json.loads(process.stdout.readline())["listening"]
        relay = Relay((process, listening, None), config)
        tapped = Tapped(relay, server, stack)
        client, broker = tapped.connected()
        client.send(flow(4))
        client.sock.shutdown(socket.SHUT_WR)
        assert broker.rest() == flow(4)
        broker.send(message(1, b"late"))
        assert client.read(len(message(1, b"late"))) == message(1, b"late")
        broker.sock.close()
        assert client.rest() == b""
        commands = eventually(lambda: (c := tapped.commands(client))[-1] == "CLOSE" and c)
        assert commands == ["OPEN", "CONNECT", "CONNECTED", "FLOW", "MESSAGE", "CLOSE"]
        relay.stop()
