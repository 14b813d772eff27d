"""What the broker told beside what the wire shows: of who is there, and of who has gone."""

from __future__ import annotations

import json
from typing import Any

from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.diagnosis.weighing import diagnose
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.parts.tap.broker_reports import BrokerAnswer, BrokerReports
from pulsar_doctor.parts.tap.verdicts import Verdicts
from tests.causes.wire_script import START_US, SUBSCRIPTION, TOPIC, Script

START_MS = START_US // 1000
RULES = load()
LIMITS = limits_of(RULES, ["blocked-on-unacked-consumer.refill_wait=30s"])
# A limit of 20 sets the last FLOWs aside, which the wire does not show.
PARKED = (
    "0s subscribe c Shared", "0s flow c 10", "0s message c 10 singles", "1s flow c 5",
    "1s message c 5 singles", "2s flow c 5", "2s message c 5 singles", "3s flow c 5", "3s flow c 5",
)  # fmt: skip
BLOCKED = {
    "consumerName": "c", "availablePermits": 0, "unackedMessages": 20, "msgOutCounter": 20,
    "blockedConsumerOnUnackedMsgs": True, "lastAckedTimestamp": 0,
    "lastConsumedTimestamp": START_MS + 2000, "lastConsumedFlowTimestamp": START_MS + 3000,
}  # fmt: skip


def answer(seconds: float, *consumers: dict[str, Any]) -> BrokerAnswer:
    stats = {
        "type": "Shared", "msgBacklog": 100, "unackedMessages": 20, "consumers": consumers,
        "msgOutCounter": 20, "blockedSubscriptionOnUnackedMsgs": False,
    }  # fmt: skip
    text = json.dumps({"subscriptions": {SUBSCRIPTION: stats}})
    return BrokerAnswer(TOPIC, START_MS + int(seconds * 1000), text, unacked_limit=20)


def last_verdict(broker: BrokerReports, *ending: str, until: str = "60s") -> Diagnosis:
    timeline = Timeline("test")
    Script(timeline).play((*PARKED, *ending), until)
    (wire,) = timeline.subscriptions()
    return diagnose(broker.beside(wire), RULES, LIMITS)


def told(*answers: BrokerAnswer) -> BrokerReports:
    broker = BrokerReports()
    broker.hear(answers)
    return broker


BEFORE = [answer(seconds, BLOCKED) for seconds in range(50, 60)]


def codes(diagnosis: Diagnosis) -> list[str]:
    return [finding.code for finding in diagnosis.findings]


def test_the_wire_alone_does_not_know_the_limit() -> None:
    for ending in ((), ("60s close c",)):
        assert "blocked-on-unacked-consumer" not in codes(last_verdict(BrokerReports(), *ending))


def test_the_last_verdict_rests_on_both_however_the_consumer_went() -> None:
    for ending in ((), ("60s close c",), ("60s lose c",), ("60s unload c",)):
        last = last_verdict(told(*BEFORE), *ending)
        assert (last.status, codes(last)) == ("stalled", ["blocked-on-unacked-consumer"]), ending


def test_what_the_broker_told_after_they_had_gone_is_of_another_time() -> None:
    other = BLOCKED | {"consumerName": "other", "blockedConsumerOnUnackedMsgs": False}
    for after in ((answer(60),), (answer(60), answer(61, other)), (answer(60, other),)):
        last = last_verdict(told(*BEFORE, *after), "60s close c", until="62s")
        assert (last.status, codes(last)) == ("stalled", ["blocked-on-unacked-consumer"]), after


def test_where_the_broker_never_saw_them_the_wire_is_alone() -> None:
    assert last_verdict(told(answer(60)), "60s close c") == last_verdict(
        BrokerReports(), "60s close c"
    )


def test_what_the_broker_told_long_before_is_not_asked_any_more() -> None:
    early = told(*(answer(seconds, BLOCKED) for seconds in range(3, 13)))
    assert last_verdict(early, "60s close c") == last_verdict(BrokerReports(), "60s close c")


def test_the_observer_ends_with_the_same_verdict() -> None:
    timeline = Timeline("test")
    script = Script(timeline)
    script.play(PARKED, "60s")
    verdicts = Verdicts(RULES, LIMITS)
    verdicts.broker.hear(BEFORE)
    (while_there,) = verdicts.judge(timeline, lambda: False)
    assert codes(while_there.diagnosis) == ["blocked-on-unacked-consumer"]
    verdicts.broker.hear([answer(60)])
    script.play(("60s close c",), "61s")
    assert verdicts.judge(timeline, lambda: False) == []  # it has not changed
