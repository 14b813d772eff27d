"""What would decide a suspect: the cheapest harmless observation, and what is not reported.

Of a consumer on this machine its process is examined: that takes seconds, and shows whether it is
paused and where its threads are. Otherwise another sample comes first: it only reads, and tells
work from a hang. It lasts until the silence is long enough for a finding, and of a consumer that
was examined it is another examination, so that no step comes twice. Where the subscription was
watched for long already, somebody has to examine the process, or at what the wire carries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from pulsar_doctor.diagnosis.actions.activity import activity_of
from pulsar_doctor.diagnosis.actions.commands import admin, examine, watch
from pulsar_doctor.diagnosis.actions.processes import CONSEQUENCES, examined_by, place, threads_seen
from pulsar_doctor.diagnosis.answers import HEALTHY, Probe
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.thresholds import IN_HAND, LONG_SECONDS
from pulsar_doctor.diagnosis.trace_laws import growing_delay
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import exact, least
from pulsar_doctor.wording.durations import duration

SHORT_SECONDS, EXAMINE_SECONDS = 60, 8
INSIDE = (
    "Look inside its process, which is on this machine, without a restart: that shows whether the "
    "consumer is paused, and where its threads are."
)

NO_SIGN = "an acknowledgement or a FLOW shows that it works; its silence alone proves nothing yet"
BACKLOG = f"Ask the broker for {SHORT_SECONDS} s: if the backlog does not grow, nothing is wrong."
CONSUMERS = "consumers"
# Numbers of a subscription that would confirm a suspect; all others are numbers of one consumer.
OF_SUBSCRIPTION: Mapping[str, Callable[[SubscriptionView], object]] = {
    "acknowledged_ranges": lambda view: view.ranges,
    "backlog_by_positions": lambda view: view.backlog and view.backlog.positions,
    "blocked_subscription_on_unacked_msgs": lambda view: (
        view.unacked_limit and view.unacked_limit.blocked
    ),
    CONSUMERS: lambda view: view.consumers,
    "msg_delayed": lambda view: view.delayed,
    "msg_in_replay": lambda view: view.replay,
    "read_position": lambda view: view.reads,
    "read_state": lambda view: view.reads and view.reads.face,
    "redelivered": lambda view: view.circulation,
    "throttled_reads": lambda view: view.throttling,
}


def probe_of(view: SubscriptionView, of: Hypothesis, each: ConsumerView | None) -> Probe:
    """What decides this suspect."""
    if view.hides_partitions:
        line = admin(view, "topics partitioned-stats", "--per-partition")
        return Probe("Read each partition: one of them may be stuck.", line, 2)
    if each is not None and of.code in CONSEQUENCES and (line := examined_by(view, each)):
        return Probe(INSIDE, line, EXAMINE_SECONDS, harmless=False)
    if of.code == HEALTHY and growing_delay(view) is not None:
        return Probe(BACKLOG, watch(view, SHORT_SECONDS), SHORT_SECONDS)
    if of.probe is not None and (own := of.probe(view, each)) is not None:
        return own
    if of.confirmed is None and each is not None and (silence := _silence(view, each)) is not None:
        return silence
    if (view.watched_seconds or 0) >= SHORT_SECONDS and each is not None:
        return _process(each)
    return watching(view, of.confirmed or NO_SIGN, each)


def _silence(view: SubscriptionView, each: ConsumerView) -> Probe | None:
    """A watch until its silence is long enough for a finding; None where it is, or is not known."""
    if activity_of(each) == "keeps":
        return _keeping(view, each)
    held = least(each.unacked_messages) or 0
    certain = held > IN_HAND.default or (each.without_permits and not each.asks_singly)
    if each.quiet_for is None or each.quiet_at_least(LONG_SECONDS) or not certain:
        return None
    seconds = math.ceil(LONG_SECONDS - each.quiet_for.seconds) + 1
    text = (
        f"Watch for {duration(seconds)} more: after {duration(LONG_SECONDS)} without an "
        "acknowledgement or a FLOW it is certain; if one comes, it works."
    )
    return _watched(view, each, text, seconds)


def _keeping(view: SubscriptionView, each: ConsumerView) -> Probe | None:
    """The same for one that takes messages: only an acknowledgement shows that it works.

    Without a FLOW after its first nobody knows that it has taken them, so it is certain later.
    """
    asks, there = each.sent_another_flow or each.refilled, each.connected_for
    needs = LONG_SECONDS if asks else 2 * LONG_SECONDS
    if there is None or there.seconds >= needs:
        return None
    seconds = math.ceil(needs - there.seconds) + 1
    text = (
        f"Watch for {duration(seconds)} more: if it has acknowledged none {duration(needs)} after "
        "it connected, it is certain; if an acknowledgement comes, it works."
    )
    return _watched(view, each, text, seconds)


def watching(view: SubscriptionView, confirmed: str, each: ConsumerView | None = None) -> Probe:
    """A longer watch, and what it would show."""
    long = (view.watched_seconds or 0) >= SHORT_SECONDS
    seconds = int(LONG_SECONDS) if long else SHORT_SECONDS
    return _watched(view, each, f"Watch for {seconds} s more: {confirmed}.", seconds)


def _watched(view: SubscriptionView, each: ConsumerView | None, text: str, seconds: int) -> Probe:
    """The watch of the subscription, or of the process that was examined already."""
    if each is not None and each.inside is not None and each.address:
        line = examine(view, each.address)
        return Probe(text, line and f"{line} --window {seconds}s", seconds, harmless=False)
    return Probe(text, watch(view, seconds), seconds)


def read_positions(view: SubscriptionView, each: ConsumerView | None) -> Probe | None:
    """The internal stats, which tell the positions of the cursor, where nobody read them yet."""
    if view.ranges is not None:
        return None
    line = admin(view, "topics stats-internal")
    return Probe("Read the internal stats: they show the positions.", line, 2)


def _process(each: ConsumerView) -> Probe:
    if seen := threads_seen(each):
        return Probe(f"Check in the application {place(each)} whether one of these hangs: {seen}.")
    return Probe(
        f"Take a dump of the threads of the process {place(each)}: a thread that waits in the "
        "application's own code hangs there; one that waits for messages does not.",
        harmless=False,
    )


def missing_of(
    names: Iterable[str], view: SubscriptionView, each: ConsumerView | None
) -> tuple[str, ...]:
    """The names of numbers that are not reported. each: whom the suspect concerns; None: nobody."""
    missing = (_missing(name, view, each) for name in names)
    return tuple(dict.fromkeys(name for name in missing if name is not None))


def _missing(name: str, view: SubscriptionView, each: ConsumerView | None) -> str | None:
    if name in OF_SUBSCRIPTION:
        return name if OF_SUBSCRIPTION[name](view) is None else None
    if each is None:
        return CONSUMERS if view.consumers is None else None
    return None if _is_reported(name, each) else name


def _is_reported(name: str, of: ConsumerView) -> bool:
    """Whether a number is reported; a bound of a queue size does not show which cause it is."""
    value = getattr(of, name)
    if name == "receiver_queue_size":
        value = exact(value)
    return value is not None or (name == "since_last_ack" and of.never_acked is not None)
