"""What the consumers of a process tell, as rules see it, and joined with what a broker tells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsar_doctor.checkup.in_process import InProcess
from pulsar_doctor.checkup.judge import Judge
from pulsar_doctor.diagnosis.actions.processes import threads_seen
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.evidence.by_process import full_topic, looked_into, seated, subscription_views
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.inside import Inside
from pulsar_doctor.evidence.process_report import (
    ClientConsumer,
    Inspection,
    Pool,
    ProcessReport,
    Sitting,
    TcpConnection,
)
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import Count, at_least, at_most, exactly
from tests.causes.wire_script import played

ORDERS = "persistent://public/default/orders"
ONE = ClientConsumer(
    id=1, kind="single", topic=ORDERS, subscription="s", subscription_type="Shared", name="w",
    unsent_permits=3, queue_size=10, waiting=7, listener_waiting=0, listener=False, paused=False,
    state="Ready", local_address=("10.0.0.7", 5000), receives_pending=0,
)  # fmt: skip
SLEEPS = Sitting(
    "main", "application", "RUNNABLE", "a.B.c (B.java:1)", "a.B.c (B.java:1)", (), 1, 9.0
)


def looked(*looks: list[ClientConsumer], **more: object) -> ProcessReport:
    seen = tuple(
        Inspection(1000 * at, tuple(each), "Java 17", 9, 9) for at, each in enumerate(looks)
    )
    told = ProcessReport(
        pid=1, name="java", kind="jvm", inspections=seen, seconds=5.0, has_threads=True
    )
    return replace(told, **more)


def inside(told: ProcessReport) -> Inside:
    ((consumer,),) = [view.consumers for view in subscription_views(told)]
    assert consumer.inside is not None
    return consumer.inside


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("orders", (ORDERS, None)),
        ("acme/eu/orders", ("persistent://acme/eu/orders", None)),
        ("non-persistent://acme/eu/o", ("non-persistent://acme/eu/o", None)),
        (f"{ORDERS}-partition-2", (ORDERS, 2)),
        (f"{ORDERS}-partition-x", (f"{ORDERS}-partition-x", None)),
    ],
)
def test_a_topic_has_its_full_name_however_the_client_writes_it(name, full):
    assert full_topic(name) == full


def test_how_far_it_is_to_the_next_flow_is_exact():
    (view,) = subscription_views(looked([ONE]))
    (consumer,) = view.consumers or ()
    assert (view.topic, view.subscription, view.type) == (ORDERS, "s", "Shared")
    assert (consumer.next_flow_after, consumer.receiver_queue_size) == (Count(2, 2), Count(10, 10))
    assert (consumer.refill_threshold, consumer.address) == (5, "/10.0.0.7:5000")


@pytest.mark.parametrize(
    ("then", "now", "taken"),
    [
        ({}, {}, 0),
        ({}, {"waiting": 9}, 0),  # more has come
        ({}, {"waiting": 6}, 1),
        ({}, {"unsent_permits": 4, "waiting": 7}, 1),
        ({"unsent_permits": 4}, {"unsent_permits": 0}, 1),  # and a FLOW
        ({"listener_waiting": 9}, {"listener_waiting": 8}, 1),
        ({"listener_waiting": 8}, {"listener_waiting": 9}, 0),
    ],
)
def test_whether_anything_was_taken_follows_from_two_looks(then, now, taken):
    told = looked([replace(ONE, **then)], [replace(ONE, **now)])
    assert inside(told).taken == taken
    assert inside(looked([ONE])).taken is None


@pytest.mark.parametrize(("pending", "waits"), [(0, False), (None, False), (1, True)])
def test_a_call_of_receive_that_waits_is_seen(pending, waits):
    assert inside(looked([replace(ONE, receives_pending=pending)])).asked is waits


def test_a_child_has_its_parents_pause_listener_and_queue():
    child = replace(ONE, id=2, waiting=3, name="w")
    parent = ClientConsumer(
        id=1, kind="multi", children=(2,), paused=True, listener=True, waiting=4,
        listener_waiting=5, listener_threads=(7,),
    )  # fmt: skip
    ear = replace(SLEEPS, thread="ear", role="listens", id=7)
    told = inside(looked([child, parent], threads=(SLEEPS, ear)))
    assert (told.paused, told.listener, told.waiting, told.handed) == (True, True, 7, 5)
    assert [each.thread for each in told.sits] == ["ear"]


def test_a_listener_of_another_consumer_is_not_taken_for_its_own():
    ear = replace(SLEEPS, thread="ear", role="listens", id=7)
    other = replace(ONE, id=2, listener=True, listener_threads=(7,), topic="other")
    mine = replace(ONE, listener=True, listener_threads=(8,))
    views = subscription_views(looked([mine, other], threads=(ear,)))
    sits = {view.topic: (view.consumers or ())[0].inside.sits for view in views}  # type: ignore
    assert not sits[ORDERS]
    assert [each.thread for each in sits["persistent://public/default/other"]] == ["ear"]


def test_nothing_is_stuck_for_longer_than_every_thread_that_could_have_taken_it():
    told = looked([ONE], [ONE], threads=(SLEEPS, replace(SLEEPS, thread="timer", seconds=None)))
    assert inside(told).stood == 5.0
    assert inside(replace(told, threads=(SLEEPS,))).stood == 9.0


def test_where_all_messages_were_taken_the_threads_of_the_application_have_them():
    ear = replace(SLEEPS, thread="ear", role="listens", id=7)
    idle = replace(ONE, listener=True, listener_threads=(7,), waiting=0, listener_waiting=0)
    told = inside(looked([idle], [idle], threads=(SLEEPS, ear)))
    assert ([each.thread for each in told.sits], told.stood) == (["main"], 0.0)
    assert threads_seen(ConsumerView(label="w", inside=told)) == (
        "main has been in a.B.c (B.java:1) for 9 s"
    )


def test_two_consumers_with_one_listener_thread_are_told_of_each_other():
    ear = replace(SLEEPS, thread="ear", role="listens", id=7)
    first = replace(ONE, listener=True, listener_threads=(7,))
    second = replace(first, id=2, name="v", topic="mails")
    alone = replace(first, id=3, name="u", topic="calls", listener_threads=(8,))
    views = subscription_views(looked([first, second, alone], threads=(ear,)))
    shares = [(view.consumers or ())[0].inside.shares for view in views]  # type: ignore
    assert shares == [("v on mails",), ("w on public/default/orders",), ()]


EAR = Sitting("ear", "listens", "idle", "f (a.py:1)", "f (a.py:1)", id=7, seconds=200.0)
WAITS = ConsumerView(
    label="w", name="w", address="/10.0.0.7:5000", queued=at_least(3), unacked_messages=exactly(9)
)
OF_PYTHON = ProcessReport(pid=1, name="python", kind="python", threads=(EAR,), has_threads=True)
BESIDE = {"/10.0.0.7:5000": ["w on public/default/orders", "v on public/default/mails"]}


def of_python(told: ProcessReport, there: ConsumerView = WAITS) -> Inside:
    (found,) = seated(broker(there), told, BESIDE).consumers or ()
    assert found.inside is not None
    return found.inside


def test_consumers_of_one_python_client_wait_for_its_only_listener_thread():
    assert of_python(OF_PYTHON).shares == ("v on public/default/mails",)
    two = replace(OF_PYTHON, threads=(EAR, replace(EAR, id=8)))
    assert of_python(two).shares == ()
    assert of_python(OF_PYTHON, replace(WAITS, queued=at_least(0))).shares == ()


@pytest.mark.parametrize(("held", "may_wait"), [(2, False), (3, True)])
def test_a_pool_of_python_may_have_messages_if_more_are_held_than_it_has_threads(held, may_wait):
    workers = (replace(EAR, role="application", id=1), replace(EAR, role="application", id=2))
    told = replace(OF_PYTHON, threads=workers, pools=(Pool((1, 2)),))
    found = of_python(told, replace(WAITS, unacked_messages=exactly(held)))
    assert found.blocked_pool == (Pool((1, 2)) if may_wait else None)
    ran = replace(told, threads=(workers[0], replace(workers[1], seconds=None)))
    assert of_python(ran).blocked_pool is None


def broker(*consumers: ConsumerView) -> SubscriptionView:
    return SubscriptionView(
        topic=ORDERS, partition=None, subscription="s", type="Shared",
        sources=frozenset({"the broker's stats"}), consumers=consumers,
    )  # fmt: skip


def test_both_ledgers_stand_in_one_view():
    (view,) = subscription_views(looked([ONE]))
    there = ConsumerView(
        label="w",
        name="w",
        address="/10.0.0.7:5000",
        available_permits=exactly(0),
        next_flow_after=at_most(5),
    )
    (joined,) = looked_into(broker(there), view).consumers or ()
    assert (joined.available_permits, joined.next_flow_after, joined.sending_after) == (
        Count(0, 0), Count(2, 2), Count(2, 2),
    )  # fmt: skip
    assert joined.queued == at_least(ONE.waiting)


@pytest.mark.parametrize(("permits", "until"), [(0, 2), (-4, 2), (-5, 7), (-9, 7), (-10, 12)])
def test_below_zero_it_takes_several_flows_until_the_broker_may_send(permits, until):
    (view,) = subscription_views(looked([ONE]))
    there = ConsumerView(
        label="w", name="w", address="/10.0.0.7:5000", available_permits=exactly(permits)
    )
    (joined,) = looked_into(broker(there), view).consumers or ()
    assert joined.sending_after == Count(until, until)


def test_of_two_of_one_name_the_address_decides():
    (view,) = subscription_views(looked([ONE]))
    mine = ConsumerView(label="w", name="w", address="/10.0.0.7:5000")
    other = ConsumerView(label="w (2)", name="w", address="/10.0.0.8:5000")
    joined = looked_into(broker(mine, other), view).consumers or ()
    assert [each.inside is not None for each in joined] == [True, False]
    behind_nat = replace(mine, address="/192.0.2.1:9")
    (alone,) = looked_into(broker(behind_nat), view).consumers or ()
    assert alone.inside is not None


def test_the_round_trip_of_a_connection_is_that_of_its_consumers():
    far = TcpConnection(("10.0.0.7", 5000), ("10.0.0.1", 6650), 0, 0, round_trip_us=21_000)
    told = looked([ONE], connections=(far,))
    mine = ConsumerView(label="w", name="w", address="/10.0.0.7:5000")
    traced = replace(mine, label="t", address="/10.0.0.7:5000", round_trip_seconds=0.5)
    other = ConsumerView(label="x", name="x", address="/10.0.0.8:5000")
    process = InProcess(told, lambda: told)
    joined = process.joined(broker(mine, traced, other)).consumers or ()
    assert [each.round_trip_seconds for each in joined] == [0.021, 0.5, None]


def test_what_no_broker_tells_of_is_judged_by_the_process_and_its_packets():
    """The consumer of ORDERS is told by itself, the scripted one by packets alone."""
    wires = played(("0s subscribe a Shared", "0s flow a 10"), "1s").subscriptions()
    told = looked([ONE], unknowns=("the hint",))
    process = InProcess(told, lambda: told, lambda: wires, ["the packets"])
    rules = load()
    first, second = process.alone(Judge(rules, limits_of(rules)).diagnosed)
    assert (first.topic, first.sources) == (ORDERS, ("process",))
    assert (second.topic, second.sources) == (wires[0].topic, ("capture",))
    assert process.report.unknowns == ("the hint", "the packets")


def test_both_of_one_subscription_are_one_verdict():
    wires = played(("0s subscribe a Shared", "0s flow a 10"), "1s").subscriptions()
    topic = wires[0].topic
    inner = replace(ONE, topic=topic, subscription=wires[0].subscription, name="a")
    told = looked([inner])
    rules = load()
    process = InProcess(told, lambda: told, lambda: wires)
    (only,) = process.alone(Judge(rules, limits_of(rules)).diagnosed)
    assert only.sources == ("capture", "process")
    assert [each.next_flow_after for each in only.consumers or ()] == [exactly(2)]


def test_a_pool_that_holds_messages_of_its_topic_is_told_with_its_threads():
    mine = Pool((1,), 3000, 200, 200, "a.B", topic=ORDERS)
    other = replace(mine, topic="persistent://public/default/other")
    told = inside(looked([ONE], [ONE], threads=(SLEEPS,), pools=(other, mine)))
    assert (told.pools, told.pool_places, told.moment_ms) == ((mine,), (SLEEPS,), 1000)
    consumer = ConsumerView(label="w", inside=told)
    said = threads_seen(consumer)
    assert said is not None
    assert said.startswith("its messages wait in a pool of 1 thread, 3,000 tasks wait, each of the")
    assert said.endswith("; main has been in a.B.c (B.java:1) for 9 s")


POOL = Pool((2,), 3000, 200, 200, "a.B", topic=ORDERS)
WORKER = replace(SLEEPS, thread="pool-1", id=2)


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (
            Inside(sits=(WORKER, SLEEPS), pools=(POOL,), pool_places=(WORKER,)),
            "; its thread main has been in a.B.c (B.java:1) for 9 s; its messages wait in a pool "
            "of "
            "1 thread, 3,000 tasks wait, each of the first 200 with a message of its clients; "
            "pool-1 has been in a.B.c (B.java:1) for 9 s",
        ),
        (
            Inside(virtual_threads=3),
            "; its process has 3 virtual threads, which thread dumps do not show",
        ),
        (Inside(), "; no thread of its application is left to do it"),
    ],
)
def test_who_does_not_receive_is_named_apart_from_the_pool_that_has_its_messages(told, says):
    own = replace(told, listener=False, asked=False, waiting=7, taken=0, seconds=20.0)
    seen = replace(
        broker(ConsumerView(label="w", inside=own)),
        consumers=(ConsumerView(label="w", inside=own),),
    )
    (rule,) = [each for each in load() if each.code == "nobody-receives"]
    (found,) = rule.check(seen, limits_of([rule])["nobody-receives"])
    assert found.summary.endswith(says)
