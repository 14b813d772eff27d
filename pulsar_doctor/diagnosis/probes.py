"""The cheapest harmless observation that tells a suspect from the next one.

Of a consumer on this machine its process is examined: that takes seconds, and shows whether it is
paused and where its threads are. Otherwise another sample comes first: it only reads, and tells
work from a hang. Where the subscription was watched for long already, somebody has to examine the
process, or at what the wire carries.
"""

from __future__ import annotations

from pulsar_doctor.diagnosis.actions.commands import admin, watch
from pulsar_doctor.diagnosis.actions.processes import CONSEQUENCES, examined_by, place, threads_seen
from pulsar_doctor.diagnosis.answers import HEALTHY, Probe
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.trace_laws import growing_delay
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView

SHORT_SECONDS, LONG_SECONDS, EXAMINE_SECONDS = 60, 300, 8
INSIDE = (
    "Look inside its process, which is on this machine, without a restart: that shows whether the "
    "consumer is paused, and where its threads are."
)

BACKLOG = f"Ask the broker for {SHORT_SECONDS} s: if the backlog does not grow, nothing is wrong."


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
    if (view.watched_seconds or 0) >= SHORT_SECONDS and each is not None:
        return _process(each)
    return watching(view, of.confirmed)


def watching(view: SubscriptionView, confirmed: str) -> Probe:
    """A longer watch, and what it would show."""
    seconds = SHORT_SECONDS if (view.watched_seconds or 0) < SHORT_SECONDS else LONG_SECONDS
    return Probe(f"Watch for {seconds} s more: {confirmed}.", watch(view, seconds), seconds)


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
