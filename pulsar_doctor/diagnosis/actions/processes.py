"""In which process a consumer is, where its threads are, and who else is in that process."""

from __future__ import annotations

from pulsar_doctor.diagnosis.actions.commands import examine
from pulsar_doctor.diagnosis.actions.settings import likely_clients
from pulsar_doctor.diagnosis.actions.threads import NAMED_MOST, in_pool, sentence
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.printable import listed

# Causes as they appear from outside; what is found inside the process of a consumer explains them.
CONSEQUENCES = frozenset(
    {"permits-exhausted", "slow-but-progressing", "not-acknowledging", "prefetch-hogging",
     "ack-hole", "permit-leak", "key-shared-blocked"}
)  # fmt: skip
ELSEWHERE = "its messages are sent to the other consumers at once, or to it when it reconnects"
ALONE = "its messages are delivered again when it reconnects"
WITH_IT = "the other consumers are in that process too, so all messages wait until it is back"
TAKEN_OVER = {
    "Exclusive": ALONE,
    "Failover": "a standby takes over at once and gets its messages",
    "Key_Shared": "its keys and messages move to the other consumers at once, or back to it when "
    "it reconnects",
}


def place(consumer: ConsumerView) -> str:
    """`at 10.0.3.7:51494`, or who it is where no address is reported."""
    address = (consumer.address or "").lstrip("/")
    who = f" ({consumer.function})" if consumer.function else ""
    return f"at {address}{who}" if address else f"of {consumer.label} (its address is not reported)"


def others(view: SubscriptionView, consumer: ConsumerView) -> str:
    """Who gets its messages when it is gone; it itself, where nobody else is there."""
    beside = [each for each in view.consumers or () if each is not consumer]
    if view.consumers is not None and len(view.consumers) == 1:
        return ALONE
    taken, also = TAKEN_OVER.get(view.type or "", ELSEWHERE), restarted_with(view, consumer)
    if len(also) == len(beside):
        return WITH_IT if also else taken
    if not also:
        return taken
    return f"{listed(also, 3)} {'is' if len(also) == 1 else 'are'} restarted with it; {taken}"


def restarted_with(view: SubscriptionView, consumer: ConsumerView) -> list[str]:
    """Who else is in its process: on its connection, or read in that very process."""
    return [
        each.label
        for each in view.consumers or ()
        if each is not consumer and _same_process(each, consumer)
    ]


def _same_process(one: ConsumerView, other: ConsumerView) -> bool:
    on_its_connection = one.address is not None and one.address == other.address
    return on_its_connection or (one.inside is not None and other.inside is not None)


def threads_seen(consumer: ConsumerView) -> str | None:
    """Where its threads were when they were read; None where nobody has read them."""
    own = consumer.inside
    if own is None or own.asked is None:
        return None
    if pool := in_pool(own):
        return pool
    if own.sits:
        return sentence(own.sits[:NAMED_MOST])
    return "its threads were read, and none is busy with a message that waits in its client"


def examined_by(view: SubscriptionView, consumer: ConsumerView) -> str | None:
    """Our own line that examines it; None where it is elsewhere, or cannot be attached to."""
    readable = any(each.attachable for each in likely_clients(consumer.client))
    if not (consumer.here and consumer.address and readable) or consumer.inside is not None:
        return None
    return examine(view, consumer.address)
