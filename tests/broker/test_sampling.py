"""Topics of a live broker over a window: what is asked, what is kept, what is told of failures."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from pulsar_doctor.broker.admin import Admin, topic_name
from pulsar_doctor.broker.sampling import Sampled, SamplingPlan, Watch, sample
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.broker.stats.observed import ClusterLimits
from pulsar_doctor.errors import InputError
from tests.broker.http_broker import DATE_MS, Asked, HttpBroker, Reply, serving

SOON = SamplingPlan(window_seconds=0.2, interval_seconds=0.05)
ONCE = SamplingPlan(window_seconds=0)
GONE = Reply(404, {"reason": "Topic not found"})
CUT = Reply(document={}, cut=True)
INTERNAL = {"state": "LedgerOpened", "lastConfirmedEntry": "7:1", "cursors": {}}
HOME = "persistent://t/n/"


def stats(backlog: int | None = 0, unacked: int = 0, sent: int = 0, **more: Any) -> dict[str, Any]:
    subscription = {"type": "Shared", "msgBacklog": backlog, "unackedMessages": unacked}
    return {
        "msgInCounter": 9,
        "subscriptions": {"s": subscription | {"msgOutCounter": sent} | more},
    }


def partitioned(count: int, *numbers: int, topic: str = "x", **more: Any) -> dict[str, Any]:
    """The answer for a topic of `count` partitions, of which these exist."""
    told = {f"{HOME}{topic}-partition-{number}": stats(**more) for number in numbers}
    return {"metadata": {"partitions": count}, "partitions": told}


class Cluster:
    """Answers for topics of t/n: `local/kind` -> replies in their order, the last again and again.

    What is not in the script: topics without partitions, no limits, and 404.
    """

    def __init__(self, script: Mapping[str, Any]) -> None:
        self._script = {
            key: list(told) if isinstance(told, list) else [told] for key, told in script.items()
        }

    def __call__(self, asked: Asked) -> Reply:
        key = key_of(asked)
        replies = self._script.get(key)
        if replies is None:
            return Reply(document={"partitions": 0}) if key.endswith("/partitions") else GONE
        told = replies.pop(0) if len(replies) > 1 else replies[0]
        told = told() if callable(told) else told
        return told if isinstance(told, Reply) else Reply(document=told)


def key_of(asked: Asked) -> str:
    path = asked.path.partition("?")[0].removeprefix("/admin/v2/")
    return path.removeprefix("persistent/t/n/")


@contextmanager
def cluster(script: Mapping[str, Any]) -> Iterator[HttpBroker]:
    with serving(Cluster(script)) as broker:
        yield broker
    assert {asked.method for asked in broker.asked} <= {"GET"}


def read(url: str, *topics: str, plan: SamplingPlan = SOON, watch: Watch | None = None,
         **more: Any) -> Sampled:  # fmt: skip
    async def reading() -> Sampled:
        async with Admin(Settings(admin_url=url), **more) as admin:
            return await sample(admin, topics, plan, watch or Watch())

    return asyncio.run(reading())


def asked_for(broker: HttpBroker) -> Counter[str]:
    return Counter(key_of(asked) for asked in broker.asked)


def reasons(sampled: Sampled) -> dict[str, str]:
    return {unread.topic.removeprefix(HOME): unread.reason for unread in sampled.unread}


# The window


def test_one_topic_is_read_from_the_first_beat_to_the_last():
    with cluster({"x/stats": [stats(sent=0), stats(sent=1), stats(sent=5)]}) as broker:
        told = read(broker.url, "t/n/x")
    (window,) = told.windows
    assert (window.topic, window.partition) == ("persistent://t/n/x", None)
    assert 2 <= len(window.window.samples) <= SOON.samples == 5
    assert window.window.last.taken_ms == DATE_MS
    assert asked_for(broker)["x/stats"] == len(window.window.samples)
    (observed,) = window.subscriptions()
    assert observed.course.growth(lambda s: s.msg_out_counter) in (1, 5)
    assert (told.unread, told.not_loaded, told.notes) == ((), (), ())


@pytest.mark.parametrize(
    ("standing", "asked"),
    [
        ({"lastMarkDeleteAdvancedTimestamp": DATE_MS - 400_000, "msgOutCounter": 9}, True),
        ({"lastMarkDeleteAdvancedTimestamp": 0, "msgOutCounter": 9}, True),
        ({"lastMarkDeleteAdvancedTimestamp": DATE_MS - 200_000, "msgOutCounter": 9}, False),
        ({"lastMarkDeleteAdvancedTimestamp": 0, "msgOutCounter": 0}, False),
    ],
)
@pytest.mark.parametrize("plan", [SOON, ONCE])
def test_the_age_of_the_oldest_message_is_asked_for_once_where_mark_delete_stands(
    standing, asked, plan
):
    told = stats(backlog=5)
    told["subscriptions"]["s"] |= standing
    whole = {"x/stats": told, "x/internalStats": INTERNAL}

    def answer(asked: Asked) -> Reply:
        tells = "getEarliestTimeInBacklog=true" in asked.path
        published = DATE_MS - 500_000 if tells else 0
        told["subscriptions"]["s"]["earliestMsgPublishTimeInBacklog"] = published
        return Cluster(whole)(asked)

    with serving(answer) as broker:
        read(broker.url, "t/n/x", plan=plan)
    wanted = [each.path for each in broker.asked if "getEarliestTimeInBacklog=true" in each.path]
    assert len(wanted) == int(asked)


def test_the_age_of_the_oldest_message_is_asked_for_again_where_the_broker_did_not_tell_it():
    told = stats(backlog=5, sent=9)
    told["subscriptions"]["s"] |= {"lastMarkDeleteAdvancedTimestamp": 0}
    with cluster({"x/stats": told, "x/internalStats": INTERNAL}) as broker:
        read(broker.url, "t/n/x", plan=SOON)
    paths = [each.path for each in broker.asked if "x/stats" in each.path]
    asked = ["getEarliestTimeInBacklog=true" in path for path in paths]
    assert asked.count(True) == 2
    assert asked[-1]


def test_a_broker_that_cannot_read_the_oldest_message_is_judged_without():
    told = stats(backlog=5, sent=9)
    told["subscriptions"]["s"] |= {"lastMarkDeleteAdvancedTimestamp": 0}

    def answer(asked: Asked) -> Reply:
        fails = "getEarliestTimeInBacklog=true" in asked.path
        return (
            Reply(500) if fails else Cluster({"x/stats": told, "x/internalStats": INTERNAL})(asked)
        )

    with serving(answer) as broker:
        sampled = read(broker.url, "t/n/x", plan=ONCE)
    assert len(sampled.windows) == 1
    assert not sampled.unread


def test_a_window_of_0_is_one_sample():
    with cluster({"x/stats": stats()}) as broker:
        (window,) = read(broker.url, "t/n/x", plan=ONCE).windows
    assert len(window.window.samples) == 1
    assert asked_for(broker)["x/stats"] == 1


@pytest.mark.parametrize(
    ("window", "interval", "samples"),
    [(10, 1, 11), (0, 1, 1), (1, 2, 2), (2.5, 1, 4), (0.3, 0.1, 4), (0.7, 0.1, 8), (2.1, 0.3, 8)],
)
def test_samples_are_planned_for_both_ends_of_the_window(window, interval, samples):
    assert SamplingPlan(window, interval).samples == samples


@pytest.mark.parametrize(
    ("window", "interval"), [(-1, 1), (1, 0), (1, -1), (float("nan"), 1), (1, float("inf"))]
)
def test_a_window_that_cannot_be_is_wrong_usage(window, interval):
    with pytest.raises(InputError, match="cannot be; see --"):
        SamplingPlan(window, interval)


def test_a_topic_named_twice_is_read_once():
    with cluster({"x/stats": stats()}) as broker:
        told = read(broker.url, "t/n/x", "persistent://t/n/x", plan=ONCE)
    assert len(told.windows) == 1
    assert asked_for(broker)["x/stats"] == 1


def test_a_topic_that_answers_late_leaves_out_beats_and_is_never_asked_twice_at_once():
    def late() -> dict[str, Any]:
        time.sleep(0.15)
        return stats()

    plan = SamplingPlan(window_seconds=0.6, interval_seconds=0.1, limits=False)
    with cluster({"x/stats": late}) as broker:
        (window,) = read(broker.url, "t/n/x", plan=plan).windows
    assert 2 <= len(window.window.samples) <= 4  # begun at 0, 0.2, 0.4 and 0.6 at best
    assert broker.most_at_once == 1


def test_a_topic_slower_than_the_window_still_has_a_sample_from_each_end():
    def very_late() -> dict[str, Any]:
        time.sleep(0.3)
        return stats()

    with cluster({"x/stats": very_late}) as broker:
        (window,) = read(broker.url, "t/n/x").windows
    assert len(window.window.samples) == 2


def test_progress_goes_from_the_first_sample_to_all_that_were_planned():
    told: list[tuple[int, int]] = []
    with cluster({"x/stats": stats(), "y/stats": stats()}) as broker:
        read(broker.url, "t/n/x", "t/n/y", "t/n/none",
             watch=Watch(progress=lambda *n: told.append(n)))  # fmt: skip
    assert {planned for _, planned in told} == {15}
    assert sorted(told) == told
    assert told[-1] == (15, 15)


def test_what_became_a_sample_is_kept_as_it_was_read():
    kept: list[Any] = []
    script = {"x/stats": [stats(3), stats(3), "garbage", stats(3)], "x/internalStats": INTERNAL}
    with cluster(script) as broker:
        (window,) = read(broker.url, "t/n/x", watch=Watch(keep=kept.append)).windows
    assert len(kept) == len(window.window.samples)
    assert {(r.topic, r.taken_ms, str(r.stats), str(r.internal)) for r in kept} == {
        ("persistent://t/n/x", DATE_MS, str(stats(3)), str(INTERNAL))
    }


def test_no_more_is_asked_at_once_than_admin_allows():
    def slowly() -> dict[str, Any]:
        time.sleep(0.01)
        return stats()

    topics = [f"t/n/{number}" for number in range(40)]
    with cluster({f"{number}/stats": slowly for number in range(40)}) as broker:
        told = read(broker.url, *topics, plan=ONCE, concurrency=4)
    assert [window.topic for window in told.windows] == [f"persistent://{t}" for t in topics]
    assert broker.most_at_once <= 4


def test_samples_before_the_clock_went_back_are_left_out_and_that_is_told():
    def at(second: int) -> Reply:
        return Reply(document=stats(), headers={"Date": f"Sat, 21 Nov 2026 11:56:{second:02} GMT"})

    with cluster({"x/stats": [at(30), at(31), at(10), at(11)]}) as broker:
        told = read(broker.url, "t/n/x", plan=SamplingPlan(1.5, 0.1))
    (window,) = told.windows
    assert window.window.first.taken_ms == DATE_MS + 9_000
    assert told.notes == (
        "persistent://t/n/x: 2 samples are left out, because the clock of the broker that "
        "answered next is behind",
    )


# The end of it before its time


def test_the_window_ends_when_every_topic_is_decided():
    script = {"x/stats": stats(), "y/stats": stats()}
    asked: list[int] = []

    def decisive(windows: list[Any]) -> bool:
        asked.append(len(windows[0].window.samples))
        return True

    with cluster(script) as broker:
        told = read(broker.url, "t/n/x", "t/n/y", "t/n/none",
                    plan=SamplingPlan(60, 0.05), watch=Watch(decisive=decisive))  # fmt: skip
    assert min(asked) == 3
    assert len(told.windows) == 2


def test_nothing_is_decided_without_the_limits():
    script = {
        "x/stats": stats(unacked=1),
        "x/maxUnackedMessagesOnConsumer": 10,
        "x/maxUnackedMessagesOnSubscription": 20,
    }
    seen: list[tuple[int | None, int | None]] = []

    def decisive(windows: list[Any]) -> bool:
        limits = windows[0].limits
        seen.append((
            limits.max_unacked_messages_per_consumer, limits.max_unacked_messages_per_subscription
        ))  # fmt: skip
        return True

    with cluster(script) as broker:
        read(broker.url, "t/n/x", plan=SamplingPlan(60, 0.02), watch=Watch(decisive=decisive))
    assert set(seen) == {(10, 20)}


def test_one_topic_that_is_not_decided_keeps_the_window_open():
    script = {"x/stats": stats(), "y/stats": stats()}
    only_x = Watch(decisive=lambda windows: windows[0].topic.endswith("x"))
    with cluster(script) as broker:
        told = read(broker.url, "t/n/x", "t/n/y", plan=SamplingPlan(1.5, 0.05), watch=only_x)
    assert min(len(window.window.samples) for window in told.windows) > 3


def test_many_topics_that_end_early_have_ledgers_in_their_last_sample():
    script: dict[str, Any] = {}
    for number in range(9):
        script |= {f"{number}/stats": stats(1), f"{number}/internalStats": INTERNAL}
    with cluster(script) as broker:
        told = read(broker.url, *(f"t/n/{n}" for n in range(9)), plan=SamplingPlan(60, 0.05),
                    watch=Watch(decisive=lambda windows: True))  # fmt: skip
    assert all(window.window.last.internal for window in told.windows)


# Partitions


def test_all_partitions_come_with_one_request_for_each_sample():
    script = {"x/partitions": {"partitions": 3}, "x/partitioned-stats": partitioned(3, 0, 1, 2)}
    with cluster(script) as broker:
        told = read(broker.url, "t/n/x")
    assert [(w.topic, w.partition) for w in told.windows] == [(f"{HOME}x", n) for n in range(3)]
    (samples,) = {len(window.window.samples) for window in told.windows}
    assert asked_for(broker) == {
        "x/partitions": 1, "brokers/configuration/runtime": 1, "x/partitioned-stats": samples,
    }  # fmt: skip


def test_partitions_come_in_the_order_of_their_numbers():
    script = {"x/partitions": {"partitions": 11},
              "x/partitioned-stats": partitioned(11, 10, 2, 0)}  # fmt: skip
    with cluster(script) as broker:
        told = read(broker.url, "t/n/x", plan=ONCE)
    assert [window.partition for window in told.windows] == [0, 2, 10]


@pytest.mark.parametrize(
    "answer", [partitioned(2), {"partitions": {f"{HOME}x": {"msgInCounter": 0}}}, GONE]
)
def test_partitions_that_nobody_has_used_are_not_loaded(answer):
    script = {"x/partitions": {"partitions": 2}, "x/partitioned-stats": answer}
    with cluster(script) as broker:
        told = read(broker.url, "t/n/x")
    unused = (f"{HOME}x-partition-0", f"{HOME}x-partition-1")
    assert told == Sampled(not_loaded=unused, partitions={f"{HOME}x": 2})


def test_a_partition_that_is_not_there_yet_stands_beside_those_that_are():
    script = {"x/partitions": {"partitions": 3}, "x/partitioned-stats": partitioned(3, 0, 2)}
    with cluster(script) as broker:
        told = read(broker.url, "t/n/x", plan=ONCE)
    assert [window.partition for window in told.windows] == [0, 2]
    assert told.not_loaded == (f"{HOME}x-partition-1",)


def test_a_partition_that_goes_during_the_window_is_unread():
    script = {"x/partitions": {"partitions": 2},
              "x/partitioned-stats": [partitioned(2, 0, 1), partitioned(2, 0)]}  # fmt: skip
    with cluster(script) as broker:
        told = read(broker.url, "t/n/x")
    assert [window.partition for window in told.windows] == [0]
    assert reasons(told) == {"x-partition-1": "was deleted or unloaded during the window"}
    assert told.not_loaded == ()


def test_a_partition_with_a_wrong_field_does_not_spoil_the_others():
    answer = partitioned(2, 0, 1)
    answer["partitions"][f"{HOME}x-partition-1"]["msgInCounter"] = "many"
    with cluster({"x/partitions": {"partitions": 2}, "x/partitioned-stats": answer}) as broker:
        told = read(broker.url, "t/n/x")
    assert [window.partition for window in told.windows] == [0]
    assert reasons(told) == {"x-partition-1": 'msgInCounter is "many", not a whole number'}


def test_a_partition_that_is_named_is_read_alone():
    with cluster({"x-partition-1/stats": stats()}) as broker:
        (window,) = read(broker.url, "t/n/x-partition-1", plan=ONCE).windows
    assert (window.topic, window.partition) == ("persistent://t/n/x", 1)
    assert asked_for(broker) == {"x-partition-1/stats": 1, "brokers/configuration/runtime": 1}


def test_a_partition_that_is_named_beside_its_topic_is_read_with_it():
    script = {"x/partitions": {"partitions": 2}, "x/partitioned-stats": partitioned(2, 0, 1)}
    with cluster(script) as broker:
        told = read(broker.url, "t/n/x-partition-1", "t/n/x", plan=ONCE)
    assert [window.partition for window in told.windows] == [0, 1]
    assert told.unread == ()


def test_as_named_nobody_is_asked_for_partitions():
    plan = SamplingPlan(window_seconds=0, as_named=True, limits=False)
    with cluster({"x/stats": stats()}) as broker:
        assert len(read(broker.url, "t/n/x", plan=plan).windows) == 1
    assert asked_for(broker) == {"x/stats": 1}


def test_a_hundred_partitions_take_few_requests_outside_the_windows_samples():
    numbers = range(100)
    internal = {f"{HOME}x-partition-{number}": INTERNAL for number in numbers}
    script = {
        "x/partitions": {"partitions": 100},
        "x/partitioned-stats": partitioned(100, *numbers, backlog=5, unacked=5),
        "x/partitioned-internalStats": {"partitions": internal},
        "x/maxUnackedMessagesOnConsumer": 10,
        "x/maxUnackedMessagesOnSubscription": 20,
        "brokers/configuration/runtime": {"managedLedgerMaxUnackedRangesToPersist": "30"},
    }
    with cluster(script) as broker:
        told = read(broker.url, "t/n/x")
    assert len(told.windows) == 100
    samples = len(told.windows[0].window.samples)
    assert asked_for(broker) == {
        "x/partitions": 1,
        "x/partitioned-stats": samples + 1,  # the first anew, together with its ledgers
        "x/partitioned-internalStats": samples,
        "x/maxUnackedMessagesOnConsumer": 1,
        "x/maxUnackedMessagesOnSubscription": 1,
        "brokers/configuration/runtime": 1,
    }
    assert len(broker.asked) - 2 * samples <= 20
    assert {window.limits for window in told.windows} == {ClusterLimits(10, 20, 30)}
    assert all(sample.internal for window in told.windows for sample in window.window.samples)


# Ledgers and cursors


@pytest.mark.parametrize(
    ("topic", "asked"),
    [
        (stats(0), False),
        (stats(1), True),
        (stats(None), True),
        (stats(0, msgInReplay=1), True),
        (stats(0, nonContiguousDeletedMessagesRanges=1), True),
        (stats(-1), True),
        (stats(0) | {"backlogSize": 730}, True),  # the counter of 0 may be wrong
        ({"msgInCounter": 1, "backlogSize": 730, "subscriptions": {}}, False),
        ({"msgInCounter": 1, "subscriptions": {}}, False),
    ],
)
def test_ledgers_are_read_only_where_something_waits_or_that_is_not_told(topic, asked):
    with cluster({"x/stats": topic, "x/internalStats": INTERNAL}) as broker:
        (window,) = read(broker.url, "t/n/x").windows
    samples = window.window.samples
    assert [sample.internal is not None for sample in samples] == [asked] * len(samples)
    assert asked_for(broker)["x/internalStats"] == len(samples) * asked
    assert asked_for(broker)["x/stats"] == len(samples) + asked


def test_ledgers_are_always_read_where_the_plan_says_so():
    with cluster({"x/stats": stats(0), "x/internalStats": INTERNAL}) as broker:
        (window,) = read(broker.url, "t/n/x", plan=SamplingPlan(0, internal=True)).windows
    assert window.window.last.internal is not None


def test_of_many_topics_ledgers_are_read_in_a_first_a_middle_and_the_last_sample():
    script: dict[str, Any] = {}
    for number in range(9):
        script |= {f"{number}/stats": stats(1), f"{number}/internalStats": INTERNAL}
    with cluster(script) as broker:
        told = read(broker.url, *(f"t/n/{n}" for n in range(9)), plan=SamplingPlan(1.0, 0.1))
    for number, window in enumerate(told.windows):
        ledgers = [sample.internal is not None for sample in window.window.samples]
        assert (ledgers[0], ledgers[-1]) == (True, True)
        assert sum(ledgers) <= 3
        assert asked_for(broker)[f"{number}/internalStats"] == sum(ledgers)


@pytest.mark.parametrize("status", [403, 404, 405])
def test_ledgers_that_are_refused_are_a_note_and_are_asked_for_once(status):
    script = {"x/stats": stats(1), "x/internalStats": Reply(status, {"reason": "not for you"})}
    with cluster(script) as broker:
        told = read(broker.url, "t/n/x")
    (window,) = told.windows
    assert {sample.internal for sample in window.window.samples} == {None}
    assert len(told.notes) == 1
    assert told.notes[0].startswith(f"{HOME}x: judged without internal stats: ")
    assert "not for you" in told.notes[0]
    assert asked_for(broker)["x/internalStats"] == 1


def test_ledgers_with_a_wrong_field_are_a_note():
    script = {"x/stats": stats(1), "x/internalStats": {"totalSize": "x"}}
    with cluster(script) as broker:
        told = read(broker.url, "t/n/x", plan=ONCE)
    assert told.windows[0].window.last.internal is None
    assert told.notes == (
        f'{HOME}x: judged without internal stats: totalSize is "x", not a whole number',
    )  # fmt: skip


# What cannot be read


@pytest.mark.parametrize(
    ("reply", "says", "gone"),
    [
        (GONE, "does not have the stats of", True),
        (Reply(403, {"reason": "no"}), "these credentials may not read", False),
        (Reply(500, {"reason": "disk full"}), "failed with 500 when asked for", False),
        (Reply(body=b'{"a":'), "is not JSON", False),
        (Reply(document=[1]), "is not an object", False),
        (Reply(document={"msgInCounter": "x"}), 'msgInCounter is "x", not a whole number', False),
        (Reply(document={"hello": 1}), "holds no field of a topic's stats", False),
        (CUT, "closed the connection", False),
    ],
)
def test_a_topic_that_cannot_be_read_does_not_stop_the_others(reply, says, gone):
    with cluster({"x/stats": stats(), "bad/stats": reply, "y/stats": stats()}) as broker:
        told = read(broker.url, "t/n/x", "t/n/bad", "t/n/y")
    assert [window.topic for window in told.windows] == [f"{HOME}x", f"{HOME}y"]
    assert min(len(window.window.samples) for window in told.windows) >= 2
    (unread,) = told.unread
    assert (unread.topic, unread.gone) == (f"{HOME}bad", gone)
    assert says in unread.reason
    assert asked_for(broker)["bad/stats"] in (1, 3)  # not again at each beat


def test_a_topic_that_is_not_there_is_told_by_the_question_for_its_partitions():
    with cluster({"x/partitions": GONE}) as broker:
        told = read(broker.url, "t/n/x")
    assert "does not have the partitions of" in reasons(told)["x"]
    assert asked_for(broker)["x/stats"] == 0


def test_a_topic_that_is_deleted_during_the_window_is_unread():
    with cluster({"x/stats": [stats(), stats(), GONE]}) as broker:
        told = read(broker.url, "t/n/x")
    assert told.windows == ()
    (unread,) = told.unread
    assert unread.reason.startswith("was deleted or unloaded during the window (")
    assert unread.gone


def test_a_broker_that_restarts_during_the_window_is_judged_by_what_came():
    away = [CUT] * 3 + [Reply(503, {"reason": "starting"})] * 3  # two readings, each tried thrice
    with cluster({"x/stats": [stats(sent=9), *away, stats(sent=1)]}) as broker:
        told = read(broker.url, "t/n/x", plan=SamplingPlan(2.0, 0.05))
    (window,) = told.windows
    assert window.window.reset is False  # no counter of the topic fell
    (observed,) = window.subscriptions()
    assert observed.course.reset
    assert told.unread == ()
    assert len(told.notes) == 1
    assert told.notes[0].startswith(f"{HOME}x: 2 readings failed during the window (")
    assert "starting" in told.notes[0]


def test_a_broker_that_is_away_at_the_end_of_the_window_is_waited_for_a_little():
    with cluster({"x/stats": [stats(), *[CUT] * 3, stats(sent=4)]}) as broker:
        told = read(broker.url, "t/n/x", plan=SamplingPlan(0.05, 0.05))
    (window,) = told.windows
    assert len(window.window.samples) == 2
    assert told.unread == ()


def test_a_broker_that_does_not_come_back_is_unread():
    with cluster({"x/stats": [stats(), CUT]}) as broker:
        told = read(broker.url, "t/n/x")
    assert told.windows == ()
    assert "closed the connection" in reasons(told)["x"]


def test_a_failure_at_the_end_that_cannot_pass_is_not_waited_for():
    with cluster({"x/stats": [stats(), Reply(403, {"reason": "no"})]}) as broker:
        told = read(broker.url, "t/n/x", plan=SamplingPlan(0.1, 0.1))
    assert "may not read" in reasons(told)["x"]
    assert asked_for(broker)["x/stats"] == 2


# Limits


LIMITS = {
    "x/maxUnackedMessagesOnConsumer": 10,
    "x/maxUnackedMessagesOnSubscription": 0,
    "brokers/configuration/runtime": {"managedLedgerMaxUnackedRangesToPersist": "10000"},
}


@pytest.mark.parametrize(
    ("topic", "limits"),
    [
        (stats(unacked=1), ClusterLimits(10, 0, 10000)),
        (stats(unacked=1, type="Key_Shared"), ClusterLimits(10, 0, 10000)),
        (stats(unacked=0), ClusterLimits(None, None, 10000)),
        (stats(unacked=1, type="Exclusive"), ClusterLimits(None, None, 10000)),
    ],
)
def test_limits_are_read_where_they_can_matter(topic, limits):
    with cluster({"x/stats": topic} | LIMITS) as broker:
        (window,) = read(broker.url, "t/n/x").windows
    assert window.limits == limits
    asked = asked_for(broker)
    assert asked["x/maxUnackedMessagesOnConsumer"] == (
        limits.max_unacked_messages_per_consumer == 10
    )
    assert asked["brokers/configuration/runtime"] == 1


def test_limits_that_are_refused_or_come_late_are_not_told():
    def late() -> dict[str, Any]:
        time.sleep(8)
        return LIMITS["brokers/configuration/runtime"]

    refused = Reply(403, {"reason": "no"})
    script = {"x/stats": stats(unacked=1), "x/maxUnackedMessagesOnConsumer": refused,
              "x/maxUnackedMessagesOnSubscription": 7,
              "brokers/configuration/runtime": late}  # fmt: skip
    with cluster(script) as broker:
        told = read(broker.url, "t/n/x")
    assert told.windows[0].limits == ClusterLimits(None, 7, None)
    assert told.notes == ()


def test_partitions_that_are_named_share_the_limits_of_their_topic():
    script = {f"x-partition-{number}/stats": stats(unacked=1) for number in range(3)} | LIMITS
    with cluster(script) as broker:
        told = read(broker.url, *(f"t/n/x-partition-{number}" for number in range(3)))
    assert {window.limits for window in told.windows} == {ClusterLimits(10, 0, 10000)}
    assert asked_for(broker)["x/maxUnackedMessagesOnConsumer"] == 1


def test_without_limits_nothing_is_asked_for_them():
    plan = SamplingPlan(window_seconds=0, limits=False)
    with cluster({"x/stats": stats(unacked=1)} | LIMITS) as broker:
        (window,) = read(broker.url, "t/n/x", plan=plan).windows
    assert window.limits == ClusterLimits()
    assert asked_for(broker) == {"x/partitions": 1, "x/stats": 1}


# The real broker


def of_real(broker: Any, question: Callable[[Admin], Any]) -> Any:
    async def asking() -> Any:
        async with Admin(Settings(admin_url=broker.admin_url)) as admin:
            return await question(admin)

    return asyncio.run(asking())


def test_a_real_topic_with_partitions_and_a_backlog(broker, admin, client, topic):
    path = f"/admin/v2/{topic_name(topic).path}"
    admin.put(f"{path}/partitions", json=3).raise_for_status()
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for _ in range(30):
        producer.send(b"one")
    admin.delete(f"{path}-partition-2", params={"force": "true"}).raise_for_status()

    told = of_real(broker, lambda a: sample(a, [topic], SamplingPlan(1.0, 0.25)))
    consumer.close()
    producer.close()
    assert {(window.topic, window.partition) for window in told.windows} >= {(topic, 0), (topic, 1)}
    assert (told.unread, told.notes) == ((), ())
    for window in told.windows:
        assert len(window.window.samples) >= 2
        assert window.window.span_ms is not None
        assert window.limits.max_unacked_ranges_to_persist == 10000
        (observed,) = window.subscriptions()
        assert observed.subscription == "s"
        assert window.partition == 2 or observed.cursor_now is not None


def test_a_real_topic_is_deleted_during_the_window(broker, admin, client, topic):
    client.create_producer(topic).close()

    async def deleting(admin_: Admin) -> Sampled:
        window = asyncio.create_task(sample(admin_, [topic], SamplingPlan(1.5, 0.1)))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(
            admin.delete, f"/admin/v2/{topic_name(topic).path}", params={"force": "true"}
        )
        return await window

    told = of_real(broker, deleting)
    assert told.windows == ()
    assert [unread.topic for unread in told.unread] == [topic]
    assert told.unread[0].reason.startswith("was deleted or unloaded during the window (")


def test_a_real_topic_is_unloaded_during_the_window(broker, admin, client, topic):
    consumer = client.subscribe(topic, "s")

    async def unloading(admin_: Admin) -> Sampled:
        window = asyncio.create_task(sample(admin_, [topic], SamplingPlan(2.0, 0.1)))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(admin.put, f"/admin/v2/{topic_name(topic).path}/unload")
        return await window

    told = of_real(broker, unloading)
    consumer.close()
    (window,) = told.windows
    assert window.window.reset


@pytest.mark.slow
def test_a_real_broker_restarts_during_the_window(tmp_path):
    pulsar = pytest.importorskip("pulsar")
    from pulsar_doctor.parts.sandbox.lifetime import running

    name, folder = "public/default/restarted", tmp_path / "data"
    came_back = Watch(decisive=lambda windows: windows[0].window.reset)
    with ExitStack() as first, ThreadPoolExecutor() as pool:
        broker = first.enter_context(running(reuse=False, data=folder))
        client = pulsar.Client(broker.service_url)
        client.subscribe(name, "s").close()
        client.create_producer(name).send(b"one")
        client.close()
        window = pool.submit(
            of_real, broker, lambda a: sample(a, [name], SamplingPlan(300, 0.5), came_back)
        )
        time.sleep(3)
        first.close()
        with running(reuse=False, data=folder) as again:
            told = window.result(timeout=300)
        assert again.admin_url == broker.admin_url
    (sampled,) = told.windows
    assert sampled.window.reset
    assert len(sampled.window.samples) >= 4
    assert told.unread == ()
    assert "readings failed during the window" in told.notes[0]
