"""What `consume` prints when it ends: verdict, totals, and what it left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pulsar_doctor.cli._calls import is_given, say
from pulsar_doctor.wording.gate import tell_json

if TYPE_CHECKING:
    from pulsar_doctor.diagnosis.verdict import Diagnosis
    from pulsar_doctor.parts.consume.command.options import ConsumeOutput
    from pulsar_doctor.parts.consume.engines import Plan
    from pulsar_doctor.parts.consume.session import Session
    from pulsar_doctor.parts.consume.visiting.leavings import Left


def last_word(
    running: Session, diagnoses: list[Diagnosis], plans: list[Plan], output: ConsumeOutput
) -> Callable[[list[Left]], None]:
    """The verdict, as of now, to be printed at the end, with what is left behind."""
    from pulsar_doctor.parts.consume.report import summary as consumed
    from pulsar_doctor.report.paper import print_page
    from pulsar_doctor.report.stall_check import verdict

    plan = plans[0]
    if running.batch_refused:
        say(
            f"{running.batch_refused} was sent a batch, of which pulsar-client's zero queue hands "
            "out only the first message: stopped before any of it was acknowledged; all of it goes "
            "back to the subscription. Use --engine wire, or --receiver-queue-size 1."
        )
    totals = running.totals(plans)
    if output == "table":

        def print_end(left: list[Left]) -> None:
            verdict.print_diagnoses(diagnoses, verbose=is_given("verbose"))
            print_page(*consumed.lines(totals))

        return print_end
    consumers, now_ns = list(running.timeline.living), running.timeline.now_ns
    document = consumed.document(
        plan.topic, plan.subscription, consumers, diagnoses, now_ns=now_ns, totals=totals
    )

    def dump(left: list[Left]) -> None:
        document["left_behind"] = [each.document for each in left]
        tell_json(document, indent=2 if output == "json" else None)

    return dump


def shortfall(running: Session, in_time: bool) -> int:
    """Exit code 3 where a consumer failed or fewer messages came than were requested."""
    for worker in running.workers:
        if worker.error is not None:
            raise worker.error
    if not in_time and running.budget.missing:
        say(f"{running.budget.missing} of the requested messages did not arrive in time")
        return 3
    return 0
