"""`bundle`: what it collects, what never gets into it, and who reads it again."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.broker.samples.bundled import FILES, README, SAMPLES, TRACE, packed
from pulsar_doctor.broker.samples.files import opened
from pulsar_doctor.cli import run
from pulsar_doctor.errors import InputError
from tests.broker.http_broker import HttpBroker, Reply
from tests.broker.replayed import Step, cluster, stuck
from tests.cli.checked import QUICK, SECRET, TOKEN, Check, check
from tests.made.traces import write_trace
from tests.made.wire import Wire
from tests.parts.capture.packing import may_capture
from tests.support.command_line import answered, environment, pulsar_doctor
from tests.support.wanting import wanting

__all__ = ["check"]  # a fixture

STATES = Path(__file__).parents[1] / "states" / "4.0.8"
RUNTIME = "brokers/configuration/runtime"
SETTINGS = {
    "clusterName": "standalone", "brokerClientAuthenticationParameters": "canary-token",
    "maxUnackedMessagesPerConsumer": "50000", "replicatorPrefix": "canary.repl",
    "delayedDeliveryEnabled": "true", "dispatcherMaxReadBatchSize": "canary-100",
}  # fmt: skip
Collect = Callable[..., Path]


def planted() -> list[Step]:
    """The stuck state with a canary in what users attach, and as the name of its consumer."""
    steps = deepcopy(stuck())
    for step in steps:
        stats: Any = step["stats"]  # type: ignore[index]
        stats["ownerBroker"] = "canary-host:8080"
        for subscription in stats["subscriptions"].values():
            subscription["subscriptionProperties"] = {"a": "canary-secret"}
            for consumer in subscription["consumers"]:
                consumer["metadata"] = {"password": "canary-secret"}
                consumer["consumerName"] = "canary-worker"
    return steps


@pytest.fixture
def collect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Collect:
    for variable in ("SERVICE_URL", "ADMIN_URL", "CLIENT_CONF", "AUTH_PLUGIN", "AUTH_PARAMS"):
        monkeypatch.delenv(f"PULSAR_DOCTOR_{variable}", raising=False)

    def collecting(broker: HttpBroker, *arguments: str) -> Path:
        path = tmp_path / f"incident-{len([*tmp_path.iterdir()])}.tar.gz"
        live = ("--admin-url", broker.url, *TOKEN, *QUICK)
        assert run(["bundle", "orders", *live, "-o", str(path), *arguments]) == 0
        return path

    return collecting


def files_of(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        found = {each.name: archive.extractfile(each) for each in archive}
        texts = {name: file.read() for name, file in found.items() if file}
    texts[SAMPLES] = gzip.decompress(texts[SAMPLES])
    return texts


def test_it_gives_the_same_verdicts_again_and_says_first_what_it_contains(
    collect: Collect, check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster({"orders": stuck()}, replies={RUNTIME: Reply(document=SETTINGS)}) as broker:
        path = collect(broker)
    files, printed = files_of(path), capsys.readouterr().out
    assert next(iter(files)) == README
    assert printed == files[README].decode()
    for name in files:
        assert f"  {name}: " in printed
    assert "billing on persistent://public/default/orders: stalled" in printed
    assert json.loads(files["configuration.json"]) == {
        "delayedDeliveryEnabled": "true", "maxUnackedMessagesPerConsumer": "50000",
    }  # fmt: skip
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    again = check(None, "--case", str(path), "-o", "json", credentials=())
    samples = check(None, "--stats", str(path), "-o", "json", credentials=())
    assert (again.code, samples.code) == (1, 1)
    (one,), (other,) = again.document["subscriptions"], samples.document["subscriptions"]
    assert one["findings"][0]["code"] == other["findings"][0]["code"]
    assert again.document["source"] == "broker"


@pytest.mark.parametrize("redact", [False, True])
def test_no_secret_gets_into_it_and_no_name_where_it_is_redacted(
    collect: Collect, check: Check, capsys: pytest.CaptureFixture[str], *, redact: bool
) -> None:
    with cluster({"orders": planted()}, replies={RUNTIME: Reply(document=SETTINGS)}) as broker:
        path = collect(broker, *["--redact"] * redact)
        host = broker.url.removeprefix("http://").partition(":")[0]
    text = b"\n".join(files_of(path).values()).decode()
    assert SECRET not in text + capsys.readouterr().out
    found = {"canary-worker", "canary-host"} if not redact else set()
    assert set(re.findall("canary-[a-z]+", text)) == found
    if redact:
        assert not re.search(rf"billing|public/default|{re.escape(host)}", text)
        for source in ("--case", "--stats"):
            again = check(None, source, str(path), "-o", "json", credentials=())
            assert again.code == 1, again.err
            (one,) = again.document["subscriptions"]
            assert one["status"] == "stalled"
            assert re.fullmatch(r"subscription-\w{8}", one["subscription"])


def with_a_trace(folder: Path) -> tuple[Path, Path]:
    """A trace, and a bundle that has it beside samples of the same subscription."""
    samples = (STATES / "prefetch-hogging.jsonl.gz").read_bytes()
    of = next(
        each for each in map(json.loads, gzip.decompress(samples).splitlines()) if "stats" in each
    )
    where = {"topic": of["topic"], "subscription": next(iter(of["stats"]["subscriptions"]))}
    said = Wire().open().attached(1, "slow", **where).flow(10).pushed(range(10)).wait(120)
    trace = write_trace(folder / "t.ptrace", said.blocks)
    names = [each for each in trace.iterdir() if not each.name.endswith(".lock")]
    files = {f"{TRACE}/{each.name}": each.read_bytes() for each in names}
    path = folder / "incident.tar.gz"
    path.write_bytes(packed({README: b"", SAMPLES: samples, **files}))
    return trace, path


def test_a_bundle_without_a_trace_is_not_called_no_trace_of_ours(
    tmp_path: Path, check: Check
) -> None:
    samples = (STATES / "prefetch-hogging.jsonl.gz").read_bytes()
    (path := tmp_path / "in cident.tar.gz").write_bytes(packed({README: b"", SAMPLES: samples}))
    checked = check(None, "--trace", str(path), credentials=())
    assert checked.code == 2
    assert checked.sentence() == (
        f"{path} is a bundle without a trace, which `bundle --capture` adds; "
        f"`pulsar-doctor stall-check --stats '{path}'` judges its statistics"
    )


def test_the_trace_in_a_bundle_is_read_as_if_it_was_a_folder(tmp_path: Path, check: Check) -> None:
    trace, bundle = with_a_trace(tmp_path)
    one, other = (
        check(None, "--trace", str(each), "-o", "json", credentials=()) for each in (trace, bundle)
    )
    assert other.document["subscriptions"] == one.document["subscriptions"]
    assert other.document["sources"] == ["trace"]
    page = tmp_path / "page.html"
    assert run(["report", str(bundle), "-o", str(page)]) == 0
    drawn = page.read_text()
    assert re.search(r"slow of [\w-]+ on prefetch", drawn)  # of the trace
    assert "Available permits (solid)" in drawn
    assert "unsent permits" in drawn
    assert sorted(each.name for each in tmp_path.iterdir() if each.suffix != ".lock") == [
        "incident.tar.gz", "page.html", "t.ptrace",
    ]  # fmt: skip


def test_a_page_of_a_bundle_has_the_verdicts_of_its_case(
    collect: Collect, check: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster({"orders": stuck()}) as broker:
        bundle = collect(broker)
    page = tmp_path / "page.html"
    assert run(["report", str(bundle), "-o", str(page)]) == 0
    capsys.readouterr()
    one, other = (
        check(None, "--case", str(each), "-o", "json", credentials=()) for each in (bundle, page)
    )
    assert one.out == other.out
    assert one.document["source"] == "broker"


def test_what_a_process_shows_is_in_the_case(
    collect: Collect, check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster({"orders": stuck()}) as broker:
        path = collect(broker, "--examine", str(os.getpid()), "-s", "billing")
    capsys.readouterr()
    assert f"with what was seen of process {os.getpid()}" in files_of(path)[README].decode()
    again = check(None, "--case", str(path), "-o", "json", credentials=())
    assert again.document["process"]["pid"] == os.getpid()
    assert again.document["subscriptions"][0]["findings"][0]["code"] == "permits-exhausted"


def test_attach_needs_a_process(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code = run(["bundle", "orders", "--attach", "-o", str(tmp_path / "x.tar.gz")])
    assert (code, "--attach needs --examine; add it" in capsys.readouterr().err) == (2, True)


def test_packets_that_cannot_be_read_are_named_as_left_out(collect: Collect) -> None:
    many = ",".join(f"127.0.0.1:{port}" for port in range(7001, 7032))
    with cluster({"orders": stuck()}) as broker:
        capture = ("--capture", "100ms", "--service-url", f"pulsar://{many}")
        files = files_of(collect(broker, *capture))
    assert "packets: 31 ports are too many" in files[README].decode()
    assert "--capture adds them" not in files[README].decode()


def test_what_a_broker_refuses_is_named_as_left_out(collect: Collect) -> None:
    with cluster({"orders": stuck()}, replies={RUNTIME: Reply(403, {"reason": "no"})}) as broker:
        files = files_of(collect(broker, "-s", "billing"))
    assert "configuration.json" not in files
    assert "not readable (it needs a superuser)" in files[README].decode()


def test_a_file_that_exists_is_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "incident.tar.gz"
    path.write_text("mine")
    assert run(["bundle", "orders", "-o", str(path)]) == InputError.exit_code
    assert "exists already; name another file" in capsys.readouterr().err
    assert run(["bundle", "orders", "-o", str(tmp_path / "no" / "x")]) == InputError.exit_code
    assert path.read_text() == "mine"


def test_save_does_not_replace_a_bundle(tmp_path: Path, check: Check) -> None:
    path = tmp_path / "incident.tar.gz"
    line = b'{"schema": "pulsar-doctor/samples/1"}\n'
    path.write_bytes(packed({README: b"", "samples.jsonl.gz": gzip.compress(line)}))
    with cluster({"orders": stuck()}) as broker:
        refused = check(broker, "orders", "--save", str(path))
    assert (refused.code, "holds no samples" in refused.sentence()) == (2, True)


def tar(**entry: Any) -> bytes:
    out = io.BytesIO()
    content = entry.pop("content", b"")
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.USTAR_FORMAT) as archive:
        info = tarfile.TarInfo(entry.pop("name", README))
        info.size = len(content)
        for name, value in entry.items():
            setattr(info, name, value)
        archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def together(*bundles: bytes) -> bytes:
    """The files of all of them, in one bundle."""
    files = [gzip.decompress(each)[:512] for each in bundles]  # each of them is empty
    return gzip.compress(b"".join(files) + bytes(1024))


def claiming(size: bytes) -> bytes:
    """One file that claims to be of this size."""
    whole = gzip.decompress(tar())
    return gzip.compress(whole[:124] + size.ljust(12, b"\0") + whole[136:])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (tar(name="../../etc/passwd"), "is not a bundle: it contains '../../etc/passwd'"),
        (tar(name="/etc/passwd"), "is not a bundle"),
        (tar(name=f"{TRACE}/../../etc/passwd"), "is not a bundle"),
        (tar(name=f"{TRACE}/seg/x"), "is not a bundle"),
        (tar(name="\x1b[31mred"), "is not a bundle"),
        (tar(type=tarfile.SYMTYPE, linkname="/etc/passwd"), "is not a bundle: it contains 'README"),
        (tar(type=tarfile.LNKTYPE, linkname="case.json"), "is not a bundle"),
        (claiming(b"77777777777"), "is longer than any bundle"),
        (claiming(b"-1"), "has no size"),
        (claiming(b"70000"), "is cut off"),
        (tar(content=b"x" * 600), "is a bundle without case.json"),
        (gzip.compress(gzip.decompress(tar())[:512] * 3000), "it contains README.txt twice"),
        (together(tar(name="case.json"), tar(name="case.json")), "it contains case.json twice"),
        (together(tar(name="case.json"), tar(name="../../x")), "it contains '../../x'"),
        (packed({"case.json": b"[" * 100_000}), "is not readable JSON"),
        (packed({"case.json": b"{}"})[:-30], "is cut off"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_hostile_bundle_is_refused_in_a_sentence(
    tmp_path: Path, check: Check, monkeypatch: pytest.MonkeyPatch, content: bytes, why: str
) -> None:
    monkeypatch.setattr("pulsar_doctor.broker.samples.bundled.BUNDLE_BYTES", 1 << 20)
    path = tmp_path / "incident.tar.gz"
    path.write_bytes(content)
    refused = check(None, "--case", str(path), credentials=())
    assert refused.code == InputError.exit_code
    assert why in refused.sentence()
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_each_file_of_a_bundle_can_be_opened(tmp_path: Path) -> None:
    path = tmp_path / "incident.tar.gz"
    packs = {name: gzip.compress(b"x") if name.endswith(".gz") else b"x" for name in FILES}
    path.write_bytes(packed(packs))
    for name in FILES:
        with opened(str(path), name) as stream:
            assert stream.read() == b"x"


def test_a_real_brokers_topic(broker: Any, client: Any, topic: str, tmp_path: Path) -> None:
    consumer = client.subscribe(topic, "billing", consumer_name="worker")
    path = tmp_path / "incident.tar.gz"
    window = ("--window", "1s", "--interval", "500ms")
    ran = pulsar_doctor("bundle", topic, "-o", str(path), *window, "--redact", broker=broker)
    assert ran.returncode == 0, ran.stderr
    consumer.close()
    files = files_of(path)
    assert set(files) == set(FILES)
    assert topic.rpartition("/")[2].encode() not in b"".join(files.values())
    assert b"worker" not in b"".join(files.values())
    again = answered("stall-check", "--case", str(path), "-o", "json")
    (one,) = json.loads(again.stdout)["subscriptions"]
    assert (one["type"], len(one["consumers"])) == ("Exclusive", 1)


@pytest.mark.skipif(not may_capture(), reason=wanting("the right to capture packets"))
def test_a_bundle_with_packets_and_a_process(
    broker: Any,
    client: Any,
    topic: str,
    tmp_path: Path,
    check: Check,
    capsys: pytest.CaptureFixture[str],
) -> None:
    consumer = client.subscribe(topic, "billing", consumer_name="worker")
    producer = client.create_producer(topic)
    named, redacted = tmp_path / "named.tar.gz", tmp_path / "redacted.tar.gz"
    for path, more in ((named, ()), (redacted, ("--redact",))):
        parts = ("--capture", "4s", "--window", "0s", "--examine", str(os.getpid()), *more)
        with collecting(topic, path, *parts, broker=broker):
            for _ in range(40):
                producer.send(b"canary-payload", partition_key="canary-key")
                consumer.acknowledge(consumer.receive(5000))
                time.sleep(0.1)
    files = files_of(named)
    assert f"{TRACE}/_meta.json" in files
    assert "  capture.ptrace: " in files[README].decode()
    assert f"process {os.getpid()}" in files[README].decode()
    assert b"canary" not in b"".join(files.values())
    of_case = check(None, "--case", str(named), "-o", "json", credentials=())
    assert {"stats", "capture"} <= set(of_case.document["sources"])
    heard = check(None, "--trace", str(named), "-o", "json", credentials=()).document
    of_topic = [
        each for each in heard["subscriptions"] if each["topic"].endswith(topic.rpartition("/")[2])
    ]
    assert [each["subscription"] for each in of_topic] == ["billing"], "its port has others, too"
    page = tmp_path / "page.html"
    assert run(["report", str(named), "-o", str(page)]) == 0
    assert "worker of billing on" in page.read_text()
    files = files_of(redacted)
    assert not [name for name in files if name.startswith(TRACE)]
    assert "the trace of the packets: it cannot be redacted" in files[README].decode()
    assert b"worker" not in b"".join(files.values())
    capsys.readouterr()
    of_case = check(None, "--case", str(redacted), "-o", "json", credentials=())
    assert "capture" in of_case.document["sources"]


@contextmanager
def collecting(topic: str, path: Path, *more: str, broker: Any) -> Iterator[None]:
    """A bundle is made while something goes on."""
    line = [sys.executable, "-m", "pulsar_doctor", "bundle", topic, "-o", str(path), *more]
    with subprocess.Popen(line, env=environment(broker), stderr=subprocess.PIPE, text=True) as made:
        yield
        _, err = made.communicate(timeout=120)
    assert made.returncode == 0, err
