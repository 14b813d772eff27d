"""What would decide: the cheapest harmless look that tells a suspect from the next one.

Another sample comes first: it only reads, and tells work from a hang. Where the view was watched
for long already, somebody has to look at the process, or at what the wire carries.
"""

from __future__ import annotations

from pulsar_doctor.evidence.answers import HEALTHY, Probe
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.remedies.consumers import place
from pulsar_doctor.remedies.lines import admin, namespace_admin, watch

LOOK_SECONDS, LONGER_SECONDS = 60, 300
STILL = "if none of its numbers moves, it is this; if they move, it works"
MEANS = {
    "slow-but-progressing": "if its acknowledgements come, it is this; if nothing moves, it hangs",
    "redelivery-storm": "if messages are sent and the backlog stays, it is this",
    "broker-read-stuck": "if the read position stands while somebody has permits, it is this",
    "dispatch-throttled": "if the counters of throttled reads grow, it is this",
    "backlog-counter-wrong": "if nothing moves though nothing waits by positions, it is this",
    "no-consumer": "if still nobody is attached, it is this",
    "ack-hole": "if mark-delete stands while acknowledgements come, it is this",
    "exclusive-zombie": "if the older of the two stays silent, it is this",
    HEALTHY: "if messages go out or acknowledgements come, nothing is wrong",
}


def probe_of(view: SubscriptionView, code: str, each: ConsumerView | None) -> Probe:
    """What decides this suspect."""
    if code == "permit-leak":
        return _tap()
    if code == "blocked-on-unacked-consumer":
        line = namespace_admin(view, "get-max-unacked-messages-per-consumer")
        text = "Ask for the limit: if it holds so many messages, it is this; otherwise it is not."
        return Probe(text, line, 2)
    watched = view.watched_seconds or 0
    if watched >= LOOK_SECONDS and each is not None:
        return _process(each)
    if code in ("ack-hole", "holes-over-limit", "backlog-counter-wrong") and view.ranges is None:
        line = admin(view, "topics stats-internal")
        return Probe("Read the internal stats: they tell the positions.", line, 2)
    seconds = LOOK_SECONDS if watched < LOOK_SECONDS else LONGER_SECONDS
    means = MEANS.get(code, STILL)
    return Probe(f"Look again for {seconds} s: {means}.", watch(view, seconds), seconds)


def _process(each: ConsumerView) -> Probe:
    return Probe(
        f"Take a dump of the threads of the process {place(each)}: one that waits in the "
        "application's own code hangs there; one that waits for messages does not.",
        harmless=False,
    )


def _tap() -> Probe:
    return Probe(
        "Start the client behind a tap, when it may be restarted: the trace shows each FLOW, and "
        "what is owed.",
        "pulsar-doctor tap",
        harmless=False,
    )
