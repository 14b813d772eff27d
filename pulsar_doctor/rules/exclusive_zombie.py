"""A consumer is still listed whose application seems to be gone, and it keeps messages from others.

When a machine dies without closing its connection, the broker goes on listing the consumer until
the connection has not answered for a while (keepAliveIntervalSeconds, checked twice: 30 to 60 s).
Its messages, its keys, or its place as the active consumer are kept for it meanwhile.

Stats cannot prove that. It is a suspicion where two consumers have the same name, on different
connections, and the older one has neither acknowledged nor asked for anything since before the
newer one connected, for `silent_for` at least, while it holds messages: a restarted application
beside its dead predecessor. Names that clients make up never repeat; a name that was configured
twice does, and then both work, or the older one has nothing to do. Where others wait behind it (its
key hashes drain, or it is the active consumer of Failover with no permits) it is a stall, otherwise
a warning.

An Exclusive subscription lists one consumer at most: there a zombie and a hung application look
the same, and nothing is guessed.

Source: PulsarHandler's keep-alive and AbstractDispatcherSingleActiveConsumer.addConsumer
(checkConnectionLiveness) in the broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pulsar_doctor.diagnosis import (
    STATS,
    Evidence,
    Finding,
    Limits,
    Measure,
    Outcome,
    Threshold,
    Unknown,
    backlog_measure,
    found,
)
from pulsar_doctor.durations import duration
from pulsar_doctor.standing import Standing, standings
from pulsar_doctor.stats.observed import Observed
from pulsar_doctor.stats.topic import ConsumerStats

SEVERAL = frozenset({"Shared", "Key_Shared", "Failover"})

THRESHOLDS = (
    Threshold("silent_for", 10.0, "seconds", "a consumer silent for less is not suspected"),
)
NEEDS = frozenset({STATS})
# Not permits-exhausted, which is surer than a suspicion and stands beside it.
EXPLAINS = frozenset({"inactive-failover", "key-shared-blocked", "not-acknowledging"})
REMEDY = (
    "See whether the process at this address still runs: if it does, it hangs, so restart it; if "
    "not, the broker drops it when keepAliveIntervalSeconds has passed twice, or at once when the "
    "topic is unloaded (pulsar-admin topics unload)."
)


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found for a consumer that seems to be dead beside its successor; never surer than 0.5."""
    observed = evidence.stats
    assert observed is not None
    if observed.type not in SEVERAL:
        return found(())
    everybody = standings(observed)
    return found(
        answer
        for older in everybody
        for newer in _successors(older, everybody)
        for answer in _judge(older, newer, limits)
    )


def _successors(older: Standing, everybody: Sequence[Standing]) -> Iterator[Standing]:
    """The next consumer of the same name that connected later, on another connection."""
    since, name = older.now.connected_since_ms, older.now.consumer_name
    later = [
        (connected, standing.number, standing)
        for standing in everybody
        if name and since is not None and standing.now.consumer_name == name
        if (connected := standing.now.connected_since_ms) is not None and connected > since
    ]
    if later:
        yield min(later)[2]


def _judge(older: Standing, newer: Standing, limits: Limits) -> Iterator[Finding | Unknown]:
    silence, came = older.without_work, newer.now.connected_since_ms
    last = _last_sign(older.now)
    if came is None or last is None or last >= came or older.granted:
        return
    if not _holds(older, newer) or _connection_works(older, came):
        return
    if not _flow_is_told(older.now):
        yield Unknown(
            f"two consumers are called {older.label}; whether the older one still asks for "
            "messages is not told by these stats",
            older.label,
        )
    elif silence is not None and silence.ms >= limits["silent_for"] * 1000:
        yield _finding(older, newer)
    elif silence is None or not silence.exact:
        yield Unknown(
            f"two consumers are called {older.label}; for how long the older one has been silent "
            "is not told",
            older.label,
        )


def _last_sign(consumer: ConsumerStats) -> int | None:
    """When it last acknowledged, asked for more or connected."""
    signs = (
        consumer.last_acked_timestamp_ms,
        consumer.last_consumed_flow_timestamp_ms,
        consumer.connected_since_ms,
    )
    return max((moment for moment in signs if moment is not None), default=None)


def _flow_is_told(consumer: ConsumerStats) -> bool:
    name = "last_consumed_flow_timestamp_ms"
    return consumer.last_consumed_flow_timestamp_ms is not None or name in consumer.never


def _holds(older: Standing, newer: Standing) -> bool:
    """Whether messages are kept for the older one."""
    observed = older.observed
    if observed.type == "Failover":
        return _is_active(older, newer) and _something_is_held(observed)
    return (older.unacked or 0) > 0


def _is_active(older: Standing, newer: Standing) -> bool:
    """Of two of one name only one is active: the one that messages were sent to."""
    name = older.observed.now.active_consumer_name
    sent = (older.now.msg_out_counter or 0) > 0
    return name == older.now.consumer_name and sent and newer.now.msg_out_counter == 0


def _something_is_held(observed: Observed) -> bool:
    held = observed.held
    return observed.backlog.empty is False and (held is None or held.most > 0)


def _connection_works(older: Standing, since_ms: int) -> bool:
    """Whether a consumer on its connection, maybe the newer one, has shown life since then."""
    topic = older.observed.window.last.topic
    return any(
        consumer.address == older.now.address and (_last_sign(consumer) or 0) >= since_ms
        for subscription in (topic.subscriptions or {}).values()
        for consumer in subscription.consumers or ()
        if consumer.address is not None
    )


def _stands_in_the_way(older: Standing) -> bool:
    if older.observed.type == "Failover":
        return (older.permits or 0) <= 0
    hashes = older.now.draining_hashes or ()
    return any((each.unack_msgs or 0) > 0 and (each.blocked_attempts or 0) > 0 for each in hashes)


def _finding(older: Standing, newer: Standing) -> Finding:
    blocks, silence = _stands_in_the_way(older), older.without_work
    assert silence is not None
    after = (newer.now.connected_since_ms or 0) - (older.now.connected_since_ms or 0)
    holds = f"holds {older.unacked} unacknowledged messages"
    if older.unacked is None:
        holds = "is the active one"
    return Finding(
        code="exclusive-zombie",
        severity="stalled" if blocks else "warning",
        confidence=0.5 if blocks else 0.3,
        consumer=older.label,
        summary=(
            f"a suspicion: {older.label} at {older.now.address or 'an address that is not told'} "
            f"{holds} and has been silent for {silence}; a consumer of the same name came "
            f"{duration(after / 1000)} after it on another connection"
        ),
        evidence=(
            Measure("address", older.now.address, ""),
            Measure("connected_since", older.now.connected_since, ""),
            Measure("successor_connected_since", newer.now.connected_since, ""),
            Measure("available_permits", older.permits, "permits"),
            Measure("unacked_messages", older.unacked, "messages"),
            backlog_measure(older.observed),
            Measure("silent_for", silence.ms / 1000, "seconds"),
        ),
        remedy=REMEDY,
    )
