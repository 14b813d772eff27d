"""pulsar-doctor known-issues: lists, one in full, versions in use, and what a file fits."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.cli import run
from tests.broker.http_broker import HttpBroker, Reply
from tests.broker.replayed import cluster
from tests.cli.checked import Check, check
from tests.known.fixture import NOW_MS, TOPIC
from tests.known.fixture import load as fixtures

__all__ = ["check"]  # a fixture

STATE = fixtures()["shared-read-lost"]


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A file of `stall-check --save` with that state in two samples."""
    path = tmp_path / "incident.jsonl"
    head = {"schema": "pulsar-doctor/samples/1"}
    readings = [
        {"topic": TOPIC, "taken_ms": at_ms, "stats": STATE.stats, "internal": STATE.internal}
        for at_ms in (1_790_000_000_000, 1_790_000_030_000)
    ]
    path.write_text("\n".join(map(json.dumps, (head, *readings))))
    return str(path)


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run(["known-issues", *arguments]) == code
    streams = capsys.readouterr()
    return streams.err if code else streams.out


def test_a_list_of_what_a_version_has(capsys: pytest.CaptureFixture[str]) -> None:
    everything = said(capsys, "list").splitlines()
    some = said(capsys, "list", "--component", "broker", "--version", "4.0.8").splitlines()
    assert len(everything) > 100
    assert 20 < len(some) < 60
    ids = [{line.split()[0] for line in lines} for lines in (some, everything)]
    assert ids[0] < ids[1]
    assert any(line.startswith("apache/pulsar#25581") and " 4.0.11 " in line for line in some)
    assert not any(line.startswith("apache/pulsar#26454") for line in some)  # from 4.0.12 on


def test_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(said(capsys, "list", "--component", "rust", "-o", "json"))
    assert document["schema"] == "pulsar-doctor/known-issues/1"
    assert {issue["component"] for issue in document["issues"]} == {"rust"}


def test_one_issue_by_its_id_or_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    whole = said(capsys, "show", "apache/pulsar#26454")
    assert whole == said(capsys, "show", "26454")
    assert "fits when   cursor.read_pending and not cursor.replay_pending" in whole
    assert "warning     an unload disconnects" in whole


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("show", "apache/pulsar#26455"), "there is no issue 'apache/pulsar#26455'"),
        (("show", "266"), "there is no issue '266'; apache/pulsar"),
        (("list", "--component", "brker"), "there is no component 'brker'; did you mean broker"),
        (("list", "--version", "new"), "'new' is not a version"),
        (("check", "orders", "--stats", "f"), "name topics, or give --stats"),
        (("check", "--broker-version", "4.0.8"), "--broker-version needs --stats"),
    ],
)
def test_wrong_usage_is_said(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], error: str
) -> None:
    assert error in said(capsys, *arguments, code=2)


def test_what_a_file_fits(capsys: pytest.CaptureFixture[str], file: str) -> None:
    out = said(capsys, "match", file, "--broker-version", "4.0.12")
    assert out.startswith("known      s: apache/pulsar#26454: ")
    assert "no known issue fits\n" in said(capsys, "match", file, "--broker-version", "2.8.0")
    document = json.loads(said(capsys, "match", file, "-o", "json"))
    [subscription] = document["subscriptions"]
    known = subscription["known_issues"][0]
    assert (known["id"], known["grade"]) == ("apache/pulsar#26454", "possible")
    assert known["missing"] == ["the version of the broker"]


def test_a_page_fits_what_its_file_fits(
    capsys: pytest.CaptureFixture[str], file: str, tmp_path: Path
) -> None:
    page = str(tmp_path / "page.html")
    assert run(["-q", "report", file, "-o", page]) == 0
    capsys.readouterr()
    version = ("--broker-version", "4.0.12")
    assert said(capsys, "match", page, *version) == said(capsys, "match", file, *version)


def test_check_says_which_issues_the_statistics_show(
    capsys: pytest.CaptureFixture[str], file: str
) -> None:
    options = ("check", "--stats", file, "--broker-version", "4.0.12")
    head, first, shown, *_ = said(capsys, *options).splitlines()
    assert head.endswith(" known issues, 1 of them shown by its statistics")
    assert first.startswith("  apache/pulsar#26454  ")
    topic = TOPIC.removeprefix("persistent://")
    assert shown == f"    shown by s on {topic}"
    broker, *_ = json.loads(said(capsys, *options, "-o", "json"))["versions"]
    assert broker["shown"] == [{"id": "apache/pulsar#26454", "subscriptions": [f"s on {topic}"]}]


def test_a_list_names_the_fix_on_the_line_of_the_version(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fixed = {
        version: line.split()[1]
        for version in ("4.0.3", "3.0.10")
        for line in said(capsys, "list", "--version", version).splitlines()
        if line.startswith("apache/pulsar#24697 ")
    }
    assert fixed == {"4.0.3": "4.0.7", "3.0.10": "3.0.14"}
    assert "apache/pulsar#24697 3.0.14 +4 " in " ".join(said(capsys, "list").split())


def test_what_is_known_against_the_versions_in_use(
    capsys: pytest.CaptureFixture[str], file: str
) -> None:
    options = ("check", "--stats", file, "--broker-version", "4.0.8")
    lines = said(capsys, *options).splitlines()
    assert lines[0].startswith("broker 4.0.8: ")
    assert any(line.startswith("java 4.0.8, 1 consumer: ") for line in lines)
    broker, client = json.loads(said(capsys, *options, "-o", "json"))["versions"]
    assert (broker["component"], client["component"]) == ("broker", "java")
    line, newest = broker["upgrades"]
    assert (line["to"], newest["to"]) == ("4.0.14", "5.0.0")
    assert 0 < line["removes"] < newest["removes"] < len(broker["issues"])
    assert client["consumers"] == 1


def known_by(capsys: pytest.CaptureFixture[str], *files: str) -> dict[str, Any]:
    """The first issue that `stall-check` names of these files."""
    assert run(["stall-check", *files, "-o", "json"]) in (1, 3)
    [subscription] = json.loads(capsys.readouterr().out)["subscriptions"]
    return dict(subscription["known_issues"][0])


def test_stall_check_names_it_beside_its_finding(
    capsys: pytest.CaptureFixture[str], file: str
) -> None:
    known = known_by(capsys, "--stats", file)
    assert (known["id"], known["grade"]) == ("apache/pulsar#26454", "possible")
    assert "Warning: " in known["workaround"]
    known = known_by(capsys, "--stats", file, "--broker-version", "4.0.12")
    assert (known["id"], known["grade"]) == ("apache/pulsar#26454", "matches")
    assert run(["stall-check", "orders", "--broker-version", "4.0.12"]) == 2
    assert "--broker-version needs --stats, --internal-stats, " in capsys.readouterr().err


VERSION = "brokers/version"


def replayed(version: bytes, topic: str = "orders") -> AbstractContextManager[HttpBroker]:
    """A broker of that version with that state, ten seconds from one reading to the next."""
    steps = [
        {"date_ms": NOW_MS + at * 10_000, "stats": STATE.stats, "internal": STATE.internal}
        for at in range(3)
    ]
    return cluster({topic: steps}, replies={VERSION: Reply(body=version)})


@pytest.mark.parametrize(
    ("named", "topics"),
    [("orders", ("orders",)), ("orders-partition-0", ("orders",)), ("orders", ())],
)
def test_the_versions_of_a_live_cluster(
    capsys: pytest.CaptureFixture[str], named: str, topics: tuple[str, ...]
) -> None:
    with replayed(b"4.0.12", named) as broker:
        out = said(capsys, "check", *topics, "--admin-url", broker.url, "-o", "json")
        first = said(capsys, "check", *topics, "--admin-url", broker.url).splitlines()[0]
    told = {each["component"]: each["version"] for each in json.loads(out)["versions"]}
    assert told == {"broker": "4.0.12", "java": "4.0.8"}
    assert json.loads(out)["cluster"]["admin_url"] == broker.url
    assert first == f"{broker.url}, Pulsar 4.0.12"


def test_a_topic_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with replayed(b"4.0.12") as broker:
        assert "bills" in said(capsys, "check", "bills", "--admin-url", broker.url, code=3)


def kept_match(capsys: pytest.CaptureFixture[str], folder: Path) -> dict[str, Any]:
    """What `match` says of the file that a check has kept there."""
    document = json.loads(said(capsys, "match", str(folder / "kept"), "-o", "json"))
    return dict(document["subscriptions"][0]["known_issues"][0])


def test_a_live_verdict_and_what_it_saves_know_the_version_of_the_broker(
    capsys: pytest.CaptureFixture[str], check: Check, tmp_path: Path
) -> None:
    with replayed(b"4.0.12") as broker:
        told = check(broker, "orders", "-o", "json")
        [subscription] = told.document["subscriptions"]
        known = subscription["known_issues"][0]
        assert (known["id"], known["grade"]) == ("apache/pulsar#26454", "matches")
        assert known["affects"] == "your 4.0.12 has it, and no release fixes it yet"
        assert told.code in (1, 3)
        check(broker, "orders", "--save", str(tmp_path / "kept"))
    for named in (
        known_by(capsys, "--stats", str(tmp_path / "kept")),
        kept_match(capsys, tmp_path),
    ):
        assert (named["id"], named["grade"]) == ("apache/pulsar#26454", "matches")
    with replayed(b"4.0.11") as broker:
        [subscription] = check(broker, "orders", "-o", "json").document["subscriptions"]
        assert "apache/pulsar#26454" not in [each["id"] for each in subscription["known_issues"]]
