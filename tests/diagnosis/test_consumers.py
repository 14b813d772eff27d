"""One that hangs is looked at and restarted; one that is slow gets less to hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.diagnosis.actions.activity import activity_of
from pulsar_doctor.diagnosis.actions.consumers import (
    dump_threads,
    restart,
    smaller_queue,
    treatment,
)
from pulsar_doctor.diagnosis.actions.sentence import remedy
from pulsar_doctor.diagnosis.answers import Action
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.probes import SHORT_SECONDS, probe_of
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.inside import Inside
from pulsar_doctor.evidence.process_report import Sitting, Wait
from pulsar_doctor.evidence.values import exactly
from pulsar_doctor.ledger.balance import Pace
from tests.diagnosis.test_commands import view

ONE = ConsumerView(
    label="worker-1",
    address="/10.0.3.7:51494",
    client_version="Pulsar-Java-v4.0.8",
    quiet_for=Age(120_000, exact=True),
    works=False,
)
CHARGE, WRITE = "com.acme.Billing.charge (Billing.java:88)", "com.acme.Ledger.write (Ledger.java:9)"
SLEEP = "java.lang.Thread.sleep (Thread.java)"


def texts(actions: tuple[Action, ...]) -> str:
    return "\n".join(action.text for action in actions)


@pytest.mark.parametrize(
    ("consumer", "how"),
    [
        (replace(ONE, works=True), "slow"),
        (replace(ONE, never_acked=True), "hangs"),
        (ONE, "hangs"),
        (replace(ONE, works=None), "unclear"),
        (replace(ONE, works=None, never_acked=True), "hangs"),
        (replace(ONE, quiet_for=Age(20_000, exact=True), never_acked=True), "unclear"),
        (replace(ONE, sent_flow=True), "unclear"),
        (replace(ONE, never_acked=True, pace=Pace(100.0, "as told")), "slow"),
        (replace(ONE, never_acked=True, pace=Pace(10.0, "as told")), "hangs"),
    ],
)
def test_hanging_and_slow_are_told_apart_where_the_view_does(
    consumer: ConsumerView, how: str
) -> None:
    assert activity_of(consumer) == how


def test_what_hangs_is_looked_at_and_restarted_and_gets_no_smaller_queue() -> None:
    first, second, *_ = actions = treatment(view(), ONE)
    assert "at 10.0.3.7:51494" in first.text
    assert "jcmd" in first.text
    assert first.command == "ss -tnp 'sport = :51494'"
    assert second.text.startswith("Restart the process at 10.0.3.7:51494")
    assert "delivered again" in (second.side_effect or "")
    assert "receiver queue" not in texts(actions)


def test_what_is_slow_gets_less_to_hold_and_no_dump() -> None:
    actions = treatment(view(), replace(ONE, works=True))
    assert [action.when for action in actions] == ["today", "later"]
    assert ".receiverQueueSize(1) (Java)" in actions[0].text
    assert "dump" not in texts(actions)


def test_where_nobody_can_tell_the_dump_comes_first_and_decides() -> None:
    actions = treatment(view(), replace(ONE, works=None))
    assert actions[0].text.startswith("Dump the threads")
    assert "If the dump shows" in texts(actions)
    assert [action.when for action in actions] == ["now", "now", "now", "today", "later"]


@pytest.mark.parametrize(
    "no_smaller",
    [
        replace(ONE, receiver_queue_size=exactly(1)),
        replace(ONE, receiver_queue_size=exactly(0)),
        replace(ONE, one_by_one=True),
    ],
)
def test_a_queue_that_cannot_be_smaller_is_not_spoken_of(no_smaller: ConsumerView) -> None:
    assert list(smaller_queue(view(), no_smaller)) == []
    assert "receiver queue" not in texts(treatment(view(), replace(no_smaller, works=True)))


def test_an_address_that_is_not_told_leaves_no_hole() -> None:
    action = dump_threads(view(), replace(ONE, address=None))
    assert action.command is None
    assert "of worker-1 (its address is not reported)" in action.text


def test_an_ipv6_address_has_its_port_at_the_end() -> None:
    action = dump_threads(view(), replace(ONE, address="/[2001:db8::7]:6650"))
    assert action.command == "ss -tnp 'sport = :6650'"
    assert "[2001:db8::7]:6650" in action.text


@pytest.mark.parametrize(
    ("version", "but"),
    [
        ("Pulsar-Java-v4.0.8", None),
        ("Pulsar-Go-v0.19.0", "Go's client still asks for ten more ahead"),
        ("pulsar-rs-v6.9.1", "holds 1000 all the same unless with_receiver_queue_size says 1 too"),
    ],
)
def test_where_a_client_holds_more_than_its_queue_it_is_said(version: str, but: str | None) -> None:
    (action,) = smaller_queue(view(), replace(ONE, client_version=version))
    assert (";" in (action.side_effect or "")) == (but is not None)
    assert (but or "") in (action.side_effect or "")


SAT = Sitting(
    "ear", "listens", "BLOCKED", CHARGE, CHARGE, seconds=41.0,
    waits=Wait("monitor", "com.acme.Ledger", "writer"),
    chain=(Sitting("writer", "application", "TIMED_WAITING", SLEEP, WRITE, seconds=50.0),),
)  # fmt: skip


def test_a_dump_that_was_taken_is_not_advised_and_what_it_showed_is_said() -> None:
    seen = replace(ONE, inside=Inside(asked=False, sits=(SAT,)))
    text = texts(treatment(view(), seen))
    assert "dump" not in text
    assert (
        f"ear has been in {CHARGE} for 41 s or longer, where it waits for the monitor of a "
        f"com.acme.Ledger, which writer holds; writer has been in java.lang.Thread.sleep under "
        f"{WRITE} for 50 s"
    ) in text
    none = replace(ONE, inside=Inside(asked=True))
    assert "dump" not in texts(treatment(view(), none))
    assert "dump" not in remedy(view(), seen) + remedy(view(), none)


def test_what_decides_a_suspect_is_no_dump_where_one_was_taken() -> None:
    watched = replace(view(), watched_seconds=SHORT_SECONDS)
    (suspect,) = [each.hypothesis for each in load() if each.code == "permits-exhausted"]
    assert suspect is not None
    assert "Take a dump of the threads" in probe_of(watched, suspect, ONE).text
    seen = replace(ONE, inside=Inside(asked=False, sits=(SAT,)))
    assert "dump" not in (text := probe_of(watched, suspect, seen).text)
    assert f"whether one of these hangs: ear has been in {CHARGE}" in text


INSIDE = "pulsar-doctor examine 10.0.3.7:51494 persistent://public/default/orders --attach"


@pytest.mark.parametrize(
    ("consumer", "line"),
    [
        (replace(ONE, here=True), INSIDE),
        (replace(ONE, here=True, client_version="Pulsar-CPP-v3.5.1"), INSIDE),  # or of Python
        (replace(ONE, here=True, client_version="Pulsar-Go-v0.14.0"), None),
        (replace(ONE, here=True, inside=Inside(asked=True)), None),  # which has been done
        (ONE, None),
    ],
)
def test_a_process_on_this_machine_is_examined_before_anything_is_restarted(
    consumer: ConsumerView, line: str | None
) -> None:
    there = replace(view(), topic="persistent://public/default/orders", partition=None)
    for code in ("permits-exhausted", "not-acknowledging", "permit-leak"):
        (suspect,) = [each.hypothesis for each in load() if each.code == code]
        assert suspect is not None
        probe = probe_of(there, suspect, consumer)
        assert (probe.command == INSIDE) == (line is not None)
        assert not (line and probe.harmless)
    (healthy,) = [each.hypothesis for each in load() if each.code == "dispatch-throttled"]
    assert healthy is not None
    assert probe_of(there, healthy, consumer).command != INSIDE
    first = treatment(there, consumer)[0]
    assert (first.command == INSIDE) == (line is not None)
    assert ("Look inside the process at 10.0.3.7:51494" in first.text) == (line is not None)


@pytest.mark.parametrize(
    ("other", "is_said"),
    [
        (replace(ONE, label="worker-2"), True),  # on its connection
        (replace(ONE, label="worker-2", address="/10.0.3.7:51495"), False),
        (replace(ONE, label="worker-2", address="/10.0.3.7:51495", inside=Inside()), False),
        (replace(ONE, label="worker-2", address=None), False),
    ],
)
def test_consumers_of_one_process_are_restarted_together(
    other: ConsumerView, is_said: bool
) -> None:
    both = replace(view(), consumers=(ONE, other))
    assert ("are in that process too" in texts(treatment(both, ONE))) == is_said


def test_of_several_only_some_are_restarted_with_it() -> None:
    beside, elsewhere = replace(ONE, label="b"), replace(ONE, label="c", address="/10.0.3.8:1")
    three = replace(view(), consumers=(ONE, beside, elsewhere))
    action = restart(three, ONE)
    assert "b is restarted with it; its messages are sent to the other" in action.text
    assert action.brief == "Restart its process; its other consumers stop too"


def test_consumers_that_one_process_has_told_of_are_of_one_process() -> None:
    first = replace(ONE, inside=Inside())
    other = replace(first, label="worker-2", address="/10.0.3.7:51495")
    both = replace(view(), consumers=(first, other))
    assert "are in that process too" in texts(treatment(both, first))


def test_a_watch_lasts_until_the_silence_is_certain_and_no_step_is_advised_twice() -> None:
    """The promise is the rule: five minutes; what was examined is examined for that long."""
    suspect = Hypothesis("", code="prefetch-hogging")
    holds = replace(
        ONE, client_version="Pulsar-CPP-v4.2.0", available_permits=exactly(200),
        unacked_messages=exactly(800), quiet_for=Age(111_000, exact=True), here=True,
    )  # fmt: skip
    there = view()
    first = probe_of(there, suspect, holds)
    assert first.command is not None
    examined = replace(holds, inside=Inside(asked=False))
    second = probe_of(there, suspect, examined)
    assert second.command == f"{first.command} --window 190s"
    assert second.text.startswith("Watch for 3.17 min more: after 5 min without")
    later = replace(examined, quiet_for=Age(301_000, exact=True))
    assert "certain" not in probe_of(there, suspect, later).text
    few = replace(examined, unacked_messages=exactly(16))
    assert "certain" not in probe_of(there, suspect, few).text
    elsewhere = probe_of(there, suspect, replace(holds, here=False))
    assert elsewhere.command is not None
    assert elsewhere.command.startswith("pulsar-doctor stall-check")
    assert elsewhere.harmless

    keeps = replace(
        examined, inside=Inside(asked=True), quiet_for=Age(0, exact=True),
        connected_for=Age(290_000, exact=True), never_acked=True,
    )  # fmt: skip
    assert probe_of(there, suspect, keeps).seconds == 311
    asks = replace(keeps, refilled=True)
    assert "acknowledged none 5 min after it connected" in probe_of(there, suspect, asks).text
