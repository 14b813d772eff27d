"""A broker's stats as values: what 4.0.8 wrote, what older versions leave out, what is damaged."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from typing import Any
from urllib.parse import unquote_plus

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pulsar_doctor.broker.stats.fields import document_of, snake
from pulsar_doctor.broker.stats.internal import CursorStats, InternalStats
from pulsar_doctor.broker.stats.reading import (
    internal_stats,
    partitioned_internal_stats,
    partitioned_stats,
    topic_stats,
)
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import ConsumerStats, SubscriptionStats, TopicStats
from pulsar_doctor.broker.stats.values import epoch_ms
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.errors import InputError
from tests.broker.recorded import (
    FOLDER,
    NAMES,
    consumer_of,
    internal_of,
    recording,
    stats_of,
    subscription_of,
)

READERS: tuple[Callable[[Any], object], ...] = (
    topic_stats,
    partitioned_stats,
    internal_stats,
    partitioned_internal_stats,
)


def cursor_of(name: str, at: int = -1) -> CursorStats:
    (found,) = (internal_stats(internal_of(name, at)).cursors or {}).values()
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_recording_says_where_it_comes_from_and_is_read(name: str) -> None:
    told = recording(name)
    assert name.startswith(f"made-up-{told['version']}-" if told["made_up"] else told["version"])
    assert told["scenario"]
    for sample in told["samples"]:
        if told["kind"] == "topic":
            assert topic_stats(sample["stats"]).subscriptions is not None
            assert internal_stats(sample["internal"]).cursors is not None
        else:
            assert partitioned_stats(sample["stats"]).partitions is not None


def test_a_shared_subscription_that_stands_still() -> None:
    stats = topic_stats(stats_of("4.0.8-shared-stuck"))
    assert (stats.msg_in_counter, stats.storage_size, stats.ongoing_txn_count) == (60, 2100, 0)
    billing = (stats.subscriptions or {})["billing"]
    assert (billing.type, billing.is_durable, billing.is_replicated) == ("Shared", True, False)
    assert (billing.msg_backlog, billing.unacked_messages, billing.msg_in_replay) == (60, 20, 0)
    first, second = billing.consumers or ()
    assert (first.consumer_name, second.consumer_name) == ("worker-1", "worker-2")
    assert (first.available_permits, first.unacked_messages, first.msg_out_counter) == (0, 10, 10)
    assert first.blocked_consumer_on_unacked_msgs is False
    assert first.last_consumed_flow_timestamp_ms == 1795262258604
    assert first.connected_since == "2026-11-21T11:57:38.603565403Z"
    assert first.connected_since_ms == 1795262258603


def test_a_moment_that_never_came_is_none_and_named_and_not_the_same_as_not_told() -> None:
    document = stats_of("4.0.8-shared-stuck")
    first = document["subscriptions"]["billing"]["consumers"][0]
    told = (topic_stats(document).subscriptions or {})["billing"].consumers or ()
    assert told[0].last_acked_timestamp_ms is None
    assert told[0].never == {"last_acked_timestamp_ms"}
    del first["lastAckedTimestamp"]
    cut = (topic_stats(document).subscriptions or {})["billing"].consumers or ()
    assert cut[0].last_acked_timestamp_ms is None
    assert cut[0].never == frozenset()


def test_nobody_ever_attached() -> None:
    never = subscription_of("4.0.8-never-subscribed")
    assert (never.type, never.consumers, never.msg_backlog) == ("None", (), 0)
    assert len(never.never) == 5
    left = subscription_of("4.0.8-no-consumer")
    assert (left.type, left.consumers, left.msg_backlog) == ("Shared", (), 7)
    assert left.last_consumed_flow_timestamp_ms == 1795262274337


def test_batches_of_an_exclusive_consumer_and_the_cursor_beside_it() -> None:
    only = consumer_of("4.0.8-exclusive-batches", at=0)
    assert (only.available_permits, only.avg_messages_per_entry) == (-30, 50)
    assert only.unacked_messages == 0
    before, after = (cursor_of("4.0.8-exclusive-batches", at) for at in (0, 1))
    assert (before.mark_delete_position, after.mark_delete_position) == ((156, -1), (156, 0))
    assert (before.cursor_ledger, after.cursor_ledger) == (-1, 157)  # it has none yet
    assert (after.read_position, after.messages_consumed_counter) == ((156, 4), 1)


def test_a_standby_and_the_active_consumer() -> None:
    subscription = subscription_of("4.0.8-failover-standby")
    assert (subscription.type, subscription.active_consumer_name) == ("Failover", "b")
    assert [c.available_permits for c in subscription.consumers or ()] == [10, 10]


def test_key_shared_with_hashes_that_drain() -> None:
    subscription = subscription_of("4.0.8-key-shared-draining")
    assert (subscription.msg_in_replay, subscription.msg_backlog) == (2, 16)
    assert subscription.draining_hashes_count == 2
    first, second = subscription.consumers or ()
    assert [h.blocked_attempts for h in first.draining_hashes or ()] == [3, 2]
    assert second.draining_hashes == ()


def test_delays_limits_and_throttles() -> None:
    delayed = subscription_of("4.0.8-delayed")
    assert (delayed.msg_backlog, delayed.msg_delayed) == (5, 5)
    blocked = consumer_of("4.0.8-unacked-limit")
    assert (blocked.blocked_consumer_on_unacked_msgs, blocked.available_permits) == (True, 5)
    throttled = [subscription_of("4.0.8-dispatch-throttled", at) for at in (0, 1)]
    by = [each.dispatch_throttled_msg_events_by_subscription_limit for each in throttled]
    assert by == [4, 8]
    assert throttled[0].dispatch_throttled_msg_events_by_topic_limit == 0


def test_holes_and_the_position_of_the_last_entry() -> None:
    cursor = cursor_of("4.0.8-holes")
    assert cursor.individually_deleted_messages is not None
    assert cursor.individually_deleted_messages.startswith("[(175:0..175:1],(175:2..175:3],")
    assert cursor.total_non_contiguous_deleted_messages_range == 10
    assert subscription_of("4.0.8-holes").non_contiguous_deleted_messages_ranges == 10
    internal = internal_stats(internal_of("4.0.8-holes"))
    assert internal.last_confirmed_entry == (175, 19)
    assert [ledger.ledger_id for ledger in internal.ledgers or ()] == [175]


def test_a_reader_is_not_durable() -> None:
    reader = subscription_of("4.0.8-reader")
    assert (reader.is_durable, reader.type, reader.active_consumer_name) == (
        False,
        "Exclusive",
        "tail",
    )
    cursor = cursor_of("4.0.8-reader")
    assert cursor.waiting_read_op is True
    assert cursor.subscription_have_pending_read is True


def test_a_non_persistent_topic_does_not_tell_what_it_does_not_keep() -> None:
    subscription = subscription_of("4.0.8-non-persistent")
    assert subscription.never == frozenset()
    assert subscription.last_consumed_flow_timestamp_ms is None
    assert (subscription.unacked_messages, subscription.msg_out_counter) == (None, 10)
    consumer = consumer_of("4.0.8-non-persistent")  # it did acknowledge one message
    assert "last_acked_timestamp_ms" not in consumer.never
    assert consumer.last_consumed_flow_timestamp_ms == 1795262275614
    assert cursor_of("4.0.8-non-persistent") == CursorStats()
    assert subscription.msg_drop_rate == 0.0


@pytest.mark.parametrize(("rate", "read"), [(3.5, 3.5), (None, None), (-1.0, None)])
def test_a_rate_of_dropped_messages_is_of_its_subscription(
    rate: float | None, read: float | None
) -> None:
    document = topic_stats({"subscriptions": {"s": {"type": "Shared", "msgDropRate": rate}}})
    assert (document.subscriptions or {})["s"].msg_drop_rate == read


def test_the_totals_of_partitions_tell_sums_and_nothing_that_was_not_folded() -> None:
    for name in ("4.0.8-partitioned-folded", "4.0.8-partitioned-per-partition"):
        stats = partitioned_stats(stats_of(name))
        total = (stats.totals.subscriptions or {})["s"]
        assert (total.msg_backlog, total.unacked_messages, total.msg_out_counter) == (24, 24, 30)
        assert (total.last_acked_timestamp_ms, total.never) == (None, frozenset())
        assert total.blocked_subscription_on_unacked_msgs is None
        (consumer,) = total.consumers or ()
        assert (consumer.available_permits, consumer.consumer_name) == (0, "wide")
        assert consumer.avg_messages_per_entry is None
        assert consumer.blocked_consumer_on_unacked_msgs is None
        assert stats.totals.ongoing_txn_count is None


def test_partitions_by_name_and_their_cursors() -> None:
    stats = partitioned_stats(stats_of("4.0.8-partitioned-per-partition"))
    backlogs = {
        name.rpartition("-")[2]: (partition.subscriptions or {})["s"].msg_backlog
        for name, partition in (stats.partitions or {}).items()
    }
    assert backlogs == {"0": 7, "1": 9, "2": 8}
    some = next(iter((stats.partitions or {}).values()))
    assert (some.subscriptions or {})["s"].last_acked_timestamp_ms is not None
    internal = partitioned_internal_stats(internal_of("4.0.8-partitioned-per-partition"))
    assert internal is not None
    assert internal.keys() == (stats.partitions or {}).keys()
    assert partitioned_stats(stats_of("4.0.8-partitioned-folded")).partitions == {}


def test_2_8_does_not_tell_what_came_later() -> None:
    subscription = subscription_of("made-up-2.8-key-shared")
    assert subscription.msg_in_replay is None
    assert subscription.draining_hashes_count is None
    assert subscription.dispatch_throttled_msg_events_by_topic_limit is None
    assert subscription.consumers_after_mark_delete_position == {"second": "159:7"}
    first, _ = subscription.consumers or ()
    assert (first.last_consumed_flow_timestamp_ms, first.never) == (
        None,
        {"last_acked_timestamp_ms"},
    )
    same = consumer_of("4.0.8-key-shared-draining")
    assert first.connected_since_ms == same.connected_since_ms  # told in another zone
    assert cursor_of("made-up-2.8-key-shared").subscription_have_pending_read is None


def test_3_3_and_4_2() -> None:
    second = consumer_of("made-up-3.3-key-shared", 1)
    assert (second.last_sent_position_when_joining, second.draining_hashes) == ("159:7", None)
    newer = deepcopy(stats_of("made-up-4.2-shared"))
    for consumer in newer["subscriptions"]["billing"]["consumers"]:
        assert topic_consumer(consumer).first_consumed_flow_timestamp_ms
        del consumer["firstConsumedFlowTimestamp"]
    assert topic_stats(newer) == topic_stats(stats_of("4.0.8-shared-stuck"))


# -- a 0 that cannot be ---------------------------------------------------------------------------

ZEROS = {"lastAckedTimestamp": 0, "lastConsumedTimestamp": 0, "lastConsumedFlowTimestamp": 0}
ALL_NEVER = {f"{snake(name)}_ms" for name in ZEROS}


def topic_consumer(consumer: dict[str, Any]) -> ConsumerStats:
    subscription = topic_subscription({"consumers": [consumer]})
    assert subscription.consumers is not None
    return subscription.consumers[0]


def topic_subscription(subscription: dict[str, Any]) -> SubscriptionStats:
    told = topic_stats({"subscriptions": {"s": subscription}})
    assert told.subscriptions is not None
    return told.subscriptions["s"]


@pytest.mark.parametrize("moved", [{"msgOutCounter": 7}, {"msgRateOut": 0.5}])
def test_who_was_sent_messages_was_sent_them_at_some_moment(moved: dict[str, Any]) -> None:
    assert topic_consumer(ZEROS).never == ALL_NEVER
    assert topic_consumer({**ZEROS, **moved}).never == set()
    only_acks = {**ZEROS, **moved, "lastConsumedTimestamp": 1_760_000_000_000}
    assert "last_acked_timestamp_ms" in topic_consumer(only_acks).never


def test_who_acknowledges_by_the_rate_has_done_so_at_some_moment() -> None:
    rate = {**ZEROS, "messageAckRate": 0.2}
    for read in (topic_consumer, topic_subscription):
        assert read(rate).never == ALL_NEVER - {"last_acked_timestamp_ms"}


def test_a_subscription_forgets_what_those_that_left_have_done() -> None:
    sent = {**ZEROS, "msgOutCounter": 7, "lastMarkDeleteAdvancedTimestamp": 0}
    assert topic_subscription(sent).never == set()  # and nobody ever asked: these are totals
    asked = {**sent, "lastConsumedFlowTimestamp": 1_760_000_000_000}
    assert topic_subscription(asked).never == {"last_mark_delete_advanced_timestamp_ms"}


# -- not told -------------------------------------------------------------------------------------


def levels(document: Any) -> Iterator[tuple[dict[str, Any], Callable[[Any], Any]]]:
    """Each object of a full document, and how to find its value in what was read."""
    subscription = document["subscriptions"]["s"]
    yield document, lambda stats: stats
    yield document["publishers"][0], lambda stats: stats.publishers[0]
    yield subscription, lambda stats: stats.subscriptions["s"]
    consumer = subscription["consumers"][0]
    yield consumer, lambda stats: stats.subscriptions["s"].consumers[0]
    yield (
        consumer["drainingHashes"][0],
        lambda stats: stats.subscriptions["s"].consumers[0].draining_hashes[0],
    )
    yield document["replication"]["west"], lambda stats: stats.replication["west"]


def full() -> Any:
    """A document with every field that is read, none of them 0, false or empty."""
    document = stats_of("4.0.8-key-shared-draining")
    for inner, value_of in levels(document):
        for field in dataclasses.fields(value_of(topic_stats(document))):
            name = camel(field.name)
            if field.name not in OF_OURS and inner.get(name) in (None, 0, 0.0, False, {}, -1):
                inner[name] = FILLED[str(field.type)]
    return document


FILLED: dict[str, Any] = {
    "int | None": 7,
    "float | None": 7.5,
    "bool | None": True,
    "str | None": "1:2",
    "Mapping[str, str] | None": {"a": "1:2"},
    "Mapping[str, ReplicatorStats] | None": {"west": {}},
    "FunctionInstance | None": {
        "application": "pulsar-function",
        "id": "public/default/f",
        "instance_id": "0",
    },
}


# No fields of the broker's, and one that only a non-persistent topic has.
OF_OURS = ("never", "cannot_be", "msg_drop_rate", "unowned_hashes")


def camel(name: str) -> str:
    head, *rest = name.removesuffix("_ms").split("_")
    return head + "".join(word.title() for word in rest)


@pytest.mark.parametrize("level", range(5))
def test_each_field_is_none_when_it_is_missing_or_null_and_nothing_else_changes(level: int) -> None:
    document = full()
    inner, value_of = list(levels(document))[level]
    whole = value_of(topic_stats(document))
    names = [field.name for field in dataclasses.fields(whole) if field.name not in OF_OURS]
    assert all(getattr(whole, name) not in (None, 0, False) for name in names)
    for name in names:
        key = camel(name)
        kept = inner.pop(key)
        for nothing in ({}, {key: None}):
            inner |= nothing
            assert value_of(topic_stats(document)) == dataclasses.replace(whole, **{name: None})
        inner[key] = kept


def test_each_field_of_internal_stats_is_none_when_it_is_missing() -> None:
    document = internal_of("4.0.8-holes")
    cursor = document["cursors"]["s"]
    whole = internal_stats(document)
    whole_cursor = (whole.cursors or {})["s"]
    for field in dataclasses.fields(InternalStats):
        cut = {k: v for k, v in document.items() if k != camel(field.name)}
        assert internal_stats(cut) == dataclasses.replace(whole, **{field.name: None})
    for field in dataclasses.fields(CursorStats):
        assert getattr(whole_cursor, field.name) is not None
        cut = {k: v for k, v in cursor.items() if k != camel(field.name)}
        read = (internal_stats(document | {"cursors": {"s": cut}}).cursors or {})["s"]
        assert read == dataclasses.replace(whole_cursor, **{field.name: None})


def test_minus_1_is_not_a_size() -> None:
    document = stats_of("4.0.8-shared-stuck")
    document["subscriptions"]["billing"]["backlogSize"] = -1  # subscriptionBacklogSize=false
    subscription = (topic_stats(document).subscriptions or {})["billing"]
    assert subscription.backlog_size is None


def test_a_null_in_an_object_of_texts_is_left_out() -> None:
    document = {"subscriptions": {"s": {"consumersAfterMarkDeletePosition": {"a": None}}}}
    subscription = (topic_stats(document).subscriptions or {})["s"]
    assert subscription.consumers_after_mark_delete_position == {}


def test_a_tool_may_have_written_a_whole_number_with_a_point() -> None:
    told = topic_stats({"msgInCounter": 737.0, "subscriptions": {"s": {"msgBacklog": 1.5e6}}})
    assert (told.msg_in_counter, (told.subscriptions or {})["s"].msg_backlog) == (737, 1_500_000)
    assert type(told.msg_in_counter) is int


# -- wrong ----------------------------------------------------------------------------------------

WRONG = [
    (["subscriptions", "s", "consumers", 0, "availablePermits"], "x", '"x", not a whole number'),
    (["subscriptions", "s", "consumers", 0, "availablePermits"], True, "true, not a whole number"),
    (["subscriptions", "s", "consumers", 0, "availablePermits"], 1.5, "1.5, not a whole number"),
    (["subscriptions", "s", "msgRateOut"], float("nan"), "NaN, not a finite numb"),
    (
        ["subscriptions", "s", "msgBacklog"],
        10**400,
        "a number of more than 64 bits, not a number that a broker can count to",
    ),
    (["subscriptions", "s", "msgBacklog"], [1], "a list, not a whole number"),
    (["subscriptions", "s", "consumers", 1], 7, "7, not an object"),
    (["subscriptions", "s", "consumers"], {}, "an object, not a list"),
    (["subscriptions", "s", "isDurable"], 1, "1, not true or false"),
    (["subscriptions", "s"], None, "null, not an object"),
    (["subscriptions"], "y" * 99, '"' + "y" * 39 + "…, not an object"),
    (["publishers", 0, "producerName"], 3, "3, not a string"),
]
PATHS = {
    "subscriptions.s.consumers[0].availablePermits",
    "subscriptions.s.msgRateOut",
    "subscriptions.s.msgBacklog",
    "subscriptions.s.consumers[1]",
    "subscriptions.s.consumers",
    "subscriptions.s.isDurable",
    "subscriptions.s",
    "subscriptions",
    "publishers[0].producerName",
}


@pytest.mark.parametrize(("path", "value", "says"), WRONG)
def test_a_wrong_type_is_named_with_its_path(path: list[Any], value: Any, says: str) -> None:
    document = stats_of("4.0.8-key-shared-draining")
    *outer, last = path
    inner = document
    for key in outer:
        inner = inner[key]
    inner[last] = value
    with pytest.raises(InputError) as raised:
        topic_stats(document)
    where, _, what = str(raised.value).partition(" is ")
    assert where in PATHS
    assert what.startswith(says)


def test_a_name_with_dots_is_quoted_in_the_path() -> None:
    with pytest.raises(InputError, match=r'^subscriptions\["a\.b\\n"\]\.msgBacklog is "x", not'):
        topic_stats({"subscriptions": {"a.b\n": {"msgBacklog": "x"}}})
    with pytest.raises(InputError, match=r'^partitions\["p://a"\]\.storageSize is "x", not'):
        partitioned_stats({"storageSize": 1, "partitions": {"p://a": {"storageSize": "x"}}})
    with pytest.raises(InputError, match=r"^cursors\.s\.readPosition is .*, not a position"):
        internal_stats({"cursors": {"s": {"readPosition": "5"}}})


@pytest.mark.parametrize("document", [[], 7, "text", None, {}, {"reason": "Topic not found"}])
def test_what_is_no_stats_at_all_is_refused(document: Any) -> None:
    for read in READERS[:3]:
        with pytest.raises(InputError, match="the document"):
            read(document)
    with pytest.raises(InputError, match="holds no field"):
        topic_stats(internal_of("4.0.8-holes"))
    with pytest.raises(InputError, match="holds no field"):
        internal_stats(stats_of("4.0.8-holes"))


@pytest.mark.parametrize("text", ["", "<html>", "{", b"\xff\xfe\x00", "[" * 100_000, "9" * 5000])
def test_text_that_is_no_json_is_one_sentence(text: str | bytes) -> None:
    with pytest.raises(InputError, match=r"stats\.json is not readable JSON"):
        document_of(text, "stats.json")


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-21T11:57:38.603565403Z", 1795262258603),
        ("2026-11-21T11:57:38.6Z", 1795262258600),
        ("2026-11-21T12:57:38.603+01:00", 1795262258603),
        ("1970-01-01T00:00:00Z", 0),
        ("2026-11-21 11:57:38.603", None),  # without a zone it is no moment
        ("yesterday", None),
        ("0001-01-01T00:00:00+23:59", -62135683140000),
        (None, None),
    ],
)
def test_moments_written_as_text(text: str | None, ms: int | None) -> None:
    assert epoch_ms(text) == ms


def test_snake_case_is_the_name_of_the_field() -> None:
    for stats in (ConsumerStats, SubscriptionStats, TopicStats, CursorStats):
        for field in dataclasses.fields(stats):
            assert snake(camel(field.name)) == field.name.removesuffix("_ms")


# -- damaged --------------------------------------------------------------------------------------

DOCUMENTS = [
    document
    for name in NAMES
    for sample in recording(name)["samples"][:1]
    for document in (sample["stats"], sample["internal"])
    if document is not None
]
DROPPING = stats_of("4.0.8-non-persistent")
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from([2**31, 2**63, -(2**63), -(2**63) - 1, 10**400, 1795262258603]),
    st.floats(),
    st.sampled_from(["", "x", "1:2", "-1:-1", "9" * 99 + ":1", "\ud800", "2026-11-21T11:57Z"]),
)
KEYS = st.sampled_from(["subscriptions", "consumers", "s", "msgDropRate", "cursors", "hash"])
VALUES = st.one_of(
    SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(KEYS, SCALARS, max_size=2)
)


@st.composite
def damage(draw: st.DrawFn) -> tuple[list[int], str, Any]:
    """Where (one choice at each level down), what, and with which value."""
    steps = draw(st.lists(st.integers(0, 60), max_size=7))
    return steps, draw(st.sampled_from(["replace", "drop", "nest"])), draw(VALUES)


def damaged(document: Any, steps: list[int], what: str, value: Any) -> None:
    inner = document
    for at, step in enumerate(steps):
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        if not keys:
            return
        key = keys[step % len(keys)]
        if at == len(steps) - 1 or not isinstance(inner[key], dict | list):
            if what == "drop":
                del inner[key]
            else:
                inner[key] = value if what == "replace" else {"s": inner[key]}
            return
        inner = inner[key]


def try_to_read(document: Any) -> dict[str, Any]:
    """What each reader made of it; what it refused is left out, and said in one sentence."""
    read, refused = {}, []
    for reader in READERS:
        try:
            value = reader(document)
        except InputError as error:
            refused.append(str(error))
        else:
            if isinstance(value, TopicStats):
                use(value)
            if value is not None:
                read[reader.__name__] = value
    for sentence in refused:
        sentence.encode()  # can be printed
        assert re.fullmatch(r"[^\n]+", sentence)
    return read


def use(stats: TopicStats) -> None:
    other = topic_stats(stats_of("4.0.8-shared-moving"))
    window = Window((Sample(None, stats), Sample(None, other), Sample(None, stats)))
    for name in (stats.subscriptions or {}).keys() | {"billing"}:
        course = window.subscription(name)
        assert (course.growth(lambda s: s.msg_out_counter) or 0) >= 0
        window.consumers(name)
        window.left(name)
    window.last.age(0)


@settings(max_examples=400, deadline=None)
@given(st.integers(0, len(DOCUMENTS) - 1), st.lists(damage(), min_size=1, max_size=4))
@example(0, [([], "replace", None)])
@example(DOCUMENTS.index(DROPPING), [([list(DROPPING).index("msgDropRate")], "drop", None)])
def test_a_damaged_document_is_read_or_refused(
    number: int, damages: list[tuple[list[int], str, Any]]
) -> None:
    document = deepcopy(DOCUMENTS[number])
    for each in damages:
        damaged(document, *each)
    whole = DOCUMENTS[number]
    sound = {key for key in whole.keys() & document.keys() if document[key] == whole[key]}
    read, before = try_to_read(document), undamaged(number)
    for reader in {"topic_stats", "internal_stats"} & read.keys() & before.keys():
        assert of_keys(read[reader], sound) == of_keys(before[reader], sound)


@cache
def undamaged(number: int) -> dict[str, Any]:
    return try_to_read(DOCUMENTS[number])


def of_keys(stats: Any, keys: set[str]) -> dict[str, Any]:
    """The fields that come from these keys of the document."""
    fields = (field.name for field in dataclasses.fields(stats))
    return {name: getattr(stats, name) for name in fields if camel(name) in keys}


@settings(max_examples=100, deadline=None)
@given(st.recursive(SCALARS, lambda inner: st.dictionaries(st.text(), inner) | st.lists(inner)))
@example({"a": {}, "b": {"c": 1}})
@example({"+": {}})
def test_any_json_is_read_or_refused(document: Any) -> None:
    read = try_to_read(document)
    assert isinstance(document, dict) or not read
    wrapped = try_to_read({"subscriptions": document, "cursors": document, "partitions": document})
    if not isinstance(document, dict):
        assert not wrapped
        return
    objects = all(isinstance(value, dict) for value in document.values())
    cursors = {unquote_plus(name) for name in document}  # of them the broker writes names encoded
    for reader, field, names in (
        ("topic_stats", "subscriptions", set(document)),
        ("internal_stats", "cursors", cursors),
    ):
        assert (reader in wrapped) == objects
        assert not objects or getattr(wrapped[reader], field).keys() == names


def test_every_single_value_of_a_document_wrong_in_every_way() -> None:
    document = stats_of("4.0.8-key-shared-draining")
    tried = refused = 0
    for inner, key in places(document):
        kept = inner[key]
        for value in (None, True, -1, 0.5, float("nan"), 2**64, "x", [], [None], {}, {"s": None}):
            inner[key] = value
            tried += 1
            try:
                topic_stats(document)
            except InputError:
                refused += 1
        inner[key] = kept
    assert tried > 2500
    assert refused > 500


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


def test_any_cut_of_a_file_is_no_json() -> None:
    text = json.dumps(json.loads((FOLDER / "4.0.8-empty.json").read_text())["samples"][0]["stats"])
    for end in range(len(text)):
        with pytest.raises(InputError):
            document_of(text[:end], "stats.json")
