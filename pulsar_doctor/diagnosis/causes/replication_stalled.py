"""Entries wait for a remote cluster, and the replicator does not send them.

You see: `replicationBacklog` 4019, `connected` false, `msgRateOut` 0 of the replicator.

For each remote cluster the broker keeps a cursor, which moves when the other side has confirmed
what was sent. Until then the other cluster lacks these messages, and every ledger from there on
stays on disk. Nothing else shows it: producers and consumers of this cluster continue.

It is a stall if entries wait and the replicator is not connected, in every sample, or in one while
`msgRateOut` is 0. It is a stall, too, if a connected replicator has sent nothing for `still_for`
nor in the broker's last full minute, while entries waited in every sample. One of these alone is a
warning, as a replicator may reconnect or be slow for a moment. One sample that does not show
whether they are sent is unknown. So is a long window that shows it only for its beginning. In topic
stats a replicator has no name; it is called by the default name of its cursor.

Source: PersistentReplicator.computeStats and isConnected, AbstractReplicator in the broker.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.broker.stats.cursors import REPLICATOR
from pulsar_doctor.broker.stats.window import RATE_SECONDS
from pulsar_doctor.diagnosis.actions.commands import (
    admin,
    cluster_admin,
    namespace_admin,
    subscription_admin,
)
from pulsar_doctor.diagnosis.actions.commands import check as check_line
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding, Severity, Unknown
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.broker_counts import OwnCursor
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import say

THRESHOLDS = (Threshold("still_for", 5.0, "seconds", "a replicator may stand still for less"),)
NEEDS = frozenset({STATS})
SYMPTOM = "nothing comes"
REMEDY = (
    "Check whether the brokers can reach the remote cluster under its configured address, and "
    "whether it accepts messages. If nothing should be replicated there any more, remove it from "
    "the replication clusters."
)
MOVES = "healthy, and the replication backlog falls"


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where entries wait for a replicator that does not send them."""
    own = view.own
    if own is None or own.kind != REPLICATOR or own.waiting == 0:
        return
    severity = _apart(own) or _still(own, limits["still_for"])
    if severity is not None and own.waiting is not None:
        yield _finding(view, own, severity)
    elif own.waiting is None:
        why = "it is not connected" if own.connected is False else "give the stats of the topic"
        yield Unknown(f"the replicator to {own.of} reports no backlog: {why}")
    elif not own.msg_rate_out and (own.moved is None or _may_have_ended(own)):
        yield Unknown(
            f"{own.waiting} entries wait for {own.of}; a sample some seconds later shows whether "
            "the replicator sends them"
        )


def _apart(own: OwnCursor) -> Severity | None:
    """Answers for a replicator that is not connected."""
    if own.connected is not False or (own.moved and not _may_have_ended(own)):
        return None
    several = own.watched_seconds is not None
    lasts = own.apart_throughout if several else own.msg_rate_out == 0
    return "stalled" if lasts else "warning"


def _still(own: OwnCursor, still_for: float) -> Severity | None:
    """Answers for a replicator that is connected, or for which that is not reported."""
    if own.moved is not False or not own.waits_throughout or own.msg_rate_out:
        return None
    if own.watched_seconds is None or own.watched_seconds < still_for:
        return None
    return "warning" if own.msg_rate_out is None else "stalled"


def _may_have_ended(own: OwnCursor) -> bool:
    """Whether what moved may have done so before the full minute in which nothing was sent."""
    return own.msg_rate_out == 0 and (own.watched_seconds or 0) > RATE_SECONDS


def _finding(view: SubscriptionView, own: OwnCursor, severity: Severity) -> Finding:
    return Finding(
        severity=severity,
        confidence=0.9 if severity == "stalled" else 0.6,
        summary=_summary(own),
        evidence=(
            Measure("replication_backlog", own.waiting, "entries"),
            Measure("connected", None if own.connected is None else str(own.connected).lower(), ""),
            Measure("msg_rate_out", own.msg_rate_out, "messages/second"),
            Measure("still_for", own.watched_seconds, "seconds", "at least"),
            Measure("mark_delete_position", own.position, ""),
        ),
        actions=tuple(_actions(view, own)),
    )


def _summary(own: OwnCursor) -> str:
    why = "the replicator is not connected"
    if own.connected is not False:
        why = say("nothing was sent in {}", duration(own.watched_seconds or 0))
    entries = say("{:entry} waits" if own.waiting == 1 else "{:entries} wait", own.waiting)
    keeps = own.position and say("; all ledgers from {} on stay on disk", own.position)
    return say(
        "{} for the cluster {}, and {}: they do not arrive there{}",
        *(entries, own.of, why, keeps or ""),
    )


def _actions(view: SubscriptionView, own: OwnCursor) -> Iterator[Action]:
    of = own.of or ""
    yield Action(
        "now",
        "Check the address that this cluster has for the other one, and whether a broker's host "
        "can connect to it. If not, the broker's log says why.",
        command=cluster_admin("get", of),
        check=check_line(view, MOVES),
    )
    yield Action(
        "now",
        "Check on the other cluster whether its copy of the topic accepts messages: a backlog "
        "quota, a missing permission or a fenced topic refuses them.",
        check=check_line(view, MOVES),
    )
    yield Action(
        "now",
        "If the other cluster can be reached, unload the topic: its replicators reconnect.",
        command=admin(view, "topics unload"),
        side_effect="all its consumers and producers are disconnected and reconnect; "
        "unacknowledged messages are delivered again",
        check=check_line(view, MOVES),
    )
    yield Action(
        "today",
        "If nothing should be replicated there any more, remove that cluster from the namespace's "
        "replication clusters: this removes the cursor too.",
        command=namespace_admin(view, "get-clusters"),
        side_effect="the waiting messages never arrive there",
    )
    yield Action(
        "later",
        "This deletes the waiting messages for that cluster only: use it if they are not needed "
        "there.",
        command=subscription_admin(view, "topics clear-backlog"),
        side_effect="the other cluster never gets these messages",
        check=check_line(view, MOVES),
    )


HYPOTHESIS = Hypothesis(
    "entries wait for the other cluster, and the replicator does not send them",
    speaks_for=("undecided", "apart"),
    found_at_once=True,
    if_undecided=True,
    confirmed="if its mark-delete position does not move while entries wait, this is the cause",
)
