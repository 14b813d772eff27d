"""`pulsar-doctor capture`: a trace that every reader takes, and nothing secret in it."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from io import FileIO

import pytest

from pulsar_doctor.parts.capture.command.options import PIPE
from pulsar_doctor.parts.capture.command.reading import _chunks
from pulsar_doctor.trace.sealing import open_trace
from tests.parts.capture.packing import Talk, block, option, pcap, pcapng, zipped
from tests.parts.capture.talks import BEGINNING, PING, said
from tests.parts.tap.tapped import PONG, SECRET, flow, message
from tests.support.command_line import answered, pulsar_doctor
from tests.support.wanting import wanting

PAYLOAD = b"nobody-may-read-this"


def conversation(*, closes: bool = True) -> Talk:
    talk = Talk().open()
    for way, data, _ in BEGINNING:
        talk.say(way, data)
    talk.say(0, flow(10))
    for entry in range(5):
        talk.say(1, message(1, PAYLOAD * 300, entry))
    return talk.close() if closes else talk


@pytest.fixture
def files(tmp_path):
    packets = conversation().packets
    contents = {"a.pcap": pcap(packets), "a.pcapng.gz": zipped(pcapng(packets))}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.mark.parametrize("name", ["a.pcap", pytest.param("a.pcapng.gz", marks=pytest.mark.slow)])
def test_a_capture_becomes_a_trace_that_every_reader_takes(files, name):
    trace = str(files / "t.ptrace")
    made = pulsar_doctor("capture", str(files / name), "--trace", trace, "-o", "json")
    assert made.returncode == 0, made.stderr
    told = json.loads(made.stdout)
    assert told["rows"] == 12
    assert told["bytes"]["seen"] == told["bytes"]["used"]
    for reader in (["trace", "verify"], ["trace", "summary"], ["trace", "show"]):
        run = answered(*reader, trace)
        assert run.returncode == 0, run.stdout + run.stderr
    run = answered("stall-check", "--trace", trace, "-o", "json")
    (found,) = json.loads(run.stdout)["subscriptions"]
    assert (found["subscription"], found["status"]) == ("s", "unknown")  # it acks none
    run = answered("simulate", "--from-trace", trace, "--process-time", "1s")
    assert run.returncode in (0, 1), run.stderr
    topic = "persistent://public/default/t"
    run = answered("holes", topic, "-s", "s", "--trace", trace)
    assert run.returncode in (0, 1), run.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), 0),
        (("--fail-on", "stalled"), 3),  # a few messages are held in silence: a suspicion
        (("--fail-on", "warning"), 3),
        (("--fail-on", "warning", "--set", "not-acknowledging.silent_for=1d"), 3),
    ],
)
def test_the_code_tells_the_verdict_where_that_is_asked_for(tmp_path, arguments, code):
    talk = conversation(closes=False).wait(400).say(1, PING).say(0, PONG)
    (tmp_path / "a.pcap").write_bytes(pcap(talk.packets))
    trace = ("--trace", str(tmp_path / "t"))
    run = answered("capture", str(tmp_path / "a.pcap"), *trace, *arguments)
    assert run.returncode == code, run.stderr
    assert ("  s on t: " in run.stdout) == bool(arguments)


def test_a_pipe_is_read_like_a_file(files):
    command = [sys.executable, "-m", "pulsar_doctor", "capture", "-", "--trace", str(files / "t")]
    with (files / "a.pcap").open("rb") as pipe:
        run = subprocess.run(command, stdin=pipe, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr
    assert sum(1 for _ in open_trace(files / "t").rows()) == 12


def test_what_is_in_a_pipe_is_read_up_to_its_end():
    reads, writes = os.pipe()
    os.write(writes, b"all that comes")
    os.close(writes)
    waits: list[bool] = []
    with FileIO(reads) as pipe:
        chunks = _chunks(pipe, str(PIPE), lambda *, quiet: waits.append(quiet), seconds=5)
        assert b"".join(chunks) == b"all that comes"
    assert waits == [False, False]  # before what is there, and before the end


def test_several_files_are_one_capture(files):
    packets = conversation().packets
    (files / "1").write_bytes(pcap(packets[9:]))
    (files / "2").write_bytes(pcapng(packets[:9]))
    run = answered("capture", str(files / "1"), str(files / "2"), "--trace", str(files / "t"))
    assert run.stdout.startswith("12 rows of 1 connection are in")


def test_no_payload_and_no_credential_reaches_the_trace(files):
    other = Talk(client=(b"\x0a\0\0\x09", 5)).open().say(0, b"GET / " + SECRET + b"\r\n" * 9)
    packets = [*conversation().packets, *other.close().packets]
    (files / "b.pcap").write_bytes(pcap(packets))
    run = answered("capture", str(files / "b.pcap"), "--trace", str(files / "t"))
    assert "not Pulsar, and are not kept: 1" in run.stdout
    rows = list(open_trace(files / "t").rows())
    assert {row.client_addr for row in rows} == {"10.0.0.7:43668"}
    written = repr([[getattr(row, name) for name in row.__slots__] for row in rows]).encode()
    kept = b"".join(p.read_bytes() for p in (files / "t").iterdir() if p.is_file())
    for secret in (SECRET, PAYLOAD):
        assert secret not in written + kept + (run.stdout + run.stderr).encode()


def test_of_one_client_and_of_other_ports(files):
    file = str(files / "a.pcap")
    for number, (client, code) in enumerate(
        {"10.0.0.7": 0, "10.0.0.7:43668": 0, "10.0.0.8": 3, "nobody": 2}.items()
    ):
        run = answered("capture", file, "--client", client, "--trace", str(files / f"t{number}"))
        assert run.returncode == code, (client, run.stderr)
    run = answered("capture", file, "--port", "6651", "--trace", str(files / "other"))
    assert run.returncode == 3
    assert "--port says where brokers listen" in run.stderr


def test_tls_is_said_with_what_helps_instead(files):
    talk = Talk().open().say(0, b"\x16\x03\x01\x02\0" + bytes(512)).close()
    (files / "tls.pcap").write_bytes(pcap(talk.packets))
    run = answered("capture", str(files / "tls.pcap"), "--trace", str(files / "t"))
    assert run.returncode == 3
    assert "the traffic with 10.0.0.1:6650 is TLS" in run.stderr
    assert "pulsar-doctor tap" in run.stderr


def test_damage_is_one_sentence_and_what_came_before_it_is_kept(files):
    content = (files / "a.pcap").read_bytes()
    (files / "b.pcap").write_bytes(content + b"\xff" * 16)
    run = answered("capture", str(files / "b.pcap"), "--trace", str(files / "t"))
    assert run.returncode == 2
    assert "is damaged" in run.stderr
    assert "Traceback" not in run.stderr
    assert answered("trace", "verify", str(files / "t")).returncode == 0


def test_packets_whose_time_cannot_be_are_counted_and_the_rest_is_read(files):
    packets = conversation().packets
    plain = pcapng(packets)
    far = block("<", 1, struct.pack("<HHI", 1, 0, 0) + option("<", 14, struct.pack("<q", 1 << 62)))
    sizes = len(packets[0].data), packets[0].wire_bytes
    seen = block("<", 6, struct.pack("<IIIII", 1, 0, 0, *sizes) + packets[0].data)
    (files / "b.pcapng").write_bytes(plain[:56] + far + seen + plain[56:])
    run = answered("capture", str(files / "b.pcapng"), "--trace", str(files / "t"))
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("12 rows of 1 connection")
    assert "1 packets have an impossible time, and were left out" in run.stdout


def test_a_loss_makes_the_ledger_unknown_and_the_trace_says_so(files):
    whole = said([*BEGINNING, (0, flow(10), 0), (1, message(1, b"x", 1), 0), (0, flow(5), 2)])
    lost = next(packet for packet in whole.packets if message(1, b"x", 1) in packet.data)
    (files / "b.pcap").write_bytes(pcap([each for each in whole.packets if each is not lost]))
    answered("capture", str(files / "b.pcap"), "--trace", str(files / "t"))
    trace = open_trace(files / "t")
    rows = [(row.command, row.available_permits) for row in trace.rows()]
    assert ("FLOW", 10) in rows
    behind = rows[[name for name, _ in rows].index("UNPARSED") :]
    assert all(available is None for _, available in behind)
    meta = json.loads((files / "t" / "_meta.json").read_text())
    assert meta["capture"]["bytes"]["missing"] == len(message(1, b"x", 1))


def test_a_folder_that_is_not_empty_is_left_alone(files):
    run = answered("capture", str(files / "a.pcap"), "--trace", str(files))
    assert run.returncode == 2
    assert "is not empty" in run.stderr


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_spark_reads_it_too(files):
    pytest.importorskip("pyspark")
    trace = str(files / "t.ptrace")
    assert answered("capture", str(files / "a.pcap"), "--trace", trace).returncode == 0
    run = pulsar_doctor("analyze", trace, "-o", "json", timeout=300)
    assert run.returncode == 3, run.stderr  # it acks none
    assert json.loads(run.stdout)["schema"].startswith("pulsar-doctor/analyze/")


def test_each_row_says_how_it_is_known(files):
    whole = said([*BEGINNING, *((0, flow(n), 1.5) for n in range(1, 6))])
    (files / "later.pcap").write_bytes(pcap(whole.packets[9:]))
    for name, known in (("a.pcap", {"beginning"}), ("later.pcap", {"beginning", "silence"})):
        trace = files / f"of-{name}"
        run = answered("capture", str(files / name), "--trace", str(trace))
        assert run.returncode == 0, run.stderr
        rows = list(open_trace(trace).rows())
        assert {row.known_by for row in rows} == known
        assert {row.known_by for row in rows if row.command == "FLOW"} == {max(known)}


def test_only_so_many_seconds_of_it(files):
    whole = said([*BEGINNING, *((0, flow(n), 1.5) for n in range(1, 6))])
    (files / "b.pcap").write_bytes(pcap(whole.packets))
    trace = files / "t"
    run = answered("capture", str(files / "b.pcap"), "--for", "4s", "--trace", str(trace))
    assert run.returncode == 0, run.stderr
    assert sum(row.command == "FLOW" for row in open_trace(trace).rows()) == 3


def test_a_pipe_that_does_not_end_is_left_after_its_time(files):
    command = [sys.executable, "-m", "pulsar_doctor", "capture", "-", "--for", "2s"]
    command += ["--trace", str(files / "t")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        process.stdin.write((files / "a.pcap").read_bytes())
        process.stdin.flush()
        assert process.wait(60) == 0
    assert sum(1 for _ in open_trace(files / "t").rows()) == 12


def test_files_or_an_interface_and_not_both(files):
    for arguments in ([], ["-i", "lo", str(files / "a.pcap")]):
        run = answered("capture", *arguments, "--trace", str(files / "t"))
        assert run.returncode == 2
        assert "give either files" in run.stderr
    run = pulsar_doctor("capture", "-i", "no-such-0", "--trace", str(files / "t"))
    assert run.returncode in (2, 3)
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.skipif(shutil.which("setpriv") is None, reason=wanting("setpriv"))
def test_without_the_right_to_capture_it_says_what_does_without(files):
    less = ["setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw"]
    run = subprocess.run(
        [*less, sys.executable, "-m", "pulsar_doctor", "capture", "-i", "lo",
         "--trace", str(files / "t")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 3
    assert "CAP_NET_RAW" in run.stderr
    assert "sudo tcpdump -i lo -U -w - 'tcp port 6650' | pulsar-doctor capture -" in run.stderr


def test_whoever_is_there_when_the_capture_ends_is_attached(tmp_path):
    file, trace = tmp_path / "f.pcap", str(tmp_path / "t")
    file.write_bytes(pcap(conversation(closes=False).packets))
    assert answered("capture", str(file), "--trace", trace).returncode == 0
    assert [row.command for row in open_trace(tmp_path / "t").rows()][-1] == "MESSAGE"
    (told,) = json.loads(answered("trace", "summary", trace, "-o", "json").stdout)["consumers"]
    assert told["closed"] is None
    assert "#1 attached" in answered("trace", "summary", trace).stdout


@pytest.mark.parametrize("content", [b"no capture at all", pcap([])])
@pytest.mark.parametrize("there", [False, True])
def test_a_capture_that_fails_leaves_no_folder_behind(tmp_path, content, there):
    file, above = tmp_path / "f.pcap", tmp_path / "above"
    file.write_bytes(content)
    if there:
        (above / "t").mkdir(parents=True)
    run = answered("capture", str(file), "--trace", str(above / "t"))
    assert run.returncode in (2, 3), run.stderr
    assert sorted(tmp_path.rglob("*")) == sorted([file, *[above, above / "t"] * there])
