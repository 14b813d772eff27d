"""What cannot be, or contradicts itself, is said to be so, and is not called healthy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.broker.stats.bounds import CONSUMERS_MOST
from pulsar_doctor.broker.stats.reading import topic_stats
from tests.cli.checked import Check, check

__all__ = ["check"]

SHARED_MOVING = Path(__file__).parent.parent / "stats" / "4.0.8-shared-moving.json"
NAME = "subscriptions.billing.consumers[0]."
LONG, INT = 2**63, 2**31


def quiet() -> dict[str, Any]:
    """A subscription of which all is acknowledged; two consumers with permits."""
    stats: dict[str, Any] = json.loads(SHARED_MOVING.read_text())["samples"][-1]["stats"]
    billing = stats["subscriptions"]["billing"]
    billing |= {"msgBacklog": 0, "msgBacklogNoDelayed": 0, "unackedMessages": 0}
    billing |= {"nonContiguousDeletedMessagesRanges": 0}
    for consumer in billing["consumers"]:
        consumer |= {"unackedMessages": 0, "availablePermits": 1000}
    return stats


def with_number(place: str, name: str, value: float) -> dict[str, Any]:
    stats = quiet()
    billing = stats["subscriptions"]["billing"]
    places = {"topic": stats, "subscription": billing, "consumer": billing["consumers"][0]}
    places[place][name] = value
    return stats


@pytest.fixture
def judged(check: Check, tmp_path: Path) -> Callable[..., Any]:
    def judged(stats: dict[str, Any] | str, samples: int = 1) -> Any:
        files = [tmp_path / f"{at}.json" for at in range(samples)]
        for file in files:
            file.write_text(stats if isinstance(stats, str) else json.dumps(stats))
        named = [word for file in files for word in ("--stats", str(file))]
        ran = check(None, *named, "-o", "json")
        return ran.code, ran.err if ran.code == 2 else ran.document["subscriptions"][0]

    return judged


def test_all_that_can_be_is_healthy(judged: Any) -> None:
    code, verdict = judged(quiet())
    assert (code, verdict["status"], verdict["not_told"]) == (0, "healthy", verdict["not_told"])
    assert not any("cannot be" in line for line in verdict["not_told"])


CANNOT_BE = [
    ("subscription", "msgBacklog", -5),
    ("subscription", "msgBacklog", -LONG),
    ("subscription", "msgDelayed", -7),
    ("subscription", "msgOutCounter", -1),
    ("subscription", "msgRateOut", -3.0),
    ("topic", "msgInCounter", -1),
    ("consumer", "availablePermits", -LONG),
    ("consumer", "availablePermits", -INT - 1),
    ("consumer", "availablePermits", INT),
    ("consumer", "msgOutCounter", -4),
    ("consumer", "bytesOutCounter", -4),
    ("consumer", "unackedMessages", -INT - 1),
    ("consumer", "messageAckRate", 1e300),
]


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize(("place", "name", "value"), CANNOT_BE)
def test_what_cannot_be_is_said_and_is_not_healthy(
    judged: Any, place: str, name: str, value: float, samples: int
) -> None:
    code, verdict = judged(with_number(place, name, value), samples)
    assert (code, verdict["status"]) == (3, "unknown")
    first = verdict["not_told"][0]
    assert name in first
    assert f"is {value}, which is impossible: nothing is judged by it" in first
    assert verdict["backlog"] == (None if name == "msgBacklog" else 0)
    assert verdict["suspects"]


def test_a_backlog_of_0_with_a_part_that_is_not_0_is_not_healthy(judged: Any) -> None:
    code, verdict = judged(with_number("subscription", "msgBacklogNoDelayed", 200))
    assert (code, verdict["status"], verdict["backlog"]) == (3, "unknown", None)
    assert verdict["not_told"][0] == (
        'msgBacklog of "billing" is 0, and msgBacklogNoDelayed, a part of it, is 200, which is '
        "impossible: nothing is judged by them"
    )


@pytest.mark.parametrize("missing", [False, True])
def test_a_backlog_that_is_not_reported_is_not_0(judged: Any, missing: bool) -> None:
    stats = with_number("topic", "backlogSize", 100)
    billing = stats["subscriptions"]["billing"]
    billing |= {"msgBacklog": None, "isDurable": True}
    if missing:
        del billing["msgBacklog"]
    code, verdict = judged(stats)
    assert (code, verdict["status"], verdict["backlog"]) == (3, "unknown", None)


@pytest.mark.parametrize("backlog", [0, 60])
def test_more_consumers_than_are_read_are_said_and_are_not_healthy(
    judged: Any, backlog: int
) -> None:
    stats = with_number("subscription", "msgBacklog", backlog)
    billing = stats["subscriptions"]["billing"]
    billing["consumers"] *= CONSUMERS_MOST // 2
    if not backlog:
        assert judged(stats)[0] == 0
    billing["consumers"] += billing["consumers"][:1]
    code, verdict = judged(stats)
    assert (code, verdict["status"], verdict["consumers"]) == (3, "unknown", None)
    assert verdict["not_told"][0] == (
        "subscriptions.billing.consumers has 5,001 consumers, more than 5,000: none of them is read"
    )


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
def test_unacknowledged_messages_below_0_cannot_be_where_none_are_counted(
    judged: Any, kind: str
) -> None:
    stats = with_number("subscription", "unackedMessages", -3)
    assert judged(stats)[0] == 0  # Shared, and each consumer reports its own
    stats["subscriptions"]["billing"] |= {"type": kind, "consumers": []}
    code, verdict = judged(stats)
    assert (code, verdict["status"]) == (3, "unknown")
    assert 'unackedMessages of "billing" is -3, which is impossible' in verdict["not_told"][0]


def test_a_backlog_below_0_is_most_likely_miscounted(judged: Any) -> None:
    _, verdict = judged(with_number("subscription", "msgBacklog", -5))
    first = verdict["suspects"][0]
    assert first["code"] == "backlog-counter-wrong"
    assert "the counter says -5, below 0" in first["summary"]


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        ("consumer", "msgOutCounter", LONG),
        ("consumer", "availablePermits", 1e300),
        ("consumer", "msgRateOut", float("nan")),
        ("consumer", "msgRateOut", float("inf")),
        ("subscription", "msgBacklog", -LONG - 1),
    ],
)
def test_what_no_java_number_holds_is_no_reading_at_all(
    judged: Any, place: str, name: str, value: float
) -> None:
    code, said = judged(with_number(place, name, value))
    assert code == 2
    assert f".{name} is " in said


CAN_BE = [
    ("subscription", "msgBacklog", -1),  # while an entry is being acknowledged
    ("consumer", "availablePermits", -1360),  # whole batches
    ("consumer", "availablePermits", -INT),
    ("consumer", "unackedMessages", -4),  # counted twice by an older broker
    ("consumer", "avgMessagesPerEntry", -1),  # nothing was sent yet
    ("topic", "storageSize", -300),  # nothing rests on it
]


@pytest.mark.parametrize(("place", "name", "value"), CAN_BE)
def test_what_is_below_0_and_can_be_is_nothing_strange(
    judged: Any, place: str, name: str, value: int
) -> None:
    code, verdict = judged(with_number(place, name, value))
    assert (code, verdict["status"]) == (0, "healthy")


def test_a_stall_beside_it_is_found_all_the_same(judged: Any) -> None:
    stats = with_number("consumer", "availablePermits", -LONG)
    billing = stats["subscriptions"]["billing"]
    billing |= {"msgBacklog": 60, "unackedMessages": 50}
    billing["blockedSubscriptionOnUnackedMsgs"] = True
    _, verdict = judged(stats)
    assert verdict["status"] != "healthy"
    assert "availablePermits" in verdict["not_told"][0]


def test_what_cannot_be_reads_as_not_told() -> None:
    told = topic_stats(with_number("consumer", "availablePermits", -LONG))
    consumer = (told.subscriptions or {})["billing"].consumers[0]  # type: ignore[index]
    assert consumer.available_permits is None
    assert consumer.cannot_be == (
        f"{NAME}availablePermits is {-LONG}, which is impossible: nothing is judged by it",
    )


def written_twice(place: str, first: str) -> str:
    """The same document, with another value of one field in front of its own."""
    name, _, written = place.partition(": ")
    text = json.dumps(quiet())
    assert f'"{name}": {written}' in text
    return text.replace(f'"{name}": {written}', f'"{name}": {first}, "{name}": {written}', 1)


@pytest.mark.parametrize(
    ("place", "first", "says"),
    [
        ("msgBacklog: 0", "1000", "subscriptions.billing.msgBacklog is both 1000 and 0"),
        ("availablePermits: 1000", "0", f"{NAME}availablePermits is both 0 and 1000"),
        (
            "consumers: ",
            "[]",
            "subscriptions.billing.consumers is written twice, with different values",
        ),
        ("billing: ", '{"msgBacklog": 7}', "subscriptions.billing.msgBacklog is both 7 and 0"),
        ("subscriptions: ", '{"billing": {"msgBacklog": 7}}', "msgBacklog is both 7 and 0"),
    ],
)
def test_a_field_with_two_values_is_said_and_is_not_healthy(
    judged: Any, place: str, first: str, says: str
) -> None:
    code, verdict = judged(written_twice(place, first))
    assert (code, verdict["status"]) == (3, "unknown")
    assert says in verdict["not_told"][0]


def test_what_is_written_twice_alike_or_that_nobody_reads_is_nothing_strange(judged: Any) -> None:
    assert judged(written_twice("msgBacklog: 0", "0"))[0] == 0
    assert judged(json.dumps(quiet()).replace("{", '{"mine": 1, "mine": 2, ', 1))[0] == 0


@pytest.mark.parametrize("absent", [{}, {"consumers": None}])
def test_consumers_that_are_not_reported_are_not_none(judged: Any, absent: dict[str, None]) -> None:
    stats = with_number("subscription", "msgBacklog", 5000)
    billing = stats["subscriptions"]["billing"]
    del billing["consumers"]
    never = {"msgOutCounter": 0, "lastConsumedFlowTimestamp": 0}
    billing |= {"type": "Exclusive", "isDurable": True} | never | absent
    code, verdict = judged(stats)
    assert (code, verdict["status"], verdict["findings"]) == (3, "unknown", [])
    code, verdict = judged(stats | {"subscriptions": {"billing": billing | {"consumers": []}}})
    assert (code, verdict["findings"][0]["code"]) == (0, "no-consumer")


def test_a_stuck_consumer_beside_a_wrong_counter_is_judged(judged: Any) -> None:
    stats = with_number("subscription", "msgBacklog", -5)
    for consumer in stats["subscriptions"]["billing"]["consumers"]:
        consumer |= {"availablePermits": 0, "unackedMessages": 50}
    code, verdict = judged(stats, 2)
    assert (code, verdict["status"]) == (3, "unknown")
    named = {each["code"] for each in (*verdict["findings"], *verdict["suspects"])}
    assert "permits-exhausted" in named
