"""However a topic is asked for, the verdict is the same: by name, by namespace, or all of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.broker.http_broker import Reply
from tests.broker.replayed import HEALTHY, Step, cluster, states
from tests.cli.checked import Check, check

__all__ = ["check"]  # a fixture

NOW_MS = 1_795_262_161_000
WINDOW = ("--window", "600ms", "--interval", "50ms")
JSON = ("-o", "json")
FLEETS = (("--namespace", "public/default"), ("--all",))


def moment(epoch_ms: int) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat().replace("+00:00", "Z")


def consumer(name: str, **more: Any) -> dict[str, Any]:
    return {
        "consumerName": name,
        "address": f"/127.0.0.1:{len(name)}000",
        "connectedSince": moment(NOW_MS - 300_000),
        "availablePermits": 1000,
        "unackedMessages": 0,
        "avgMessagesPerEntry": 1,
        "blockedConsumerOnUnackedMsgs": False,
        "messageAckRate": 0.0,
        "msgRateOut": 0.0,
        "msgOutCounter": 0,
        "lastAckedTimestamp": 0,
        "lastConsumedTimestamp": 0,
        "lastConsumedFlowTimestamp": NOW_MS - 300_000,
    } | more


def topic(*consumers: dict[str, Any], **more: Any) -> dict[str, Any]:
    held = sum(each["unackedMessages"] for each in consumers)
    sent = max(each["lastConsumedTimestamp"] for each in consumers)
    acked = max(each["lastAckedTimestamp"] for each in consumers)
    subscription = {
        "type": "Shared",
        "isDurable": True,
        "msgBacklog": held,
        "msgDelayed": 0,
        "msgInReplay": 0,
        "unackedMessages": held,
        "msgOutCounter": sum(each["msgOutCounter"] for each in consumers),
        "messageAckRate": sum(each["messageAckRate"] for each in consumers),
        "lastConsumedTimestamp": sent,
        "lastAckedTimestamp": acked,
        "lastMarkDeleteAdvancedTimestamp": acked,
        "nonContiguousDeletedMessagesRanges": 0,
        "blockedSubscriptionOnUnackedMsgs": False,
        "consumers": list(consumers),
    } | more
    return {"msgInCounter": 2000, "publishers": [], "subscriptions": {"s": subscription}}


def hoarded() -> dict[str, Any]:
    """One consumer holds all there is, at 30 s a message; another has nothing to do."""
    sent, acked = NOW_MS - 290_000, NOW_MS - 2_000
    slow = consumer(
        "slow", availablePermits=100, unackedMessages=890, msgOutCounter=900,
        lastConsumedTimestamp=sent, lastAckedTimestamp=acked, messageAckRate=1 / 30,
    )  # fmt: skip
    return topic(slow, consumer("idle"))


def held(**more: Any) -> dict[str, Any]:
    """A consumer that holds a few messages and acknowledged one just now, or whatever is said."""
    worker = {
        "unackedMessages": 20, "availablePermits": 900, "messageAckRate": 50.0, "msgRateOut": 50.0,
        "msgOutCounter": 2000, "lastAckedTimestamp": NOW_MS, "lastConsumedTimestamp": NOW_MS,
    }  # fmt: skip
    return topic(consumer("worker", **(worker | more)))


def standing(stats: dict[str, Any]) -> list[Step]:
    """Eleven readings a second apart of which only the clock moves."""
    both = {"stats": stats, "listed": listed(stats)}
    return [{"date_ms": NOW_MS + 1000 * number, **both} for number in range(11)]


def listed(value: Any) -> Any:
    """As broker-stats have it: without time stamps, and without the counters of a subscription."""
    if isinstance(value, list):
        return [listed(each) for each in value]
    if not isinstance(value, dict):
        return value
    left_out = ("Timestamp", "msgOutCounter", "msgDelayed", "msgInReplay")
    return {key: listed(each) for key, each in value.items() if not key.endswith(left_out)}


@pytest.mark.parametrize("fleet", FLEETS)
def test_who_hoards_messages_is_found_in_every_way(check: Check, fleet: tuple[str, ...]) -> None:
    with cluster({"orders": standing(hoarded())}) as broker:
        named = check(broker, "orders", *WINDOW, *JSON)
    with cluster({"orders": standing(hoarded()), "other": standing(held())}) as broker:
        told = check(broker, *fleet, *WINDOW, *JSON)
    found = {each["topic"][-6:]: each for each in told.document["subscriptions"]}
    [alone] = named.document["subscriptions"]
    assert alone["findings"][0]["code"] == "prefetch-hogging"
    assert found["orders"]["status"] == alone["status"] == "stalled"
    assert found["orders"]["findings"][0]["code"] == "prefetch-hogging"
    assert (named.code, told.code) == (1, 1)


@pytest.mark.parametrize("replies", [{}, {"/metrics/": Reply(status=403)}])
def test_without_metrics_it_says_how_old_the_list_may_be(
    check: Check, replies: dict[str, Reply]
) -> None:
    with cluster({"quiet": states(HEALTHY)}, replies=replies) as broker:
        told = check(broker, "--all", *JSON).document
        drawn = check(broker, "--all").out
    assert told["topics_read_once"] == 1
    assert told.get("topics_read_once_seconds_ago") == (60 if replies else None)
    assert ("1 topic read once, as of up to 60 s ago" in drawn) == bool(replies)


MINUTES_AGO = NOW_MS - 120_000
WATCHED = {
    "acknowledged-long-ago": held(lastAckedTimestamp=MINUTES_AGO),
    "holds-more-than-a-minute": held(unackedMessages=900, messageAckRate=1.0),
    "pace-unknown": held(messageAckRate=0.0),
    "oldest-stays": held() | {"subscriptions": {"s": held()["subscriptions"]["s"] | {
        "lastMarkDeleteAdvancedTimestamp": MINUTES_AGO}}},
    "sent-again": held() | {"subscriptions": {"s": held()["subscriptions"]["s"] | {
        "msgRateRedeliver": 3.0}}},
    "nobody-sends": held(lastConsumedTimestamp=MINUTES_AGO),
    "replicator-waits": held() | {"replication": {"west": {"replicationBacklog": 7}}},
}  # fmt: skip


def test_only_what_was_moving_just_now_is_not_watched(check: Check) -> None:
    topics = {name: standing(stats) for name, stats in WATCHED.items()}
    moving = {"moves": standing(held()), "at-rest": states(HEALTHY)}
    with cluster({**topics, **moving}) as broker:
        told = check(broker, "--all", "--window", "100ms", "--interval", "50ms", *JSON)
        reads = [asked.path for asked in broker.asked if "/stats?" in asked.path]
    counts = {name: sum(f"/{name}/" in path for path in reads) for name in (*topics, *moving)}
    assert {name for name, count in counts.items() if count > 1} == set(WATCHED)
    assert (counts["moves"], counts["at-rest"]) == (1, 0)
    assert told.document["topics_read_once"] == 2
    assert told.document["topics_watched"] == len(WATCHED)


def test_the_header_says_what_was_watched(check: Check) -> None:
    topics = {"orders": standing(hoarded()), "moves": standing(held()), "rest": states(HEALTHY)}
    with cluster(topics) as broker:
        told = check(broker, "--all", *WINDOW, "-o", "table")
    with cluster({"rest": states(HEALTHY)}) as broker:
        alone = check(broker, "--all", *WINDOW, "-o", "table")
    assert "; 2 topics read once; 1 topic watched " in told.out.replace("\n", " ")
    assert alone.out.splitlines()[0].endswith("; 1 topic read once")


@pytest.mark.parametrize(("output", "says"), [("table", "0 subscriptions"), ("nagios", "UNKNOWN")])
def test_a_check_that_saw_nothing_is_not_known_to_be_well(
    check: Check, output: str, says: str
) -> None:
    with cluster({}, stored=["asleep"]) as broker:
        told = check(broker, "--all", "-o", output)
    assert told.code == 3
    assert says in told.out


def test_a_stall_within_the_first_minute_is_found_in_a_namespace(check: Check) -> None:
    with cluster({"orders": standing(hoarded())}, since=["orders"]) as broker:
        told = check(broker, "--all", *WINDOW, *JSON)
    assert (told.code, told.document["not_loaded"]) == (1, [])
    assert told.statuses == {"orders": "stalled"}


def test_what_is_not_decided_in_a_fleet_is_looked_at_again(check: Check) -> None:
    young, sent = NOW_MS - 70_000, NOW_MS - 69_000
    hangs = held(
        connectedSince=moment(young), lastConsumedFlowTimestamp=young, lastConsumedTimestamp=sent,
        unackedMessages=200, availablePermits=800, msgOutCounter=200,
        lastAckedTimestamp=0, messageAckRate=0.0,
    )  # fmt: skip
    with cluster({"orders": standing(hangs)}) as broker:
        told = check(broker, "--all", "--decide", "--decide-within", "4s", *JSON)
    [orders] = told.document["subscriptions"]
    assert orders["decided"], orders["status"]
