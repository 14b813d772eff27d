"""The JSON of `holes`, whole: every key and every value, and its exit codes.

What can be counted is counted by hand in the comments. On a broker:
tests/checkup/holes/test_on_broker.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.broker.http_broker import Asked, Reply, serving
from tests.made.traces import write_trace
from tests.made.wire import Wire
from tests.support.command_line import answered
from tests.support.documented import bounded

TOPIC = "persistent://public/default/orders"
# Behind mark-delete lie 4 entries of ledger 6, 50 of ledger 7, 30 of ledger 8. Acknowledged are the
# distances 2 to 8 (two ranges, which meet at a ledger's end), 14 to 18, 44 to 48 and 64 to 66: 20
# entries. Holes: 2 + 5 + 25 + 15 entries. It has read 34 entries, so that 10 + 15 were not sent.
RANGES = "[(6:17..6:19],(7:-1..7:4],(7:9..7:14],(7:39..7:44],(8:9..8:12]]"
CURSOR = {
    "markDeletePosition": "6:15", "readPosition": "7:30", "state": "Open",
    "messagesConsumedCounter": 36, "individuallyDeletedMessages": RANGES,
    "totalNonContiguousDeletedMessagesRange": 5,
}  # fmt: skip
LEDGERS = [
    {"ledgerId": 6, "entries": 20, "size": 2000},
    {"ledgerId": 7, "entries": 50, "size": 5000},
    {"ledgerId": 8, "entries": 0, "size": 0},  # is written: it has the other 3000 bytes
]
INTERNAL: dict[str, Any] = {
    "entriesAddedCounter": 100, "lastConfirmedEntry": "8:29", "totalSize": 10_000,
    "ledgers": LEDGERS, "cursors": {"billing": CURSOR},
}  # fmt: skip
MOVED_MS, AT_MS = 1_795_000_000_000, 1_795_000_090_500
BILLING: dict[str, Any] = {
    "type": "Shared", "isDurable": True, "msgBacklog": 64, "unackedMessages": 12, "msgDelayed": 7,
    "msgInReplay": 3, "nonContiguousDeletedMessagesRanges": 5,
    "nonContiguousDeletedMessagesRangesSerializedSize": 77,
    "lastMarkDeleteAdvancedTimestamp": MOVED_MS,
    "consumers": [{"consumerName": "w", "unackedMessages": 12, "avgMessagesPerEntry": 1}],
}  # fmt: skip
TOLD = {
    "topic": TOPIC,
    "partition": None,
    "subscription": "billing",
    "type": "Shared",
    "durable": True,
    "status": "healthy",
    "backlog": 64,
    "backlog_by_positions": 64,
    "backlog_counter_wrong": False,
    "ack_hole": None,
    "mark_delete": "6:15",
    "mark_delete_stood_seconds": 90.5,
    "mark_delete_stood_at_least": False,
    "read_position": "7:30",
    "ranges": 5,
    "acknowledged_entries": 20,
    "holes": 4,
    "holes_least": 4,
    "holes_most": 4,
    "hole_entries": 47,
    "hole_entries_least": 47,
    "hole_entries_not_sent": 25,
    "oldest_hole": ["6:16", "6:17"],
    "persisted_limit": 10_000,
    "persisted_limit_assumed": True,
    "share_of_limit": 0.0005,
    "stored_as": None,
    "record_bytes": 77,
    "record_bytes_told": True,
    "record_bytes_limit": 5_242_880,
    "redelivered_at_load": 0,
    "redelivered_at_load_least": 0,
    "redelivered_at_load_most": 0,
    "pinned_ledgers": 3,
    "pinned_bytes": 10_000,
    "pinned_bytes_without_oldest_hole": 8000,  # ledgers 7 and 8: the next hole begins at 7:5
    "pinned_bytes_without_holes": 3000,
    "origin": "cannot-tell",
    "origins": [
        {
            "origin": "cannot-tell",
            "entries_least": 25,
            "entries_most": 25,
            "because": "not sent since the topic was loaded or the last consumer left",
            "practice": "Check again while consumers are connected and reading, or give a trace of "
            "the wire (--trace).",
        },
        {
            "origin": "unacked",
            "entries_least": 15,
            "entries_most": 15,
            "because": "12 messages delivered and unacknowledged, "
            "3 entries waiting to be sent again",
            "practice": "Find the consumer that holds them and let it acknowledge every message, "
            "or give it back (negative acknowledgement, ack timeout, dead-letter topic). Handle a "
            "message so that a second delivery does no harm.",
        },
        {
            "origin": "delayed",
            "entries_least": 7,
            "entries_most": 7,
            "because": "7 delayed entries are not due",
            "practice": "Give delayed messages a topic of their own, or publish them with "
            "ascending delivery times, so that acknowledgements come in order. Handle a message "
            "so that a second delivery does no harm.",
        },
    ],
    "not_told": [],
}
NO_STATS = ["the subscription's type and counts: there are no stats beside"]
NO_INTERNAL = ["positions and ledgers: there are no internal stats"]
UNTOLD = dict.fromkeys(TOLD) | {
    "topic": "unknown", "subscription": "billing", "status": "healthy",
    "persisted_limit": 10_000, "persisted_limit_assumed": True, "record_bytes_told": False,
    "record_bytes_limit": 5_242_880, "origins": [], "not_told": [],
}  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> Any:
    def write(stats: Any = None, internal: Any = None) -> list[str]:
        arguments = []
        for option, document in (("--stats", stats), ("--internal-stats", internal)):
            if document is not None:
                path = tmp_path / f"{option.strip('-')}.json"
                path.write_text(json.dumps(document), "utf-8")
                arguments += [option, str(path)]
        return arguments

    return write


def document(*arguments: str, code: int = 0) -> Any:
    done = answered("holes", *arguments, "-o", "json")
    assert done.returncode == code, done.stderr
    found = json.loads(done.stdout)
    for each in (*found["subscriptions"], *found["cursors"]):
        del each["account"]  # has a test of its own
    return found


def stats(**fields: Any) -> dict[str, Any]:
    return {"subscriptions": {"billing": BILLING | fields}}


def internal(**fields: Any) -> dict[str, Any]:
    return INTERNAL | {"cursors": {"billing": CURSOR | fields}}


def of_files(*subscriptions: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema": "pulsar-doctor/holes/1", "source": "files", "cluster": None,
        "subscriptions": list(map(bounded, subscriptions)), "cursors": [], "not_loaded": [],
        "unreachable": [],
    }  # fmt: skip


def test_of_stats_and_internal_stats(files: Any) -> None:
    arguments = files(stats(), INTERNAL)
    assert document(TOPIC, *arguments, "--at", str(AT_MS)) == of_files(TOLD)


def test_the_account_is_that_of_stall_check(files: Any) -> None:
    arguments = TOPIC, *files(stats(), INTERNAL), "--at", str(AT_MS), "-o", "json"
    (holes,), (verdict,) = (
        json.loads(answered(command, *arguments).stdout)["subscriptions"]
        for command in ("holes", "stall-check")
    )
    assert holes["account"] == verdict["account"]
    entries = {each["place"]: each["entries"] for each in holes["account"]["places"]}
    assert (entries["held"], entries["delayed"], entries["replay"]) == (12, 7, 3)


def test_of_internal_stats_alone(files: Any) -> None:
    same = (
        "mark_delete", "read_position", "ranges", "acknowledged_entries", "holes", "holes_least",
        "holes_most", "hole_entries", "hole_entries_least", "hole_entries_not_sent", "oldest_hole",
        "pinned_ledgers", "pinned_bytes", "pinned_bytes_without_oldest_hole",
        "pinned_bytes_without_holes", "share_of_limit", "backlog_by_positions",
        "redelivered_at_load", "redelivered_at_load_least", "redelivered_at_load_most", "origin",
    )  # fmt: skip
    cannot_tell = TOLD["origins"][0]
    told = UNTOLD | {name: TOLD[name] for name in same} | {
        "origins": [
            cannot_tell,
            cannot_tell | {
                "entries_least": 22, "entries_most": 22,
                "because": "the subscription's type is not reported",
            },
        ],
        "not_told": NO_STATS,
    }  # fmt: skip
    assert document(*files(internal=INTERNAL)) == of_files(told)


def test_of_stats_alone_nobody_knows_the_holes(files: Any) -> None:
    same = (
        "type", "durable", "backlog", "ranges", "share_of_limit", "record_bytes",
        "record_bytes_told",
    )  # fmt: skip
    moved = {"mark_delete_stood_seconds": 90.5, "mark_delete_stood_at_least": False}
    told = UNTOLD | {name: TOLD[name] for name in same} | moved | {"not_told": NO_INTERNAL}
    assert document(*files(stats()), "--at", str(AT_MS)) == of_files(told)


def test_where_not_even_ranges_are_told_it_is_unknown(files: Any) -> None:
    nothing = {"subscriptions": {"billing": {"msgBacklog": 9}}}
    told = UNTOLD | {"status": "unknown", "backlog": 9, "not_told": NO_INTERNAL}
    assert document(*files(nothing), code=3) == of_files(told)
    assert document(*files(nothing), "--fail-on", "warning", code=3) == of_files(told)


def test_an_empty_backlog_has_no_holes_whatever_else_is_not_told(files: Any) -> None:
    nothing = {"subscriptions": {"billing": {"msgBacklog": 0}}}
    none = dict.fromkeys(
        ("backlog", "ranges", "acknowledged_entries", "holes", "holes_least", "holes_most",
         "hole_entries", "hole_entries_least", "share_of_limit"), 0,
    )  # fmt: skip
    assert document(*files(nothing)) == of_files(UNTOLD | none | {"not_told": NO_INTERNAL})


def test_a_counter_of_0_beside_ranges_is_wrong_and_not_believed(files: Any) -> None:
    wrong = {"status": "warning", "backlog": 0, "backlog_counter_wrong": True}
    arguments = [TOPIC, *files(stats(msgBacklog=0), INTERNAL), "--at", str(AT_MS)]
    assert document(*arguments) == of_files(TOLD | wrong)
    assert document(*arguments, "--fail-on", "warning", code=1) == of_files(TOLD | wrong)


def test_a_counter_of_0_beside_ranges_is_wrong_by_stats_alone(files: Any) -> None:
    entry = document(*files(stats(msgBacklog=0)))["subscriptions"][0]
    told = {
        "status": "warning", "backlog": 0, "backlog_by_positions": None,
        "backlog_counter_wrong": True, "ranges": 5, "holes": None, "acknowledged_entries": None,
        "not_told": NO_INTERNAL,
    }  # fmt: skip
    assert {name: entry[name] for name in told} == told


def test_one_reading_does_not_tell_a_wrong_counter_from_another_moment(files: Any) -> None:
    doubt = ["the backlog: its counter says 60 and the positions 64, perhaps of two moments"]
    told = TOLD | {"backlog": 60, "backlog_counter_wrong": None, "not_told": doubt}
    arguments = files(stats(msgBacklog=60), INTERNAL)
    assert document(TOPIC, *arguments, "--at", str(AT_MS)) == of_files(told)


NOT_ALL = "holes: the internal stats do not tell all ledgers"
NOT_PINNED = {name: None for name in TOLD if name.startswith("pinned")}


@pytest.mark.parametrize("ledgers", [None, []])
def test_without_ledgers_holes_of_several_are_bounded(files: Any, ledgers: Any) -> None:
    """Certain: before 6:18 two entries, before 7:10 five, before 7:40 25, before 8:10 ten.

    Whether ledger 6 goes on behind 6:19, and 7 behind 7:44, is not known: a hole more, perhaps.
    """
    told = TOLD | NOT_PINNED | {
        "backlog_by_positions": None, "backlog_counter_wrong": None, "holes": None,
        "holes_least": 4, "holes_most": 5, "hole_entries": None, "hole_entries_least": 42,
        "hole_entries_not_sent": None, "origin": None, "origins": [], "not_told": [NOT_ALL],
    }  # fmt: skip
    arguments = files(stats(), INTERNAL | {"ledgers": ledgers})
    assert document(TOPIC, *arguments, "--at", str(AT_MS)) == of_files(told)


@pytest.mark.parametrize("ledgers", [None, []])
@pytest.mark.parametrize(("last", "read"), [("7:49", "7:50"), ("8:29", "8:3"), ("7:49", "7:21")])
def test_without_ledgers_holes_of_one_are_exact(
    files: Any, ledgers: Any, last: str, read: str
) -> None:
    one = internal(
        markDeletePosition="7:9", readPosition=read,
        individuallyDeletedMessages="[(7:10..7:19],(7:20..7:29],(7:30..7:39]]",
    ) | {"ledgers": ledgers, "lastConfirmedEntry": last}  # fmt: skip
    (entry,) = document(*files(internal=one))["subscriptions"]
    exact = {
        "ranges": 3, "acknowledged_entries": 27, "holes": 3, "holes_least": 3, "holes_most": 3,
        "hole_entries": 3, "hole_entries_least": 3, "oldest_hole": ["7:10", "7:10"],
        "hole_entries_not_sent": 1 if read == "7:21" else 0, "not_told": NO_STATS,
        "backlog_by_positions": 13 if last == "7:49" else None,
    }  # fmt: skip
    assert {name: entry[name] for name in exact} == exact


def test_a_range_over_a_ledger_that_is_not_told_makes_nothing_certain(files: Any) -> None:
    over = internal(individuallyDeletedMessages="[(6:17..7:19]]") | {"ledgers": None}
    (entry,) = document(*files(internal=over))["subscriptions"]
    assert (entry["ranges"], entry["not_told"][0]) == (1, NOT_ALL)
    unknown = ("acknowledged_entries", "holes", "holes_least", "hole_entries_least", "oldest_hole",
               "redelivered_at_load_most")  # fmt: skip
    assert {name: entry[name] for name in unknown} == dict.fromkeys(unknown)


def test_of_a_trace(tmp_path: Path) -> None:
    """Ten are sent, 1, 2, 5 and 6 acknowledged; 3 comes a second time. Holes: 0, and 3 with 4."""
    said = Wire().open().attached().flow(20).pushed(range(10)).acked([1, 2, 5, 6])
    trace = write_trace(tmp_path / "t.ptrace", said.pushed([3]).wait(1).close().blocks)
    unacked = {
        "origin": "unacked", "entries_least": 3, "entries_most": 3,
        "because": "3 were sent and not acknowledged in this trace",
        "practice": TOLD["origins"][1]["practice"],
    }  # fmt: skip
    once, again = "2026-09-21T14:13:20.005000Z", "2026-09-21T14:13:20.007000Z"
    life = {
        "first_delivered": once, "first_consumer": "slow", "deliveries": 1, "last_delivered": once,
        "last_consumer": "slow", "acknowledged": None, "acknowledged_by": None, "open_messages": 1,
    }  # fmt: skip
    told = UNTOLD | {
        "topic": TOPIC, "type": "Shared", "mark_delete": "7:-1", "ranges": 2,
        "acknowledged_entries": 4, "holes": 2, "holes_least": 2, "holes_most": 2, "hole_entries": 3,
        "hole_entries_least": 3, "hole_entries_not_sent": 0, "oldest_hole": ["7:0", "7:0"],
        "share_of_limit": 0.0002,
        "redelivered_at_load": 0, "redelivered_at_load_least": 0, "redelivered_at_load_most": 0,
        "origin": "unacked", "origins": [unacked],
        "biographies": [
            {"entry": "7:0"} | life,
            {"entry": "7:3"} | life | {"deliveries": 2, "last_delivered": again},
            {"entry": "7:4"} | life,
        ],
    }  # fmt: skip
    assert document("--trace", str(trace)) == of_files(told) | {"source": "trace", "notes": []}


SEEN = {"type": "Shared", "msgBacklog": 0, "totalNonContiguousDeletedMessagesRange": 5}
LOADED = {"msgInCount": 1, "subscriptions": {"billing": SEEN}}
NONE: list[str] = []
OF_NAMESPACE: dict[str, Any] = {
    "brokers": None,  # itself
    "broker-stats/topics": {"public/default": {"0x0_0x4": {"persistent": {TOPIC: LOADED}}}},
    "persistent/public/default": [TOPIC],
    "non-persistent/public/default": NONE,
    "persistent/public/default/partitioned": NONE,
    "non-persistent/public/default/partitioned": NONE,
}


class Broker:
    """Answers for orders; `moved` entries are added and consumed between two looks at it."""

    def __init__(self, counter: int, internal: dict[str, Any], moved: int = 0) -> None:
        self.counter, self.internal, self.moved = counter, internal, moved
        self.looks = 0

    def __call__(self, asked: Asked) -> Reply:
        path = asked.path.partition("?")[0].removeprefix("/admin/v2/")
        if path in OF_NAMESPACE:
            told = OF_NAMESPACE[path]
            return Reply(document=[asked.headers["host"]] if told is None else told)
        what = path.rpartition("/")[2]
        if "/orders/" not in path:
            return Reply(404, {"reason": "not here"})
        if what == "stats":
            return Reply(document=stats(msgBacklog=self.counter))
        if what == "internalStats":
            self.looks += 1
            consumed = CURSOR["messagesConsumedCounter"] + self.moved * self.looks
            cursor = CURSOR | {"messagesConsumedCounter": consumed}
            return Reply(document=self.internal | {
                "entriesAddedCounter": consumed + self.counter, "cursors": {"billing": cursor},
            })  # fmt: skip
        return Reply(document={"partitions": 0})


def live(broker: Broker, *arguments: str, code: int = 0) -> Any:
    with serving(broker) as front:
        found = document(*arguments, "--admin-url", front.url, code=code)
        cluster = found["cluster"]
        assert (cluster["admin_url"], cluster["context"]) == (front.url, None)
        found["cluster"] = None  # as of files
    for entry in found["subscriptions"]:
        assert entry.pop("mark_delete_stood_seconds") > 0
    return found


def of_broker(**fields: Any) -> dict[str, Any]:
    told = TOLD | fields
    del told["mark_delete_stood_seconds"]
    return of_files(told) | {"source": "broker"}


def test_of_a_live_topic() -> None:
    assert live(broker := Broker(64, INTERNAL), "orders") == of_broker()
    assert broker.looks == 1


def test_a_live_counter_that_does_not_fit_is_looked_at_again_and_wrong() -> None:
    wrong = {"status": "warning", "backlog": 60, "backlog_counter_wrong": True}
    assert live(broker := Broker(60, INTERNAL), "orders") == of_broker(**wrong)
    assert broker.looks > 2


def test_in_a_namespace_a_counter_of_0_beside_ranges_hides_nothing() -> None:
    wrong = {"status": "warning", "backlog": 0, "backlog_counter_wrong": True}
    assert live(Broker(0, INTERNAL), "--namespace", "public/default") == of_broker(**wrong)


def test_where_more_moves_than_it_differs_it_is_not_known_to_be_wrong() -> None:
    doubt = ["the backlog: its counter says 60 and the positions 64, perhaps of two moments"]
    told = of_broker(backlog=60, backlog_counter_wrong=None, not_told=doubt)
    assert live(Broker(60, INTERNAL, moved=3), "orders") == told


def test_a_live_topic_that_cannot_be_read_is_in_the_document_and_the_code_is_3() -> None:
    found = live(Broker(64, INTERNAL), "orders", "nosuch", code=3)
    (unreachable,) = found.pop("unreachable")
    assert unreachable.keys() == {"topic", "reason"}
    assert unreachable["topic"] == "persistent://public/default/nosuch"
    told = of_broker()
    del told["unreachable"]
    assert found == told


def test_wrong_usage_is_2_and_no_document() -> None:
    done = answered("holes", "-o", "json")
    assert (done.returncode, done.stdout) == (2, "")
