"""What to do with a consumer whose process has told why it stands still."""

from __future__ import annotations

from pulsar_doctor.evidence.answers import Action, Measure
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.inside import Inside
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.thresholds import Threshold
from pulsar_doctor.process.told import Sitting
from pulsar_doctor.remedies.consumers import restart
from pulsar_doctor.remedies.lines import check
from pulsar_doctor.wording.durations import duration

CONSEQUENCES = frozenset(
    {"permits-exhausted", "slow-but-progressing", "not-acknowledging", "prefetch-hogging",
     "ack-hole"}
)  # fmt: skip
STUCK_FOR = Threshold("stuck_for", 10.0, "seconds", "a thread that sits somewhere for less works")
GONE = "no such finding any more"


def numbers(consumer: ConsumerView, own: Inside) -> tuple[Measure, ...]:
    """Both ledgers, and what waits between them."""
    permits = consumer.permits.exact if consumer.permits else None
    return (
        Measure("available_permits", permits, "permits"),
        Measure("unsent_permits", own.unsent, "permits"),
        Measure("receiver_queue_size", own.queue_size, "messages"),
        Measure("next_flow_after", own.until_flow, "messages"),
        Measure("queued", own.waiting, "messages"),
        Measure("with_listener", own.handed, "messages"),
    )


def lasted(consumer: ConsumerView, own: Inside) -> float:
    """For how many seconds it has taken nothing, at least: by its threads, or by any sign of it."""
    quiet = consumer.quiet.seconds if consumer.quiet and not consumer.moved else 0.0
    return max(own.stood, quiet)


def sitting(consumer: ConsumerView, own: Inside) -> tuple[Measure, ...]:
    """Where the first of its threads sits, as evidence."""
    first = own.sits[0] if own.sits else None
    return (
        Measure("stood_for", round(lasted(consumer, own), 1), "seconds", "at least"),
        Measure("thread", first.thread if first else None, ""),
        Measure("sits_in", first.where if first else None, ""),
    )


def both_ledgers(consumer: ConsumerView, own: Inside) -> str:
    """The broker's number and the client's, in one clause."""
    permits = consumer.permits.exact if consumer.permits else None
    if permits is None:
        return own.ledger
    return f"the broker may send it {max(0, permits)}, and {own.ledger}"


def has_sat(thread: Sitting) -> str:
    """`x has sat in … under … for 41 s`; `x sits in …` where it ran just now, or nobody tells."""
    if thread.seconds is None:
        return f"{thread.thread} sits in {thread.where}"
    return f"{thread.thread} has sat in {thread.where} for {duration(thread.seconds)}"


def unstuck(
    view: SubscriptionView, consumer: ConsumerView, thread: Sitting | None
) -> tuple[Action, ...]:
    """A restart now, and a time limit for the very step in which it sits."""
    step = "each step of the work" if thread is None else (thread.line or thread.where)
    return (
        restart(view, consumer),
        Action(
            "later",
            f"Give {step} a time limit of its own, so that it fails instead of hanging.",
            check=check(view, GONE),
        ),
    )
