"""What to do with a consumer after its process was examined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pulsar_doctor.diagnosis.actions.commands import check
from pulsar_doctor.diagnosis.actions.consumers import restart
from pulsar_doctor.diagnosis.actions.threads import NAMED_MOST
from pulsar_doctor.diagnosis.answers import Action
from pulsar_doctor.diagnosis.thresholds import Threshold
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.inside import Inside
from pulsar_doctor.evidence.measures import Measure
from pulsar_doctor.evidence.numbers import measured
from pulsar_doctor.evidence.process_report import Sitting
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.printable import listed
from pulsar_doctor.wording.sentences import say

STUCK_FOR = Threshold(
    "stuck_for", 10.0, "seconds", "a thread that was in one place for less is working"
)
GONE = "this finding is gone"


def numbers(consumer: ConsumerView, own: Inside) -> tuple[Measure, ...]:
    """Both ledgers, and what waits between them."""
    permits = consumer.available_permits.exact if consumer.available_permits else None
    return (
        measured("available_permits", permits),
        Measure("unsent_permits", own.unsent, "permits"),
        measured("receiver_queue_size", own.queue_size),
        measured("next_flow_after", own.until_flow),
        measured("queued", own.waiting),
        Measure("with_listener", own.handed, "messages"),
    )


def lasted(consumer: ConsumerView, own: Inside) -> float:
    """For how many seconds it has taken nothing, at least: by its threads, or by any sign of it."""
    quiet = consumer.quiet_for.seconds if consumer.quiet_for and not consumer.moved else 0.0
    return max(own.stood, quiet)


def resting(own: Inside) -> tuple[Sitting, ...]:
    """Threads of the process that were in the same place twice: each may be the one that hangs, no
    other.

    All of them where none did, or nobody tells.
    """
    return tuple(each for each in own.sits if each.seconds is not None) or own.sits


def sitting(consumer: ConsumerView, own: Inside) -> tuple[Measure, ...]:
    """Where the threads are that may be the one that hangs, as evidence: `a; b`."""
    rest = resting(own)[:NAMED_MOST]
    return (
        Measure("stood_for", round(lasted(consumer, own), 1), "seconds", "at least"),
        Measure("thread", "; ".join(each.thread for each in rest) or None, ""),
        Measure("sits_in", "; ".join(each.where for each in rest) or None, ""),
        *_waiting(rest),
    )


def _waiting(threads: Sequence[Sitting]) -> Iterator[Measure]:
    """What they wait for, and where the thread is for which all of a chain wait."""
    waits = dict.fromkeys(each.waits.text for each in threads if each.waits is not None)
    if waits:
        yield Measure("waits_for", "; ".join(waits), "")
    ends = {each.ends.thread: each.ends for each in threads if each.chain}
    if ends:
        yield Measure("waits_for_thread", "; ".join(ends), "")
        yield Measure("that_sits_in", "; ".join(each.where for each in ends.values()), "")


def both_ledgers(consumer: ConsumerView, own: Inside) -> str:
    """The broker's number and the client's, in one clause."""
    permits = consumer.available_permits.exact if consumer.available_permits else None
    if permits is None:
        return own.ledger
    if permits <= 0 and own.until_flow is None and not own.zero_queue:
        return "the broker may not send it more"
    return say("the broker may send it {}, and {}", max(0, permits), own.ledger)


def unstuck(
    view: SubscriptionView, consumer: ConsumerView, threads: Sequence[Sitting]
) -> tuple[Action, ...]:
    """A restart now, and a time limit for the very step in which it sits.

    threads: those that may be the one that hangs. Of one that waits for a lock it is the step in
    which the lock is held, at the end of the chain.
    """
    step = _step(threads)
    return (
        restart(view, consumer, how_brief=f", and give {step} a time limit"),
        Action(
            "later",
            f"Give {step} a time limit of its own, so that it fails instead of hanging.",
            check=check(view, GONE),
        ),
    )


def _step(threads: Sequence[Sitting]) -> str:
    ends = [each.ends for each in threads]
    places = list(dict.fromkeys(each.line or each.where for each in ends))
    if not places:
        return "each step of the work"
    return places[0] if len(places) == 1 else f"what hangs of {listed(places, NAMED_MOST)}"
