"""Verdicts while a trace grows: in turns, and told when they change."""

from __future__ import annotations

from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.parts.tap.verdicts import Verdicts
from tests.causes.wire_script import Script, played

RULES = load()


def verdicts(*changes: str) -> Verdicts:
    """Whatever the odds: these tests are about what changes, and when it is told."""
    return Verdicts(RULES, limits_of(RULES, ("healthy.problem_at_most=100%", *changes)))


def changes(of: Verdicts, timeline: Timeline, *, turns: bool = False) -> list[tuple]:
    told = []
    while True:
        told += of.judge(timeline, lambda: turns)
        if of.is_between_rounds:
            return [(change.before, change.diagnosis.status) for change in told]


def going_on(*lines: str) -> tuple[Timeline, Script]:
    timeline = Timeline("test")
    script = Script(timeline)
    script.play(lines, "2s")
    return timeline, script


STALL = ("0s subscribe c Shared", "0s flow c 4", "1s message c 4 singles", "2s ack c 1")


def test_a_change_is_told_once_there_and_once_back():
    timeline, script = going_on(*STALL)
    watched = verdicts("permits-exhausted.refill_wait=20s")
    assert changes(watched, timeline) == [(None, "healthy")]
    assert changes(watched, timeline) == []
    script.play((), "10s")
    assert changes(watched, timeline) == []
    script.play((), "14s")
    assert changes(watched, timeline) == [("healthy", "unknown")]
    script.play((), "30s")
    assert changes(watched, timeline) == [("unknown", "stalled")]
    script.play((), "90s")
    assert changes(watched, timeline) == []
    script.play(("91s ack c 3", "91s flow c 4"), "92s")
    assert changes(watched, timeline) == [("stalled", "healthy")]
    (consumer,) = timeline.living
    assert watched.of(consumer).status == "healthy"


def test_a_threshold_that_was_set_is_used():
    timeline, script = going_on(*STALL)
    script.play((), "30s")
    assert changes(verdicts(), timeline) == []  # it may be work
    assert changes(verdicts("permits-exhausted.refill_wait=20s"), timeline) == [(None, "stalled")]


def test_a_doubt_that_does_not_last_is_not_told():
    timeline, script = going_on(*STALL)
    watched = verdicts()
    changes(watched, timeline)
    script.play(("3s gap",), "3s")
    assert changes(watched, timeline) == []
    script.play((), "5.9s")
    assert changes(watched, timeline) == []
    script.play((), "6s")
    assert changes(watched, timeline) == [("healthy", "unknown")]


def test_when_its_last_consumer_has_gone_a_subscription_is_judged_once_more():
    timeline, script = going_on(*STALL)
    watched = verdicts("permits-exhausted.refill_wait=20s")
    changes(watched, timeline)
    script.play(("60s close c",), "61s")
    asked = []
    assert changes(watched, timeline) == [("healthy", "stalled")]  # as it was before it was closed
    watched._rules = [asked.append]  # whoever were asked now would fail
    assert changes(watched, timeline) == []


def test_a_round_is_made_in_turns_and_each_sees_the_moment_it_is_made_in():
    timeline, script = going_on(*STALL)
    put = script.put

    def elsewhere(command, who=None, **values):
        if command == "SUBSCRIBE":
            values["subscription"] = f"s{script.connections}"
        put(command, who, **values)

    script.put = elsewhere
    for number in range(5):
        script.play((f"2s subscribe d{number} Shared", f"2s flow d{number} 4"), "2s")
    watched = verdicts("permits-exhausted.refill_wait=20s")
    first = watched.judge(timeline, lambda: True)
    assert (len(first), watched.is_between_rounds) == (1, False)
    script.play(("3s message d4 4 singles", "4s close d1"), "60s")
    rest = []
    while not watched.is_between_rounds:
        rest += watched.judge(timeline, lambda: True)
    statuses = {change.diagnosis.subscription: change.diagnosis.status for change in rest}
    assert statuses == {"s2": "healthy", "s4": "healthy", "s5": "healthy", "s6": "stalled"}
    again = changes(watched, timeline, turns=True)
    assert again == [("healthy", "stalled"), (None, "healthy")]  # the first, and s3, closed


def test_what_the_timeline_has_forgotten_is_forgotten():
    timeline, script = going_on(*STALL)
    watched = verdicts()
    changes(watched, timeline)
    script.play(("3s close c",), "3s")
    changes(watched, timeline)
    timeline.ended.clear()
    changes(watched, timeline)
    assert [watched._standing, watched._shown, watched._settled] == [{}, {}, {}]


def test_a_partition_has_its_own_verdict():
    timeline = played(STALL, "2s")
    (consumer,) = timeline.living
    watched = verdicts()
    assert watched.of(consumer) is None
    changes(watched, timeline)
    consumer.topic += "-partition-7"
    assert watched.of(consumer) is None
