"""What is advised where threads are blocked: of several that may hang none is picked."""

from __future__ import annotations

import pytest

from pulsar_doctor.diagnosis.actions.process import both_ledgers, resting, unstuck
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.inside import Inside
from pulsar_doctor.evidence.process_report import Sitting
from pulsar_doctor.evidence.values import exactly
from tests.diagnosis.test_commands import view

CHARGE = "com.acme.Billing.charge (Billing.java:88)"
SEND = "com.acme.Mail.send (Mail.java:12)"
READ = "com.acme.Client.main (Client.java:43)"
WAIT = "com.acme.Clock.wait (Clock.java:9)"


@pytest.mark.parametrize(
    ("permits", "own", "says"),
    [
        (0, Inside(), "the broker may not send it more"),
        (
            3,
            Inside(),
            "the broker may send it 3, and its client does not tell how far it is to its next FLOW",
        ),
        (
            0,
            Inside(unsent=2, refills_at=5),
            "the broker may send it 0, and its client has taken 2 "
            "of the 5 messages after which it asks again",
        ),
    ],
)
def test_what_is_not_known_of_the_next_flow_is_no_clause_where_permits_are_0(
    permits: int, own: Inside, says: str
) -> None:
    assert both_ledgers(ConsumerView(label="w", available_permits=exactly(permits)), own) == says


def sat(line: str, seconds: float | None = 41.0) -> Sitting:
    return Sitting(line, "application", "RUNNABLE", "java.lang.Thread.sleep", line, seconds=seconds)


@pytest.mark.parametrize(
    ("sits", "step"),
    [
        ((), "each step of the work"),
        ((sat(CHARGE),), CHARGE),
        ((sat(CHARGE), sat(CHARGE)), CHARGE),
        ((sat(CHARGE), sat(SEND, None)), CHARGE),  # that one ran
        ((sat(CHARGE, None), sat(SEND, None)), f"what hangs of {CHARGE} and {SEND}"),
        ((sat(READ), sat(CHARGE)), f"what hangs of {READ} and {CHARGE}"),
        (
            (sat(READ), sat(CHARGE), sat(SEND), sat(WAIT)),
            f"what hangs of {READ}, {CHARGE}, {SEND} and 1 more",
        ),
    ],
)
def test_a_time_limit_is_advised_for_each_step_that_may_hang(
    sits: tuple[Sitting, ...], step: str
) -> None:
    restarts, limits = unstuck(view(), ConsumerView(label="w"), resting(Inside(sits=sits)))
    assert restarts.when == "now"
    assert restarts.brief == (
        f"Restart its process, and give {step} a time limit; what it holds is delivered again"
    )
    assert (
        limits.text == f"Give {step} a time limit of its own, so that it fails instead of hanging."
    )
