"""What to do with one consumer in one sentence, for short formats."""

from __future__ import annotations

from pulsar_doctor.diagnosis.actions.activity import activity_of
from pulsar_doctor.diagnosis.actions.processes import others, place, threads_seen
from pulsar_doctor.diagnosis.actions.settings import setting
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.ledger.clients import RECEIVER_QUEUE


def remedy(view: SubscriptionView, consumer: ConsumerView) -> str:
    """What to do with a consumer that is slow, hangs, keeps everything, or may do any of these."""
    return SENTENCES[activity_of(consumer)](view, consumer)


def _slow(view: SubscriptionView, consumer: ConsumerView) -> str:
    queue = _queue_of_one(consumer)
    if queue is None:
        return "Add workers, or make the work on one message faster."
    return (
        f"Give it {queue}, so that nothing waits behind slow work; add workers, or make the work "
        "on one message faster."
    )


def _hangs(view: SubscriptionView, consumer: ConsumerView) -> str:
    queue = "; a smaller receiver queue does not help a consumer that takes nothing"
    full = consumer.without_permits  # with permits left it may have taken all that it was sent
    text = f"{_inspect(consumer)}, and restart it: {others(view, consumer)}{queue if full else ''}."
    if full or not consumer.never_acked:
        return text
    return f"{text} Check that its application acknowledges: none has arrived."


def _keeps(view: SubscriptionView, consumer: ConsumerView) -> str:
    return (
        f"Check that the application {place(consumer)} acknowledges each message when its work is "
        f"done; restart it to free what it holds: {others(view, consumer)}."
    )


def _withholds(view: SubscriptionView, consumer: ConsumerView) -> str:
    return f"Restart the process {place(consumer)}, with the key or the schema that its log names."


def _unclear(view: SubscriptionView, consumer: ConsumerView) -> str:
    queue = _queue_of_one(consumer)
    slow = "" if queue is None else f"; if it is only slow, give it {queue}"
    return f"{_inspect(consumer)}: if it hangs, restart it, and {others(view, consumer)}{slow}."


SENTENCES = {
    "slow": _slow, "hangs": _hangs, "keeps": _keeps, "withholds": _withholds, "unclear": _unclear,
}  # fmt: skip


def _inspect(consumer: ConsumerView) -> str:
    if seen := threads_seen(consumer):
        return f"Find out why the application {place(consumer)} does not go on ({seen})"
    return f"Dump the threads of the process {place(consumer)} to see what it does"


def _queue_of_one(consumer: ConsumerView) -> str | None:
    """The setting that makes its queue 1; None if it is, or the client has no such setting."""
    known = None if consumer.asks_singly else setting(consumer.client, RECEIVER_QUEUE, 1)
    return None if known is None else f"a receiver queue of 1 ({known})"
