"""What is advised where threads are blocked: of several that may hang none is picked."""

from __future__ import annotations

import pytest

from pulsar_doctor.diagnosis.actions.process import resting, unstuck
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.inside import Inside
from pulsar_doctor.evidence.process_report import Sitting
from tests.diagnosis.test_commands import view

CHARGE = "com.acme.Billing.charge (Billing.java:88)"
SEND = "com.acme.Mail.send (Mail.java:12)"
READ = "com.acme.Client.main (Client.java:43)"
WAIT = "com.acme.Clock.wait (Clock.java:9)"


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
    assert (
        limits.text == f"Give {step} a time limit of its own, so that it fails instead of hanging."
    )
