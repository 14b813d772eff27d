"""`bundle`: what it collects, what never gets into it, and who reads it again."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.broker.samples.bundled import FILES, README, SAMPLES, packed
from pulsar_doctor.broker.samples.files import opened
from pulsar_doctor.cli import run
from pulsar_doctor.errors import InputError
from tests.broker.http_broker import HttpBroker, Reply
from tests.broker.replayed import Step, cluster, stuck
from tests.cli.checked import QUICK, SECRET, TOKEN, Check, check
from tests.support.command_line import pulsar_doctor

__all__ = ["check"]  # a fixture

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


def claiming(size: bytes) -> bytes:
    """One file that claims to be of this size."""
    whole = gzip.decompress(tar())
    return gzip.compress(whole[:124] + size.ljust(12, b"\0") + whole[136:])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (tar(name="../../etc/passwd"), "is not a bundle: it contains '../../etc/passwd'"),
        (tar(name="/etc/passwd"), "is not a bundle"),
        (tar(name="\x1b[31mred"), "is not a bundle"),
        (tar(type=tarfile.SYMTYPE, linkname="/etc/passwd"), "is not a bundle: it contains 'README"),
        (tar(type=tarfile.LNKTYPE, linkname="case.json"), "is not a bundle"),
        (claiming(b"77777777777"), "is longer than any bundle"),
        (claiming(b"-1"), "has no size"),
        (claiming(b"70000"), "is cut off"),
        (tar(content=b"x" * 600), "is a bundle without case.json"),
        (gzip.compress(gzip.decompress(tar())[:512] * 3000), "is longer than any bundle"),
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
    again = pulsar_doctor("stall-check", "--case", str(path), "-o", "json")
    (one,) = json.loads(again.stdout)["subscriptions"]
    assert (one["type"], len(one["consumers"])) == ("Exclusive", 1)
