"""Laws by a trace alone: what holds messages back is not on the wire.

Each names what has rested for longer than that explains, and what the trace does not show.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE
from pulsar_doctor.diagnosis.answers import Rests
from pulsar_doctor.diagnosis.observing import worded
from pulsar_doctor.diagnosis.thresholds import IN_HAND, QUIET_AFTER
from pulsar_doctor.evidence.balance import EVEN, LONGEST_BURST
from pulsar_doctor.evidence.circulation import Delay
from pulsar_doctor.evidence.consumer import ConsumerView, since_last_delivery
from pulsar_doctor.evidence.measures import STATS
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import least
from pulsar_doctor.ledger.topics import NON_PERSISTENT
from pulsar_doctor.wording.durations import duration


def limit_not_on_the_wire(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """Consumers hold messages, have permits, and neither side moves.

    A broker that has reached the subscription's limit of unacknowledged messages sends nothing
    more, and neither the limit nor the backlog is on the wire.
    """
    if STATS in view.sources or view.type in SINGLE_ACTIVE:
        return
    held, ready = sum(least(each.unacked_messages) or 0 for each in view.served), _ready(view)
    still = all(
        each.quiet_at_least(within) and not each.resting and not each.works for each in view.served
    )
    if ready and still and held > IN_HAND.default:
        yield Rests(worded("limit_not_seen", ready, held=held, within=duration(within)))


def stored_and_not_sent(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """A message was stored, a consumer has permits, and the broker does not send it.

    A broker sends at once what is due, unless something holds it back.
    """
    unsent = view.unsent
    if STATS not in view.sources and unsent is not None and unsent.seconds >= QUIET_AFTER.default:
        yield Rests(worded("stored_and_not_sent", unsent, since=duration(unsent.seconds)))


def end_not_shown(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """Consumers worked on old messages, and nothing more comes though they may have it.

    Either that was the end of the topic, or the broker does not send what follows.
    """
    behind, since, ready = view.behind_seconds, since_last_delivery(view.served), _ready(view)
    if STATS in view.sources or behind is None or behind < within:
        return
    if ready and since is not None and since.seconds >= within:
        yield Rests(worded("end_not_shown", ready, since=since, behind=duration(behind)))


def later_and_later(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """New messages are sent longer and longer after they were published.

    The consumers take less than was published then. Whether that was a burst, and how much waits,
    the broker knows.
    """
    if (delay := growing_delay(view)) is not None:
        seconds = {name: duration(getattr(delay, name)) for name in ("now", "before", "apart")}
        yield Rests(worded("later_and_later", delay, **seconds))


def growing_delay(view: SubscriptionView) -> Delay | None:
    """By a trace alone, the delay of new messages, if it grows; None: it does not."""
    if STATS in view.sources or view.circulation is None:
        return None
    delay = view.circulation.later_and_later(LONGEST_BURST)
    grows = delay is not None and delay.now - delay.before >= EVEN * delay.apart
    return delay if grows else None


def dropped_meanwhile(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """Nobody has permits on a non-persistent topic, so the broker drops what comes."""
    if STATS in view.sources or not view.topic.startswith(NON_PERSISTENT):
        return
    nobody_may = all(each.without_permits for each in view.served)
    since = since_last_delivery(view.served) if nobody_may else None
    if since is not None and since.seconds >= within:
        first = view.served[0]
        yield Rests(worded("dropped_meanwhile", first, since=since), first.label)


def left_behind(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """By a trace: the last consumer has left, and messages wait.

    That is no stall for certain: a consumer may be attached by a way that the trace does not see.
    Whoever has only just left may be about to return, or was ended together with the trace.
    """
    left = view.left_behind
    if left is not None and left.seconds >= QUIET_AFTER.default:
        are = "message is" if left.unacked == 1 else "messages are"
        unacked = f"at least {left.unacked} {are} unacknowledged" if left.unacked else ""
        published = "messages were published and sent to no consumer" if left.published else ""
        waits = " and ".join(filter(None, (unacked, published)))
        yield Rests(worded("left_behind", left, since=duration(left.seconds), waits=waits))


def _ready(view: SubscriptionView) -> ConsumerView | None:
    """The first consumer that could receive; None: nobody could."""
    return next((each for each in view.served if each.may_receive), None)
