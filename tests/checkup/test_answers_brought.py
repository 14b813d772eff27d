"""A whole broker's document, answers about transactions and metrics of clients, from a real 4.0.8.

In answers/: a broker's topics, of which ways-py-hang takes no message; of the topic of stats.json
50 of 100 messages are acknowledged in a transaction that is open for 70 s; a Java and a Go client
that hang, each scraped twice. pulsarctl.json is of the same moment as pulsar-admin-stats.json, by
Apache's Go library for administration, which pulsarctl prints.
"""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from tests.checkup.test_kinds import judged, mutated, recognised_or_refused
from tests.support.command_line import answered

ANSWERS = Path(__file__).parent / "answers"
BROKER, STATS, HANG = (ANSWERS / f"{each}.json" for each in ("broker", "stats", "hang-stats"))
OTHERS = sorted({*ANSWERS.glob("*-*.*")} - set(ANSWERS.glob("*-stats.json")) | {BROKER})
INTERNAL = ("--internal-stats", str(ANSWERS / "internal.json"), "--at", "2026-11-29T16:18:14Z")
PENDING = ANSWERS / "pending-ack-stats.json"


def by_topic(document: dict[str, Any]) -> dict[str, str]:
    return {each["topic"].rpartition("/")[2]: each["status"] for each in document["subscriptions"]}


def test_the_document_of_a_whole_broker_is_its_topics() -> None:
    rc, document = judged(BROKER)
    assert rc == 3
    assert by_topic(document) == {
        "ways-py-hang": "unknown", "ways-java-metrics": "unknown", "ways-txn": "warning",
        "ways-11-hang": "warning", "ways-py-healthy": "healthy",
    }  # fmt: skip
    suspects = [one for each in document["subscriptions"] for one in each["suspects"][:1]]
    assert {"py-hang", "java-metrics"} <= {each["consumer"] for each in suspects}


@pytest.mark.parametrize("version", ["2.11.0", "5.0.0-M1"])
def test_other_versions_name_the_consumer_too_and_statistics_the_topic(version: str) -> None:
    broker, stats = (ANSWERS / f"{name}.json" for name in (f"broker-{version}", f"{version}-stats"))
    for files in ([broker], [stats, broker]):
        rc, document = judged(*files)
        (verdict,) = document["subscriptions"]
        assert (rc, verdict["topic"]) == (3, "persistent://public/default/ways-py-hang")
        assert (verdict["status"], verdict["suspects"][0]["consumer"]) == ("unknown", "py-hang")


def test_two_documents_of_a_broker_are_two_samples(tmp_path: Path) -> None:
    later = tmp_path / "later.json"
    later.write_text(BROKER.read_text().replace('"msgBacklog":80', '"msgBacklog":90'))
    rc, document = judged(BROKER, later, more=("--interval", "60s"))
    assert (rc, document["samples"], len(by_topic(document))) == (3, 2, 5)
    gone = json.loads(BROKER.read_text())
    del gone["public/default"]
    later.write_text(json.dumps(gone))
    rc, document = judged(BROKER, later)
    assert "less than before" in json.dumps(document["unreachable"])


def test_a_part_of_a_brokers_document_is_never_exit_0(tmp_path: Path) -> None:
    text, part = BROKER.read_text(), tmp_path / "part.json"
    topic = text.index('"persistent://public/default/ways-py-healthy"')
    ends = [match.end() for match in re.finditer("}", text) if match.end() > topic]
    for end in ends[:12]:
        part.write_text(text[topic + 47 : end])
        done = answered("-q", "stall-check", "--stats", str(part))
        assert done.returncode in (1, 2, 3), text[topic:end]


def test_statistics_of_a_topic_count_before_a_whole_brokers() -> None:
    _, alone = judged(HANG)
    rc, document = judged(HANG, BROKER)
    found = [each for each in document["subscriptions"] if "py-hang" in each["topic"]]
    assert (rc, [each["status"] for each in found]) == (3, ["unknown"])
    assert found[0]["suspects"][0]["code"] == alone["subscriptions"][0]["suspects"][0]["code"]
    assert len(by_topic(document)) == 5
    rc, document = judged(HANG, BROKER, more=("ways-py-healthy",))
    assert set(by_topic(document)) == {"ways-py-healthy"}


def test_pulsarctl_writes_the_same_with_other_fields() -> None:
    names, at = ("pulsar-admin-stats", "pulsarctl"), ("--at", "2026-11-29T17:27:42Z")
    both = [judged(ANSWERS / f"{name}.json", more=at)[1] for name in names]
    first, second = (each["subscriptions"][0]["suspects"][0] for each in both)
    assert (first["code"], first["consumer"]) == ("permits-exhausted", "py-hang")
    assert first == second


@pytest.mark.parametrize("broken", ['{"n/s": {"0x0": {"persistent": []}}}', '{"persistent": 1}'])
def test_what_is_no_whole_document_is_refused_with_the_name_of_the_file(
    broken: str, tmp_path: Path
) -> None:
    file = tmp_path / "broker.json"
    file.write_text(broken)
    done = answered("stall-check", "--stats", str(HANG), "--stats", str(file))
    assert done.returncode == 2
    assert str(file) in done.stderr


@pytest.mark.parametrize(
    ("name", "shows"),
    [
        ("slow-transactions", "transaction 0,0 has been open for 71 s"),
        ("transaction-metadata", "transaction 0,0 has been open for 71 s"),
        ("pending-ack-stats", "in 1 open transaction"),
    ],
)
def test_answers_about_transactions_decide_what_statistics_suspect(name: str, shows: str) -> None:
    rc, document = judged(STATS, more=INTERNAL)
    assert (rc, document["subscriptions"][0]["status"]) == (3, "unknown")
    rc, document = judged(STATS, ANSWERS / f"{name}.json", more=INTERNAL)
    (found,) = document["subscriptions"][0]["findings"]
    assert (found["code"], shows in found["summary"]) == ("uncommitted-acks", True)


def test_the_command_in_front_of_an_answer_names_the_subscription(tmp_path: Path) -> None:
    file = tmp_path / "shell.txt"
    command = "$ pulsar-admin transactions pending-ack-stats -t orders -s {}\n"
    for name, code in (("s", "uncommitted-acks"), ("other", None)):
        file.write_text(command.format(name) + PENDING.read_text())
        _, document = judged(STATS, file, more=INTERNAL)
        found = [each["code"] for each in document["subscriptions"][0]["findings"]]
        assert found == ([code] if code else [])


@pytest.mark.parametrize(
    ("name", "shows"),
    [
        ("java-client.txt", "1 received by the application, 9 in the client's queue; none of it"),
        ("go-client.txt", "8 in the client's queue, 25 received by the client; none of it"),
    ],
)
def test_metrics_of_a_client_are_notes_and_no_verdict(name: str, shows: str) -> None:
    rc, document = judged(ANSWERS / name)
    assert (rc, document["subscriptions"]) == (3, [])
    assert any(shows in each["note"] for each in document["notes"])
    stats = ANSWERS / f"{name.partition('-')[0]}-stats.json"
    alone, both = judged(stats)[1], judged(stats, ANSWERS / name)[1]
    assert both["subscriptions"] == alone["subscriptions"]
    assert any(shows in each["note"] for each in both["notes"])


@pytest.mark.parametrize("part", range(4))
def test_no_mutation_is_a_traceback_or_a_comfort(part: int, tmp_path: Path) -> None:
    chance, file = random.Random(6300 + part), tmp_path / "brought"
    texts = [each.read_text() for each in OTHERS]
    recognised_or_refused(texts, chance, file)
    for _ in range(10):
        file.write_bytes(mutated(chance.choice(texts), chance.choice(texts), chance) or b" ")
        done = answered("-q", "stall-check", "--stats", str(HANG), "--stats", str(file))
        assert done.returncode in (1, 2, 3), done
