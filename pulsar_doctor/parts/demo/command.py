"""`pulsar-doctor demo`: shows a stall and its cure on a real Apache Pulsar."""

from __future__ import annotations

from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from pulsar_doctor.cli._calls import checks, connected, settings
from pulsar_doctor.cli._commands import Sections
from pulsar_doctor.cli._options import local_options
from pulsar_doctor.wording.sizes import DOWNLOAD_BYTES, megabytes

if TYPE_CHECKING:
    from pulsar_doctor.broker.settings import Settings
    from pulsar_doctor.diagnosis.verdict import Diagnosis
    from pulsar_doctor.ledger.consumers import Consumer
    from pulsar_doctor.parts.consume.engines import Plan

GROUP = "local"
MESSAGES = 1000
SLOW_SECONDS = (
    600.0  # ten minutes of work for each message, as given: the demo does not wait for it
)
IDLE_SECONDS = 3.0  # how long the fast worker is watched doing nothing
PATIENCE_SECONDS = 30.0
EPILOG = """\b
Examples:
  pulsar-doctor demo
  pulsar-doctor demo --no-color | less
  pulsar-doctor demo --pulsar-home ~/apache-pulsar-4.0.8
"""


HELP = f"""Shows a stall on a real Pulsar, and how to cure it.

Starts the sandbox (the first time it downloads Apache Pulsar, {megabytes(DOWNLOAD_BYTES)}), sends
1,000 messages to a slow worker with a receiver queue of 1000, attaches a fast worker, and shows
where the messages are. Then the same with a zero queue, and both side by side. Nothing of yours is
touched. Exit code 0 where the story holds, 3 otherwise.
"""


@click.command(cls=Sections, help=HELP, epilog=EPILOG)
@local_options
def command() -> int:
    """Plays the stall; returns the exit code."""
    from dataclasses import replace

    _require_extra()
    from pulsar_doctor.parts.demo import report as story

    where = replace(settings(), sandbox=True)
    story.opening()
    with connected(where) as there:
        stalled = _play(there, receiver_queue_size=1000)
        story.verdict(stalled.diagnosis)
        story.remedy()
        healed = _play(there, receiver_queue_size=0)
        story.verdict(healed.diagnosis)
    story.side_by_side((stalled.slow, stalled.fast), (healed.slow, healed.fast), MESSAGES)
    wrong = _what_does_not_hold(stalled, healed)
    story.closing(wrong)
    return 3 if wrong else 0


def _require_extra() -> None:
    from pulsar_doctor.errors import MissingExtra

    try:
        import pulsar_doctor.parts.consume.attach
        import pulsar_doctor.parts.consume.session  # noqa: F401
    except (MissingExtra, ModuleNotFoundError) as error:
        raise MissingExtra("sandbox", "the demo") from error


@dataclass(frozen=True, slots=True)
class Act:
    """How one play ended."""

    slow: Consumer
    fast: Consumer
    diagnosis: Diagnosis


def _play(where: Settings, receiver_queue_size: int) -> Act:
    from pulsar_doctor.parts.consume.session import RunOptions, session
    from pulsar_doctor.parts.demo import report as story

    plans = slow, fast = _plans(receiver_queue_size)
    lines = story.wire()
    with ExitStack() as behind, session(where, plans, RunOptions(on_row=lines.add)) as running:
        behind.callback(_remove_subscription, where, slow)
        lines.timeline = running.timeline

        def delivered(name: str) -> int:
            lines.flush()
            consumer = running.consumer(name)
            return consumer.ledger.messages if consumer else 0

        story.attaches_slow(slow)
        running.attach(slow)
        running.produce(slow.topic, MESSAGES)
        first = MESSAGES if receiver_queue_size else 1
        running.wait(lambda: delivered("slow") >= first, PATIENCE_SECONDS)
        story.attaches_fast(fast)
        running.attach(fast)
        if receiver_queue_size:
            running.wait(lambda: delivered("fast") > 0, IDLE_SECONDS)
        else:
            running.wait(lambda: delivered("fast") >= MESSAGES - 1, PATIENCE_SECONDS)
            running.wait(lambda: running.acknowledged, 1.0)
        diagnosis = running.diagnoses(*checks())[0]
        lines.flush()
        ends = running.consumer("slow"), running.consumer("fast")
        assert ends[0] is not None
        assert ends[1] is not None
        # Copies: closing the slow worker gives its messages to the fast one.
        return Act(deepcopy(ends[0]), deepcopy(ends[1]), diagnosis)


def _remove_subscription(where: Settings, plan: Plan) -> None:
    """So that a sandbox that stays deletes the topic by itself."""
    from pulsar_doctor.parts.consume.visiting.leavings import remove
    from pulsar_doctor.parts.sandbox.lifetime import outlives

    if outlives(where):
        remove(where, plan, [plan.topic])


def _plans(receiver_queue_size: int) -> tuple[Plan, Plan]:
    import secrets

    from pulsar_doctor.parts.consume.engines import Plan

    topic = f"persistent://public/default/demo-{secrets.token_hex(4)}"
    slow = Plan("slow", topic, "work", receiver_queue_size, process_seconds=SLOW_SECONDS)
    return slow, Plan("fast", topic, "work", receiver_queue_size)


def _what_does_not_hold(stalled: Act, healed: Act) -> list[str]:
    """The points of the story that this run did not show; none where it holds."""
    first = stalled.diagnosis.findings[0] if stalled.diagnosis.findings else None
    evidence = {m.name: m.value for m in first.evidence} if first else {}
    points = {
        "the slow worker's queue took all 1,000 messages": stalled.slow.ledger.messages == MESSAGES,
        "the fast worker got nothing": stalled.fast.ledger.messages == 0,
        "the verdict was prefetch-hogging": first is not None and first.code == "prefetch-hogging",
        "its next FLOW was 499 messages away": evidence.get("next_flow_after") == 499,
        "with a zero queue the fast worker got its share": healed.fast.ledger.acknowledged
        == MESSAGES - 1,
        "with a zero queue nothing was stalled": healed.diagnosis.status == "healthy",
    }
    return [point for point, holds in points.items() if not holds]
