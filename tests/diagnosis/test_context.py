"""What a view tells beside a finding: where, since when, and who suffers; and every consumer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.samples import read
from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.backlog import Backlog
from pulsar_doctor.checkup.judge import Judge
from pulsar_doctor.diagnosis.answers import HEALTHY, Finding
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.context import consumers_of, with_context
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.weighing import diagnose
from pulsar_doctor.evidence import by_stats
from pulsar_doctor.evidence.ack_wait import Acks
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.deadlines import Deadline
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView, UnackedLimit
from pulsar_doctor.evidence.values import Count, at_least, exactly
from pulsar_doctor.evidence.whereabouts import Whereabouts
from pulsar_doctor.wording.sentences import say
from tests.causes.stats_script import observed
from tests.incidents.asking import HYPOTHESES, LIMITS, RULES

STATES = Path(__file__).parent.parent / "states" / "4.0.8"

NOW_MS = 1_777_636_800_000  # 2026-05-01T12:00:00Z
TWO_HOURS = Age(7_200_000, True)
SAID = "worker-3 has 0 permits, holds 10 unacknowledged messages and has been quiet for 12 min"
WORKER = ConsumerView(
    label="worker-3",
    name="worker-3",
    address="/10.0.3.7:51494",
    client_version="Pulsar-Java-v4.0.8",
    connected_since="2026-05-01T10:00:00Z",
    connected_for=TWO_HOURS,
    unacked_messages=exactly(10),
    max_unacked_messages_per_consumer=50_000,
)
FREE = {"available_permits": exactly(5), "unacked_messages": exactly(0)}
IDLE = ConsumerView(label="idle-1", since_last_delivery=Age(12_000, True), **FREE)


def view(*consumers: ConsumerView, **told: Any) -> SubscriptionView:
    known = {"type": "Shared", "backlog": Backlog(counter=615), "moment_ms": NOW_MS}
    return SubscriptionView(
        topic="t", partition=None, subscription="s", sources=frozenset({STATS}),
        consumers=consumers, **known | told,
    )  # fmt: skip


def finding(summary: str = SAID, *evidence: Measure, **told: Any) -> Finding:
    said = evidence or (Measure("quiet_for", 720.0, "seconds"),)
    known = {"code": "permits-exhausted", "severity": "stalled", "confidence": 0.9,
             "consumer": "worker-3", "remedy": "…"}  # fmt: skip
    return Finding(summary=summary, evidence=said, **known | told)


def impact(of: SubscriptionView, found: Finding | None = None, *limits: Deadline) -> str | None:
    return with_context(of, found or finding(), limits).impact


@pytest.mark.parametrize(("days", "first"), [(7, "messages expire"), (8, "3 entries are not")])
def test_a_limit_that_is_more_than_a_week_away_is_told_last(days: int, first: str) -> None:
    limit = Deadline("message-ttl", days * 86_400, "messages expire unread")
    says = impact(view(WORKER, backlog=Backlog(counter=3)), None, limit)
    assert says
    assert says.startswith(first)
    assert f"messages expire unread in about {days} d" in says


def test_a_limit_that_is_years_away_is_left_out() -> None:
    limit = Deadline("message-ttl", 1570 * 86_400.0, "messages expire unread")
    assert (
        impact(view(WORKER, backlog=Backlog(counter=3)), None, limit)
        == "3 entries are not acknowledged"
    )


def test_where_is_that_of_the_consumer_that_is_named() -> None:
    told = with_context(view(IDLE, WORKER), finding())
    assert told.where == Whereabouts(
        "/10.0.3.7:51494", "Pulsar-Java-v4.0.8", "2026-05-01T10:00:00Z", TWO_HOURS
    )


def test_of_two_with_one_name_it_is_the_one_whose_address_the_rule_tells() -> None:
    newer = replace(WORKER, address="/10.0.3.7:60000")
    both = view(WORKER, newer)
    said = Measure("address", "/10.0.3.7:60000", "")
    assert with_context(both, finding()).where is None
    where = with_context(both, finding(SAID, said)).where
    assert where is not None
    assert where.address == "/10.0.3.7:60000"


@pytest.mark.parametrize("found", [finding(consumer=None), finding(consumer="has-left")])
def test_where_nobody_that_is_there_is_named_there_is_no_place(found: Finding) -> None:
    assert with_context(view(WORKER), found).where is None


def test_a_source_that_tells_no_place_gives_none() -> None:
    assert with_context(view(ConsumerView(label="worker-3")), finding()).where is None


def test_since_is_the_moment_less_the_age_of_the_trouble() -> None:
    told = with_context(view(WORKER), finding())
    assert told.since == "2026-05-01T11:48:00.000Z"
    gap = finding(SAID, Measure("mark_delete_stood", 60, "seconds"), consumer=None)
    assert with_context(view(WORKER), gap).since == "2026-05-01T11:59:00.000Z"


@pytest.mark.parametrize(
    "of",
    [
        view(WORKER, moment_ms=None),
        view(WORKER, moment_ms=10**18),
        view(replace(WORKER, works=True)),
    ],
)
def test_since_is_not_told_without_a_moment_or_of_a_silence_in_its_rhythm(
    of: SubscriptionView,
) -> None:
    assert with_context(of, finding()).since is None


def test_since_is_not_told_where_no_number_of_the_finding_is_an_age() -> None:
    assert with_context(view(WORKER), finding(SAID, Measure("backlog", 3, "entries"))).since is None


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({}, "615 entries are not acknowledged"),
        ({"left": exactly(605)}, "605 of the 615 entries in the backlog wait to be sent"),
        ({"left": exactly(615)}, "615 entries in the backlog wait to be sent"),
        ({"left": Count(400, 615)},
         "at least 400 of the 615 entries in the backlog wait to be sent"),
        ({"left": at_least(1), "backlog": None}, "at least 1 entry waits to be sent"),
        ({"left": exactly(1), "backlog": None}, "1 entry waits to be sent"),
        ({"replay": exactly(13)}, "615 entries are not acknowledged; 13 wait to be sent again"),
        ({"replay": exactly(13), "type": "Key_Shared"},
         "615 entries are not acknowledged; 13 wait for the consumer of their key"),
        ({"left": Count(0, 615)}, "615 entries are not acknowledged"),
        ({"backlog": None}, None),
        ({"backlog": Backlog(counter=0)}, None),
    ],
)  # fmt: skip
def test_what_waits_is_told_with_its_bounds(told: dict[str, Any], says: str | None) -> None:
    assert impact(view(WORKER, **told)) == says


def test_no_number_that_the_summary_has_said_is_said_again() -> None:
    said = finding(say("{} stands still, with a backlog of {:entries}", "worker-3", 615))
    assert impact(view(WORKER), said) is None
    assert impact(view(WORKER, left=exactly(605)), said) == "605 entries wait to be sent"


def test_a_digit_in_a_name_is_no_number_that_was_said() -> None:
    assert impact(view(WORKER, backlog=Backlog(counter=3))) == "3 entries are not acknowledged"


def test_those_that_are_idle_are_named_with_the_time_that_holds_of_all() -> None:
    other = replace(IDLE, label="idle-2", since_last_delivery=Age(5000, False))
    says = impact(view(WORKER, IDLE, other))
    assert says is not None
    assert says.endswith("; idle-1 and idle-2 have had nothing to do for at least 5 s")


def test_a_second_without_work_is_long_enough_to_be_named() -> None:
    rests = replace(IDLE, since_last_delivery=Age(1000, True))
    assert (impact(view(WORKER, rests)) or "").endswith("; idle-1 has had nothing to do for 1 s")


@pytest.mark.parametrize(
    "of",
    [
        view(WORKER, replace(IDLE, active=False)),
        view(WORKER, replace(IDLE, since_last_delivery=Age(999, True))),
        view(WORKER, IDLE, durable=False),
        view(replace(WORKER, unacked_messages=None), IDLE, backlog=None),
        view(replace(WORKER, since_last_delivery=Age(9000, True), **FREE)),
    ],
    ids=("a standby", "a moment", "nothing needs to move", "nothing is known to wait", "itself"),
)
def test_nobody_is_called_idle_who_need_not_work(of: SubscriptionView) -> None:
    assert "nothing to do" not in (impact(of) or "")


def test_who_is_named_as_idle_by_the_summary_is_not_named_again() -> None:
    said = finding(say("{} holds all, while {} has had nothing to do", "worker-3", "idle-1"))
    assert impact(view(WORKER, IDLE), said) == "615 entries are not acknowledged"


HALF = "it has used 50% of its limit of 50000 unacknowledged messages"


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"unacked_messages": exactly(25_000)}, HALF),
        ({"unacked_messages": at_least(5_000)},
         "it has used at least 10% of its limit of 50000 unacknowledged messages"),
        ({"unacked_messages": exactly(25_000), "delivered": 100, "done": 50},
         f"{HALF}, full in about 83 min at this rate"),
        ({"unacked_messages": exactly(25_000), "delivered": 100, "acked": False},
         f"{HALF}, full in about 42 min at this rate"),
        ({"unacked_messages": exactly(25_000), "delivered": 50, "done": 50},
         HALF),
        ({"unacked_messages": exactly(50_000)}, None),  # all of it: other causes speak of that
        ({"unacked_messages": exactly(4000)}, None),
        ({"unacked_messages": exactly(4000), "delivered": 100, "acked": False},
         "it has used 8% of its limit of 50000 unacknowledged messages, full in about 77 min at "
         "this rate"),
        ({"unacked_messages": exactly(400), "delivered": 100, "acked": False}, None),
        ({"unacked_messages": exactly(25_000), "max_unacked_messages_per_consumer": None,
          "never_acked": True},
         "it has used 50% of the 50000 unacknowledged messages that brokers allow a consumer by "
         "default"),
        ({"unacked_messages": exactly(25_000), "never_acked": True, "msg_rate_out": 50.0},
         f"{HALF}, full in about 8.33 min at this rate"),
        ({"unacked_messages": exactly(25_000), "blocked_consumer_on_unacked_msgs": True}, None),
        ({"unacked_messages": exactly(25_000), "max_unacked_messages_per_consumer": 0}, None),
        ({"unacked_messages": exactly(25_000), "max_unacked_messages_per_consumer": None}, None),
        ({"drain_seconds": 400}, "at its present pace it needs at least 6.67 min for what it "
            "holds"),
    ],
)  # fmt: skip
def test_what_is_used_up_is_told_and_when(told: dict[str, Any], says: str | None) -> None:
    there = view(replace(WORKER, **told), backlog=None, watched_seconds=10.0)
    assert impact(there) == says


def test_a_limit_that_the_summary_names_is_not_named_again() -> None:
    there = view(replace(WORKER, unacked_messages=exactly(25_000)), backlog=None)
    named = finding(say("{} holds {} of its limit of {}", "worker-3", 25_000, 50_000))
    assert impact(there, named) is None


ALL = "all consumers have used 25% of the subscription's limit of 200000"


@pytest.mark.parametrize(
    ("unacked", "blocked", "says"),
    [
        (50_000, False, f"{ALL}, full in about 28 h at this rate"),
        (50_000, True, None),
        (1_000, False, None),
    ],
)
def test_what_all_of_them_use_of_the_limit_of_the_subscription_is_told(
    unacked: int, blocked: bool, says: str | None
) -> None:
    limit = UnackedLimit(
        blocked, 200_000, Acks(5, True, 10_000, None), 20, flows=True, watched=True
    )
    there = view(backlog=None, watched_seconds=10.0, delivered=20)
    there = replace(there, unacked=exactly(unacked), unacked_limit=limit)
    assert impact(there) == says


def test_one_alone_comes_to_its_own_limit_first() -> None:
    acks = Acks(0, False, 10_000, None)
    limit = UnackedLimit(False, 200_000, acks, 20, flows=True, watched=True)
    one = replace(WORKER, unacked_messages=exactly(25_000), delivered=20, acked=False)
    alone = view(one, backlog=None, watched_seconds=10.0, delivered=20)
    alone = replace(alone, unacked=exactly(25_000), unacked_limit=limit)
    assert impact(alone) == f"{HALF}, full in about 3.47 h at this rate"
    others = replace(alone, consumers=(one, IDLE))
    assert "the subscription's limit of 200000" in (impact(others) or "")


def test_a_limit_that_the_broker_does_not_enforce_is_not_told() -> None:
    held = replace(WORKER, unacked_messages=exactly(25_000))
    assert impact(view(held, backlog=None, type="Failover")) is None


def test_of_what_is_only_worth_knowing_nobody_suffers() -> None:
    assert impact(view(WORKER), finding(severity="info")) is None


def test_every_consumer_is_told_with_the_numbers_of_the_view() -> None:
    told = consumers_of(view(IDLE, WORKER))
    assert told is not None
    assert [each.label for each in told] == ["idle-1", "worker-3"]
    numbers = (told[1].unacked_messages, told[1].connected_for, told[0].idle_for)
    assert numbers == (exactly(10), TWO_HOURS, IDLE.idle_for)
    assert consumers_of(replace(view(), consumers=None)) is None


def test_of_a_real_state_of_stuck_keys_it_is_told_who_waits_and_who_goes_on() -> None:
    [window] = read(
        SampleFiles([str(STATES / "permits-exhausted-key-shared-one-stuck.jsonl.gz")])
    ).windows
    limits = limits_of(load(), ["permits-exhausted.refill_wait=5s"])
    [verdict] = Judge(load(), limits).verdicts(window)
    first = verdict.findings[0]
    assert first.summary.startswith("stuck has acknowledged none of its 10 messages for ")
    assert "entries of its keys wait, while works goes on; the broker may not" in first.summary
    assert first.where is not None
    assert first.where.address is not None
    assert first.where.address.lstrip("/") in first.remedy
    assert first.remedy.startswith("Dump the threads of the process")


def test_of_a_real_state_who_works_has_its_last_ack_its_pace_and_the_backlog_its_trend() -> None:
    [window] = read(SampleFiles([str(STATES / "healthy-failover-working.jsonl.gz")])).windows
    [verdict] = Judge(load(), limits_of(load())).verdicts(window)
    assert verdict.consumers is not None
    active, standby = verdict.consumers
    assert active.since_last_ack == Age(1, True)
    assert active.msg_rate_out is not None
    assert active.msg_rate_out > 1
    assert (standby.since_last_ack, standby.never_acked, standby.msg_rate_out) == (None, True, 0)
    assert verdict.growth == -432  # 72 entries within 10 s


def test_a_suspect_comes_with_what_to_do_if_it_is_that() -> None:
    stuck = {"availablePermits": 0, "unackedMessages": 900, "clientVersion": "Pulsar-Java-v4.0.8"}
    told = {"msgBacklog": 5000, "lastConsumedTimestamp": None, "lastAckedTimestamp": None}
    moments = {"lastAckedTimestamp": None, "lastConsumedTimestamp": None, "msgOutCounter": None}
    case = {"samples": ["0s"], "clock": "not told", "subscription": told}
    view = by_stats.subscription_view(observed({**case, "consumers": {"w": stuck | moments}}))
    said = diagnose(view, RULES, LIMITS)
    advice = {each.code: each.remedy for each in said.suspects}
    assert said.status == "unknown"
    assert "Dump the threads of the process" in (advice["permits-exhausted"] or "")
    assert ".receiverQueueSize(1)" in (advice["permits-exhausted"] or "")
    assert advice["none-of-these"] is None


def test_each_cause_has_a_remedy_of_its_own_or_that_of_its_consumer() -> None:
    general = {rule.code for rule in RULES if rule.remedy is not None}
    of_one = {each.code for each in HYPOTHESES if each.not_by}
    assert {each.code for each in HYPOTHESES} - {HEALTHY} <= general | of_one
    assert not any("{" in (rule.remedy or "") for rule in RULES)


def test_of_two_of_one_name_the_one_that_is_suspected_is_to_be_restarted() -> None:
    silent = {"availablePermits": 996, "unackedMessages": 4, "lastAckedTimestamp": None}
    idle = {
        "name": "pod",
        "availablePermits": 1000,
        "address": "/10.0.0.1:1",
        "connectedSince": "2m ago",
    }
    stuck = {
        **idle,
        **silent,
        "address": "/10.0.0.2:2",
        "msgOutCounter": 4,
        "lastConsumedTimestamp": "90s ago",
    }
    case = {"subscription": {"msgBacklog": 4}, "consumers": {"idle": idle, "stuck": stuck}}
    said = diagnose(by_stats.subscription_view(observed(case)), RULES, LIMITS)
    (suspect,) = [each for each in said.suspects if each.code == "not-acknowledging"]
    assert suspect.where is not None
    assert suspect.where.address == "/10.0.0.2:2"
    assert "10.0.0.2:2" in (suspect.remedy or "")
