"""Each of the further troubles shows the cause that it is made for."""

from __future__ import annotations

from functools import cache
from itertools import islice

import pytest

from tests.incidents.causes import causes, roots
from tests.incidents.documents import Document
from tests.incidents.moments import Incident, Moment, played
from tests.incidents.more import MORE, made_more

SHOWS = {
    "read stuck": "broker-read-stuck",
    "throttled": "dispatch-throttled",
    "miscounts": "backlog-counter-wrong",
    "delayed": "delayed-messages",
    "active gone": "inactive-failover",
    "active hangs": "inactive-failover",
    "everybody left": "no-consumer",
    "nobody ever came": "no-consumer",
    "dead": "exclusive-zombie",
    "leaks": "permit-leak",
    "nacks all": "redelivery-storm",
    "restarts": "redelivery-storm",
    "skips": "ack-hole",
    "works": "healthy",
}


@cache
def some_of(trouble: str) -> tuple[Incident, ...]:
    """The first few incidents of this trouble."""
    made = (made_more(seed) for seed in range(300))
    return tuple(map(played, islice((s for s in made if s.trouble == trouble), 5)))


def moments_with(trouble: str, code: str) -> list[Moment]:
    return [
        moment
        for incident in some_of(trouble)
        for moment in incident.moments
        if code in {cause for cause, _ in causes(moment)}
    ]


def subscription(moment: Moment) -> Document:
    [told] = moment.taken[-1].stats["subscriptions"].values()
    assert isinstance(told, dict)
    return told


def cursor(moment: Moment) -> Document:
    [told] = moment.taken[-1].internal["cursors"].values()
    assert isinstance(told, dict)
    return told


def test_each_trouble_is_named() -> None:
    assert set(SHOWS) == set(MORE)


@pytest.mark.parametrize("trouble", SHOWS)
def test_each_trouble_shows_its_cause(trouble: str) -> None:
    assert moments_with(trouble, SHOWS[trouble])


def test_a_stuck_broker_sends_nothing_to_who_has_permits() -> None:
    for moment in moments_with("read stuck", "broker-read-stuck"):
        waits = moment.truth.waiting + moment.truth.delayed
        assert waits > 0
        assert max(each["availablePermits"] for each in subscription(moment)["consumers"]) > 0
        told = cursor(moment)
        asleep = told["waitingReadOp"]
        assert told["pendingReadOps"] == 0
        assert told["subscriptionHavePendingRead"] or not asleep


def test_the_counter_of_the_backlog_is_off_by_what_was_set() -> None:
    for moment in moments_with("miscounts", "backlog-counter-wrong"):
        told, script = subscription(moment), moment.incident.script
        _, off = script.fault.drift
        held = sum(len(each.holds) for each in moment.truth.consumers.values())
        assert told["msgBacklog"] == moment.truth.waiting + held + off


def test_who_lost_permits_never_asks_again() -> None:
    for moment in moments_with("leaks", "permit-leak"):
        for each in moment.truth.consumers.values():
            if ("permit-leak", each.app.worker.name) in causes(moment):
                assert each.permits <= 0 < each.lost
                assert each.flow_in is None


def test_a_dead_consumer_does_nothing_and_is_the_root() -> None:
    found = moments_with("dead", "exclusive-zombie")
    for moment in found:
        dead = [c for c in moment.truth.consumers.values() if c.app.dead(moment.at_ns)]
        assert all(each.flow_in is None and each.ack_in is None for each in dead)
    assert any("exclusive-zombie" in {code for code, _ in roots(moment)} for moment in found)


def test_a_rate_limit_is_kept() -> None:
    for incident in some_of("throttled"):
        rate = incident.script.fault.rate
        batch = max(entry.messages for entry in incident.script.entries)
        for moment in incident.moments:
            sent = subscription(moment)["msgOutCounter"]
            assert sent <= rate * (moment.at_ns / 1e9 + 1) + batch


def test_what_is_not_due_is_counted_and_not_sent() -> None:
    for moment in moments_with("delayed", "delayed-messages"):
        told, due = subscription(moment), moment.incident.script.fault.due
        assert told["msgDelayed"] <= moment.truth.delayed
        assert told["msgBacklog"] - told["msgBacklogNoDelayed"] == told["msgDelayed"]
        held = {h.entry.number for c in moment.truth.consumers.values() for h in c.holds}
        assert not [n for n in held if due.get(n, 0) > moment.at_ns]


def test_nobody_replaces_an_active_consumer_that_is_gone() -> None:
    for moment in moments_with("active gone", "inactive-failover"):
        told = subscription(moment)
        assert told["activeConsumerName"] not in [c["consumerName"] for c in told["consumers"]]
