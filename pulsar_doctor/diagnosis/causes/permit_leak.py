"""The client has lost permits, and no FLOW will bring them back.

You see, in a trace: the application took 10 messages or more, a FLOW was due after 5, and none has
come for 60 s. `availablePermits` gets to 0.

For each message that the application takes, its client owes the broker one permit. It sends them in
one FLOW when it owes as many as the `refill threshold`. If it owes more and sends none, it has lost
count: of discarded, corrupt or chunked messages, for example. Each loss makes the queue smaller.

The trace proves what is owed: an acknowledged message was taken before, and so was everything that
came before it; less the permits of all refills. It is found with one permit more than the
threshold, if the last FLOW is older than `overdue`: a stall if no permit is left and nothing has
come or gone for so long, else a warning. Indexes that were skipped inside batches do not count, as
not every client credits them. A paused Java consumer sends no FLOW either. So it, and a client that
reports no version, is unknown for `paused_for`, and then less certain. Queues of 0 or 1 are not
judged.

Source: ConsumerBase.increaseAvailablePermits and ConsumerImpl.pause in the Java client,
ConsumerImpl::increaseAvailablePermits in the C++ client; apache/pulsar issue 26675 (chunks).
"""

from __future__ import annotations

from pulsar_doctor.diagnosis.actions.consumers import anew
from pulsar_doctor.diagnosis.actions.processes import place
from pulsar_doctor.diagnosis.answers import Answers, Finding, Probe, Severity, Unknown
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.observing import worded
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.measures import WIRE
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import least, most
from pulsar_doctor.ledger.clients import clients_of
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import fill, say

THRESHOLDS = (
    Threshold(
        "overdue", 30.0, "seconds", "a FLOW that has not arrived after this time will not arrive"
    ),
    Threshold("paused_for", 300.0, "seconds", "a Java consumer is not paused for longer"),
)
NEEDS = frozenset({WIRE})
SYMPTOM = "nothing comes"
BY_SILENCE = True
EXPLAINS = frozenset({"permits-exhausted", "slow-but-progressing", "negative-permits"})
REMEDY = (
    "If it is paused, resume it; if its application does not call receive (queue size 0), find out "
    "why. Otherwise restart this consumer, which then asks anew. Update its client, and if it "
    "happens again, report the trace to that client's project."
)
SUMMARY = (
    "{label} has taken at least {owed:messages} and has not asked for others in their place: a "
    "FLOW was due at {refill_threshold} and none has arrived for {waited}; {permits:permits} "
    "are left"
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for each consumer that owes more than a FLOW's worth and sends none."""
    for consumer in view.consumers or ():
        yield from _judge(view, consumer, limits)


def _judge(view: SubscriptionView, consumer: ConsumerView, limits: Limits) -> Answers:
    owed, threshold, since = (
        least(consumer.permits_owed),
        consumer.refill_threshold,
        consumer.since_last_flow,
    )
    if owed is None or threshold is None or owed <= threshold or since is None:
        return
    if since.seconds < limits["overdue"]:
        return
    if not _may_pause(consumer):
        yield _finding(view, consumer, _severity(consumer, limits), 0.85)
    elif since.seconds >= limits["paused_for"]:
        yield _finding(view, consumer, _severity(consumer, limits), 0.6)
    else:
        text = "{}, but none has come for {}: is it paused? A paused Java consumer looks the same"
        yield Unknown(say(text, worded("owes_flow", consumer), since), consumer.label)


def _may_pause(consumer: ConsumerView) -> bool:
    version = consumer.client_version
    return version is None or any(each.pauses for each in clients_of(version))


def _severity(consumer: ConsumerView, limits: Limits) -> Severity:
    still = consumer.without_permits and consumer.quiet_at_least(limits["overdue"])
    return "stalled" if still else "warning"


def _finding(
    view: SubscriptionView, consumer: ConsumerView, severity: Severity, confidence: float
) -> Finding:
    owed, waited = (
        least(consumer.permits_owed),
        consumer.since_last_flow.seconds if consumer.since_last_flow else 0.0,
    )
    return Finding(
        severity=severity,
        confidence=confidence,
        consumer=consumer.label,
        summary=fill(
            SUMMARY,
            consumer,
            owed=owed,
            waited=duration(waited),
            permits=most(consumer.available_permits),
        ),
        evidence=(
            *consumer.measure("permits_owed", "refill_threshold", "permits_refilled"),
            *consumer.measures(),
        ),
        actions=anew(view, consumer),
    )


def _alike(view: SubscriptionView, each: ConsumerView) -> str | None:
    """A pause, where its client sends no FLOW during one, or a queue of 0 between two receives.

    Nobody can tell them apart unless somebody has looked into the process.
    """
    if each.inside is not None and each.inside.paused is not None:
        return None
    if _may_pause(each):
        return "paused"
    return "nobody-receives" if each.holds_nothing and each.without_permits else None


def _probe(view: SubscriptionView, consumer: ConsumerView | None) -> Probe:
    """Examines its process, on its machine; a tap needs a restart, which hides a pause."""
    tap = (
        "`pulsar-doctor tap --listen 127.0.0.1:6651 --trace DIR -- CMD` starts it, and shows each "
        "FLOW and what permits are owed"
    )
    if consumer is None or consumer.address is None:
        return Probe(f"When the client may be restarted: {tap}.", harmless=False)
    return Probe(
        f"Find out {place(consumer)} whether the consumer is paused, and whether its application "
        "calls receive: on that machine `pulsar-doctor examine PID --attach` shows both, which a "
        f"restart would hide. If the client has to be restarted: {tap}.",
        harmless=False,
    )


HYPOTHESIS = Hypothesis(
    "{who} requests no more messages: it is paused, nobody calls receive (queue size 0), or its "
    "client has lost permits",
    speaks_for=(
        "undecided", "owes_flow", "no_permits", "empty_handed", "has_acked", "waits", "quiet_long",
    ),
    against=(
        "owes_little", "holds_many", "lively", "one_flow", "never_acked_many", "flag_blocked",
        "works", "acks_come",
    ),
    not_by=("never_asked", "holds_requested", "owes_few", "has_permits"),
    missing=("permits_owed",),
    alike=_alike,
    probe=_probe,
)  # fmt: skip
