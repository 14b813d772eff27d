"""`holes` as a user calls it, on files; on a broker see tests/checkup/holes/test_on_broker.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import answered, pulsar_doctor

RANGES = "[(7:10..7:19],(7:20..7:29],(7:30..7:39]]"


def internal(ranges: str = RANGES, **cursors: Any) -> dict[str, Any]:
    cursor = {
        "markDeletePosition": "7:9", "readPosition": "7:50", "state": "Open",
        "individuallyDeletedMessages": ranges,
    }  # fmt: skip
    return {
        "lastConfirmedEntry": "7:49",
        "totalSize": 5000,
        "ledgers": [{"ledgerId": 7, "entries": 0, "size": 0}],
        "cursors": {"s": cursor} | cursors,
    }


HOLDER = {"consumerName": "w", "unackedMessages": 13, "avgMessagesPerEntry": 1}


def stats(**fields: Any) -> dict[str, Any]:
    told = {"type": "Shared", "isDurable": True, "msgBacklog": 13, "msgDelayed": 0,
            "msgInReplay": 0, "unackedMessages": 13, "consumers": [HOLDER]}  # fmt: skip
    return {"subscriptions": {"s": told | fields}}


@pytest.fixture
def files(tmp_path: Path) -> Any:
    def write(**documents: Any) -> list[str]:
        names = []
        for name, document in documents.items():
            path = tmp_path / f"{name}.json"
            path.write_text(json.dumps(document), "utf-8")
            names.append(str(path))
        return names

    return write


def told(*arguments: str) -> dict[str, Any]:
    done = answered("holes", *arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_internal_stats_alone_tell_ranges_and_not_their_origin(files: Any) -> None:
    (name,) = files(internal=internal())
    document = told("orders", "--internal-stats", name)
    (entry,) = document["subscriptions"]
    assert (document["schema"], document["source"]) == ("pulsar-doctor/holes/1", "files")
    assert (entry["topic"], entry["subscription"]) == ("orders", "s")
    assert (entry["mark_delete"], entry["ranges"], entry["holes"]) == ("7:9", 3, 3)
    assert (entry["acknowledged_entries"], entry["hole_entries"]) == (27, 3)
    assert (entry["persisted_limit"], entry["persisted_limit_assumed"]) == (10_000, True)
    assert (entry["redelivered_at_load"], entry["origin"]) == (0, "cannot-tell")
    assert entry["record_bytes"] is None
    assert not any(type(each["entries"]) is int for each in entry["account"]["places"])
    assert entry["not_told"]


def test_stats_beside_them_tell_the_origin_and_how_long(files: Any) -> None:
    moved = stats(lastMarkDeleteAdvancedTimestamp=1_795_000_000_000)
    one, other = files(stats=moved, internal=internal())
    at = ("--at", "1795000060000")
    (entry,) = told("--stats", one, "--internal-stats", other, *at)["subscriptions"]
    assert (entry["origin"], entry["account"]["places"][0]["messages"]) == ("unacked", 13)
    assert entry["mark_delete_stood_seconds"] == 60.0
    assert entry["mark_delete_stood_at_least"] is False


def test_several_files_of_internal_stats_are_several_topics(files: Any) -> None:
    names = files(one=internal(), other=internal("[]"))
    entries = told("--internal-stats", names[0], "--internal-stats", names[1])["subscriptions"]
    assert [entry["ranges"] for entry in entries] == [3, 0]


def test_of_a_partitioned_topic_each_partition_is_one(files: Any) -> None:
    full = "persistent://public/default/t-partition-"
    document = {"partitions": {f"{full}{n}": internal() for n in (0, 1)}}
    (name,) = files(parts=document)
    entries = told("--internal-stats", name, "t")["subscriptions"]
    assert [(e["topic"][-2:], e["partition"]) for e in entries] == [("/t", 0), ("/t", 1)]


def test_a_range_over_ledgers_is_cut_by_the_ledgers_that_are_told(files: Any) -> None:
    document = internal("[(6:17..7:19]]") | {
        "ledgers": [
            {"ledgerId": 6, "entries": 20, "size": 9}, {"ledgerId": 7, "entries": 0, "size": 0},
        ]
    }  # fmt: skip
    document["cursors"]["s"]["markDeletePosition"] = "6:9"
    (name,) = files(internal=document)
    (entry,) = told("--internal-stats", name)["subscriptions"]
    assert (entry["ranges"], entry["acknowledged_entries"]) == (1, 2 + 20)
    assert (entry["holes"], entry["hole_entries"]) == (1, 8)
    assert entry["oldest_hole"] == ["6:10", "6:17"]


def test_warnings_fail_only_when_asked(files: Any) -> None:
    many = ",".join(f"(7:{10 + 2 * n}..7:{11 + 2 * n}]" for n in range(10_002))
    (name,) = files(internal=internal(f"[{many}]"))
    for arguments, code in (((), 0), (("--fail-on", "warning"), 1), (("--fail-on", "never"), 0)):
        done = answered("holes", "--internal-stats", name, *arguments)
        assert done.returncode == code, done.stderr
        assert "WARNING" in done.stdout
    (entry,) = told("--internal-stats", name)["subscriptions"]
    assert entry["redelivered_at_load"] is None  # ranges, or bit arrays: no version is told
    assert (entry["redelivered_at_load_least"], entry["redelivered_at_load_most"]) == (0, 2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "name a TOPIC, or give"),
        (("t", "--namespace", "a/b"), "leave it out"),
        (
            ("t", "--at", "2026-08-01T12:00:00Z"),
            "--at needs --internal-stats, --stats or --trace; add one",
        ),
        (("--trace", "x", "--internal-stats", "y"), "two sources"),
        (("t", "--batch-index-acks", "no"), "--batch-index-acks needs --trace; add it"),
        (("--internal-stats", "/nowhere"), "cannot read /nowhere"),
        (("--internal-stats", "STATS"), "give it with --stats"),
        (("--internal-stats", "WRONG"), "s on unknown: these are no acknowledged ranges"),
        (("a", "b", "--internal-stats", "RIGHT"), "is of one topic"),
        (("a//b",), "is not a topic"),
    ],
)
def test_what_cannot_be_meant_is_refused(files: Any, arguments: tuple[str, ...], says: str) -> None:
    names = dict(
        zip(
            ("STATS", "WRONG", "RIGHT"),
            files(stats=stats(), wrong=internal("[(]"), right=internal()),
            strict=True,
        )
    )
    done = answered("holes", *(names.get(each, each) for each in arguments))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_subscription_that_is_not_there_is_an_error(files: Any) -> None:
    (name,) = files(internal=internal())
    done = answered("holes", "--internal-stats", name, "-s", "billing")
    assert done.returncode == 3
    assert "has a subscription 'billing'" in done.stderr


def test_a_broker_that_is_not_there_is_an_error() -> None:
    done = pulsar_doctor("holes", "t", "--admin-url", "http://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1


def test_the_drawing_is_plain_ascii_where_the_terminal_is(
    files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    (name,) = files(internal=internal())
    done = pulsar_doctor("holes", "--internal-stats", name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert "\\u" not in done.stdout
