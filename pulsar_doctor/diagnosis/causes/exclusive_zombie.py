"""A consumer is still listed although its application seems dead, and blocks messages.

You see: two consumers called `billing` on different connections. The older one has
`unackedMessages` above 0, or is the active one, and has shown no ack or FLOW since the newer one
came.

If a machine dies without closing its connection, the broker keeps its consumer until the connection
has not answered for a while (keepAliveIntervalSeconds, checked twice: 30 to 60 s). It keeps the
messages, the keys, or the place as active consumer for it meanwhile.

The statistics cannot prove that. The older of two namesakes is suspected if it holds messages and
has been silent for `silent_for`. If the newer one connected more than `dropped_after` ago, the
older one's client has answered since: it lives, and two have one name. It is a stall if others wait
behind it (its key hashes drain, or it is Failover's active consumer without permits), otherwise a
warning. Names that clients generate never repeat, configured ones do: on Shared, two that connected
within 2 s are not suspected. Exclusive lists one consumer at most, where a zombie and a hung
application look the same; nothing is guessed there. A consumer with a live connection in an
examined process is no zombie.

Source: PulsarHandler's keep-alive and AbstractDispatcherSingleActiveConsumer.addConsumer
(checkConnectionLiveness) in the broker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.diagnosis.actions.consumers import dump_threads, restart, unload
from pulsar_doctor.diagnosis.answers import Answers, Finding, Unknown
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.measures import STATS, WIRE, Measure
from pulsar_doctor.evidence.numbers import measured
from pulsar_doctor.evidence.subscription import SubscriptionView, backlog_measure
from pulsar_doctor.evidence.values import exact, least, most
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import fill, say

TOGETHER_SECONDS = 2.0  # no application dies and starts again in less
SEVERAL = frozenset({"Shared", "Key_Shared", "Failover"})

DROPPED_AFTER = Threshold(
    "dropped_after",
    60.0,
    "seconds",
    "the broker has dropped a dead client by then: twice its keepAliveIntervalSeconds",
)
THRESHOLDS = (
    Threshold(
        "silent_for", 10.0, "seconds", "a consumer that was silent for less is not suspected"
    ),
    DROPPED_AFTER,
)
NEEDS = frozenset({STATS, WIRE})
SYMPTOM = "nothing comes"
# Not permits-exhausted, which is surer than a suspicion and is reported beside it.
EXPLAINS = frozenset({"inactive-failover", "key-shared-blocked", "not-acknowledging"})
REMEDY = (
    "Check whether the process at this address still runs. If it does, it hangs: restart it. If "
    "not, the broker drops its consumer after twice keepAliveIntervalSeconds, or at once when the "
    "topic is unloaded (pulsar-admin topics unload)."
)
SUMMARY = (
    "{name} may be dead although it is still listed: the one at {address} {holds} and has been"
    " silent for {silence}, and {seconds} later a consumer of the same name connected from "
    "another connection"
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for a consumer that seems to be dead beside its successor; never surer than 0.5."""
    if view.type not in SEVERAL:
        return
    everybody = view.consumers or ()
    namesakes: dict[str | None, list[ConsumerView]] = {}
    for each in everybody:
        namesakes.setdefault(each.name, []).append(each)
    for older in everybody:
        if older.inside is not None and older.inside.connected:
            continue  # its process lives, and holds the connection
        for newer in _successors(older, namesakes[older.name] if older.name else ()):
            yield from _judge(view, older, newer, limits)


def _successors(older: ConsumerView, namesakes: Sequence[ConsumerView]) -> Iterator[ConsumerView]:
    """The next consumer of the same name that connected later, on another connection."""
    since = older.connected_for
    later = [
        (-each.connected_for.ms, each.number, each)
        for each in namesakes
        if since is not None and each.connected_for is not None and each.connected_for.ms < since.ms
    ]
    if later:
        yield min(later)[2]


def _judge(
    view: SubscriptionView, older: ConsumerView, newer: ConsumerView, limits: Limits
) -> Answers:
    silence, came, last = older.since_work, newer.connected_for, older.last_sign
    if came is None or last is None or last.ms <= came.ms or older.sent_flow:
        return
    if came.seconds > limits["dropped_after"]:
        return  # it has answered the broker since
    if view.type == "Shared" and _together(older, came):
        return  # one name for two, and nobody waits behind either
    if not _holds(view, older, newer) or _connection_works(older, came.ms):
        return
    if not older.flow_reported:
        yield Unknown(
            f"two consumers are called {older.name}; these stats do not show whether the older "
            "one still asks for messages",
            older.label,
        )
    elif silence is not None and silence.seconds >= limits["silent_for"]:
        yield _finding(view, older, newer)
    elif silence is None or not silence.exact:
        yield Unknown(
            f"two consumers are called {older.name}; for how long the older one has been silent "
            "is not known",
            older.label,
        )


def _together(older: ConsumerView, came: Age) -> bool:
    """Whether both connected at once. came: when the newer one did."""
    since = older.connected_for
    return since is None or since.seconds - came.seconds < TOGETHER_SECONDS


def _holds(view: SubscriptionView, older: ConsumerView, newer: ConsumerView) -> bool:
    """Whether messages are kept for the older one."""
    if view.type == "Failover":
        return _is_active(older, newer) and _something_is_held(view, older)
    return (least(older.unacked_messages) or 0) > 0


def _is_active(older: ConsumerView, newer: ConsumerView) -> bool:
    """Whether the consumer is active: of two with one name, the one that messages were sent to."""
    return (
        bool(older.active)
        and (least(older.msg_out_counter) or 0) > 0
        and most(newer.msg_out_counter) == 0
    )


def _something_is_held(view: SubscriptionView, older: ConsumerView) -> bool:
    if view.backlog is not None and view.backlog.empty is not False:
        return False
    return most(older.unacked_entries) != 0 and not older.holds_nothing


def _connection_works(older: ConsumerView, since_ms: int) -> bool:
    """Whether a consumer on its connection, maybe the newer one, has shown life since then."""
    sign = older.connection_sign
    return sign is not None and sign.ms <= since_ms


def _blocks(view: SubscriptionView, older: ConsumerView) -> bool:
    if view.type == "Failover":
        return (most(older.available_permits) or 0) <= 0
    return older.keys_wait


def _finding(view: SubscriptionView, older: ConsumerView, newer: ConsumerView) -> Finding:
    blocks, silence = _blocks(view, older), older.since_work
    assert silence is not None
    assert older.connected_for is not None
    assert newer.connected_for is not None
    after = older.connected_for.seconds - newer.connected_for.seconds
    held = exact(older.unacked_messages)
    active = view.type == "Failover"
    holds = "is the active one" if active else say("holds {:unacknowledged messages}", held)
    return Finding(
        severity="stalled" if blocks else "warning",
        confidence=0.5 if blocks else 0.3,
        consumer=older.label,
        summary=fill(
            SUMMARY,
            older,
            address=(older.address or "an address that is not reported").lstrip("/"),
            holds=holds,
            silence=silence,
            seconds=duration(after),
        ),
        evidence=(
            *older.measure("address", "connected_since"),
            Measure("successor_connected_since", newer.connected_since, ""),
            *older.measure("available_permits"),
            measured("unacked_messages", held),
            backlog_measure(view),
            measured("since_work", silence),
        ),
        actions=(
            dump_threads(view, older),
            restart(view, older),
            unload(view, "If that process is gone, unload"),
        ),
    )


def _excluded(view: SubscriptionView) -> str | None:
    """No second consumer that could be the newer one of somebody who is served."""
    names = Counter(each.name for each in view.consumers or ())
    if None in names or not view.served or any(names[each.name] > 1 for each in view.served):
        return None
    return "no two consumers have the same name"


HYPOTHESIS = Hypothesis(
    "{who} seems to be dead and still blocks its place or its messages",
    speaks_for=("undecided", "namesake", "neighbour_later", "quiet_long", "still"),
    against=("acks_come",),
    excluded=(_excluded,),
    confirmed="if the older of the two stays silent, this is the cause",
)
