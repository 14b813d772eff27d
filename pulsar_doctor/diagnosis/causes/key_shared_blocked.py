"""Messages of a key wait until the key's previous consumer has acknowledged.

You see: `drainingHashes` of one consumer with `unackMsgs` and `blockedAttempts` (46 and 89 in all),
and `msgInReplay` 115, while another consumer with permits gets nothing.

Key_Shared keeps the order of a key. When a consumer joins or leaves, keys change their owner, and
the new owner gets a key's messages only when the earlier one has acknowledged all that it holds of
it. This takes moments, unless the earlier owner hangs. Before 4.0, and with the classic dispatcher,
a consumer that joined gets nothing until mark-delete has passed the position at which it joined.
Neither applies if out-of-order delivery is allowed. From 4.0 on the broker also reads no further
while too many entries wait for consumers without permits, and the others wait as well.

It is a stall if the awaited consumer has acknowledged nothing for `refill_wait`, or for half a
minute and ten times the longest gap of the window. Until then it is a warning that leaves the
verdict unknown: it may have one long job in hand. If it works, and what it holds is done within
`slow_wait`, that is healthy, otherwise a warning. What was sent or acknowledged less than
`just_now` ago decides nothing yet.

The broker gives a hash to its new owner when all its messages are acknowledged: one that is left
out keeps it, however fast its consumer acknowledges others. If a hash drains in every sample,
nobody held anything else in one of them, and acks have passed the message after mark-delete for
`refill_wait`, it is a stall; for longer than `slow_wait`, unknown.

With sticky ranges (KeySharedMode STICKY) each consumer chooses its hashes, and messages wait for a
hash that nobody has. It is a stall if in every sample entries wait to be sent again and all
consumers could receive. From 4.0 on one sample proves it, as the broker lists the ranges.

Source: DrainingHashesTracker and PersistentStickyKeyDispatcherMultipleConsumers; PIP-379; before,
getRestrictedMaxEntriesForConsumer of the latter, and PIP-282.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pulsar_doctor.diagnosis.actions.activity import verdict
from pulsar_doctor.diagnosis.actions.consumers import NO_MORE, dump_threads, restart, treatment
from pulsar_doctor.diagnosis.actions.sentence import remedy
from pulsar_doctor.diagnosis.answers import (
    Answers,
    CauseAnswer,
    Finding,
    NotReported,
    Severity,
    Unknown,
)
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.key_waits import (
    between_deliveries,
    by_ranges,
    left_out_for,
)
from pulsar_doctor.diagnosis.look_ahead import for_so_long, look_ahead, with_look_ahead
from pulsar_doctor.diagnosis.release import release_verdict
from pulsar_doctor.diagnosis.thresholds import JUST_NOW, PAUSE_SECONDS, Limits, Threshold
from pulsar_doctor.evidence.ack_wait import AckWait
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.keys import Draining, KeyOrder
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.numbers import measured
from pulsar_doctor.evidence.subscription import SubscriptionView, backlog_measure
from pulsar_doctor.evidence.values import exact, least
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import listed
from pulsar_doctor.wording.sentences import say

THRESHOLDS = (
    Threshold(
        "refill_wait", 300.0, "seconds", "without an ack for this long it is a stall in any case"
    ),
    Threshold(
        "slow_wait", 30.0, "seconds", "a hand-over that takes no longer than this is healthy"
    ),
    JUST_NOW,
)
NEEDS = frozenset({STATS})
SYMPTOM = "nothing comes"
BY_SILENCE = True
EXPLAINS = frozenset({"permits-exhausted", "slow-but-progressing", "not-acknowledging", "ack-hole"})
CHECK = NO_MORE


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for the consumer with the awaited acks."""
    keys, consumers = view.key_order, view.consumers
    if keys is not None and keys.sticky:
        yield from by_ranges(view, keys, limits)
    if keys is None or keys.out_of_order:
        return
    if consumers is None:
        yield Unknown("the subscription's consumers are not reported")
    elif keys.joined:
        yield from _by_joining(view, keys, limits)
    else:
        for consumer in consumers:
            yield from _by_hashes(view, consumer, limits)
        if not keys.draining:
            yield from _by_look_ahead(view, limits)


def _by_hashes(view: SubscriptionView, consumer: ConsumerView, limits: Limits) -> Answers:
    draining = consumer.draining_hashes
    if draining is None:
        yield from _without_any(view)
    elif draining.hashes is None:
        yield Unknown(f"the draining hashes of {consumer.label} are not reported", consumer.label)
    # Messages wait: they are in replay, or more were turned away in the window.
    elif not draining.hashes or not (exact(view.replay) != 0 or draining.lately):
        return
    elif draining.entries is None:
        yield Unknown(f"what the draining hashes of {consumer.label} hold is not reported")
    else:
        shown_by = (_hash_summary(view, consumer, draining), _hashes(draining))
        by_pace = tuple(_judge(view, consumer, limits, shown_by))
        left_out = left_out_for(view, consumer)
        if left_out <= limits["slow_wait"] or any(isinstance(each, Finding) for each in by_pace):
            yield from by_pace
        else:
            yield _left_out(view, consumer, left_out, left_out >= limits["refill_wait"], shown_by)


def _left_out(
    view: SubscriptionView,
    consumer: ConsumerView,
    seconds: float,
    long: bool,
    shown_by: tuple[str, tuple[Measure, ...]],
) -> CauseAnswer:
    """It acknowledges others, and what is left of a key for so long is not in its pace."""
    lasts = duration(seconds)
    summary = say("{}; its oldest for at least {} while later ones were", shown_by[0], lasts)
    if not long:
        return Unknown(f"{summary}: check again", consumer.label)
    found = _finding(view, consumer, AckWait(1, consumer.acks), "stalled", shown_by)
    actions = (restart(view, consumer), dump_threads(view, consumer))
    numbers = (*found.evidence, Measure("left_out_for", round(seconds, 1), "seconds"))
    return replace(
        found,
        summary=say("{}; it forgot to acknowledge, or hangs in that message", summary),
        evidence=tuple(each for each in numbers if each.name not in ("done_in", "quiet_for")),
        remedy=actions[0].text,
        actions=actions,
    )


def _without_any(view: SubscriptionView) -> Answers:
    """Answers for a source that knows neither way of showing who waits for whom."""
    if view.key_order is None or view.key_order.joined is None:
        yield NotReported(
            "these stats have neither draining hashes nor the positions at which consumers joined"
        )


def _by_look_ahead(view: SubscriptionView, limits: Limits) -> Answers:
    for used_up in look_ahead(view):
        if isinstance(used_up, Unknown):
            yield used_up
            return
        numbers = (Measure("unread_entries", used_up.unread, "entries", "at least"),)
        shown_by = (used_up.summary, numbers)
        for answer in _judge(view, used_up.behind[0], limits, shown_by, used_up.share):
            yield with_look_ahead(view, used_up, answer)


def _judge(
    view: SubscriptionView,
    consumer: ConsumerView,
    limits: Limits,
    shown_by: tuple[str, tuple[Measure, ...]],
    more: int = 0,
) -> Answers:
    """Judges the consumer with the awaited acks. shown_by: the summary without its end, and
    numbers.

    more: entries that it has to take beside what it holds.
    """
    held = exact(consumer.unacked_messages)
    if held is None:
        yield Unknown(f"unacked_messages of {consumer.label} is not reported", consumer.label)
        return
    wait = between_deliveries(view, consumer, consumer.acks.until(max(1, held + more)))
    never = wait.acks.never and not consumer.works
    verdict = release_verdict(wait, limits, held if never else None)
    if isinstance(verdict, Unknown):
        yield Unknown(f"{shown_by[0]}; {verdict.reason}", consumer.label)
    elif verdict is not None:
        lately = wait.acks.quiet is None or wait.acks.quiet.seconds < limits["refill_wait"]
        severity = "warning" if wait.seconds is not None and lately else verdict
        yield _finding(view, consumer, wait, severity, shown_by)


def _by_joining(view: SubscriptionView, keys: KeyOrder, limits: Limits) -> Answers:
    consumers = view.consumers or ()
    waiting = [consumer for consumer in consumers if _is_held_back(consumer)]
    names = {consumer.name for consumer in waiting}
    if not waiting or _nothing_left(view) or keys.advanced:
        return
    holding = [c for c in consumers if c.name not in names and not c.holds_nothing]
    if not holding:
        yield Unknown(
            f"{waiting[0].label} waits for mark-delete, and no earlier consumer holds messages"
        )
    elif not _something_left(view):
        yield Unknown(f"whether anything is left to send to {waiting[0].label} is not reported")
    else:
        culprit = max(holding, key=for_so_long)
        summary = _joining_summary(culprit, waiting)
        yield from _judge(view, culprit, limits, (summary, _positions(keys, waiting)))


def _is_held_back(consumer: ConsumerView) -> bool:
    """Whether it could be sent messages but for the position at which it joined."""
    if (
        consumer.waits_from is None
        or consumer.delivered
        or consumer.blocked_consumer_on_unacked_msgs
    ):
        return False
    permits = least(consumer.available_permits)
    return permits is None or permits > 0


def _nothing_left(view: SubscriptionView) -> bool:
    return view.nothing_left or (view.backlog is not None and view.backlog.empty is True)


def _something_left(view: SubscriptionView) -> bool:
    held, entries = exact(view.unacked), view.backlog.entries if view.backlog else None
    if exact(view.replay) or (view.left is not None and (view.left.least or 0) > 0):
        return True
    # Brokers that do not tell msg_in_replay: the backlog that is due and not held waits there.
    if entries is None or held is None:
        return False
    return entries - (exact(view.delayed) or 0) > max(0, held)


def _hash_summary(view: SubscriptionView, consumer: ConsumerView, draining: Draining) -> str:
    waiting, one = exact(view.replay), draining.hashes == 1
    keys = say("{:key hash} that belongs" if one else "{:key hashes} that belong", draining.hashes)
    behind = "" if not waiting else say("; {:entries} wait to be sent", waiting)
    return say(
        "{} has not acknowledged {:entries} of {} to other consumers now, so these keys wait{}",
        *(consumer.label, draining.entries, keys, behind),
    )


def _hashes(draining: Draining) -> tuple[Measure, ...]:
    return (
        Measure("draining_hashes", draining.hashes, "hashes"),
        Measure("unack_msgs", draining.entries, "entries"),
        Measure("blocked_attempts", draining.attempts, "attempts"),
    )


def _joining_summary(culprit: ConsumerView, waiting: Sequence[ConsumerView]) -> str:
    names = listed([consumer.label for consumer in waiting])
    return say(
        "{} {} nothing until what {} held before is acknowledged (it holds {:messages}; mark-delete"
        " has to reach {})",
        *(names, "gets" if len(waiting) == 1 else "get", culprit.label),
        *(exact(culprit.unacked_messages), waiting[0].waits_from),
    )


def _positions(keys: KeyOrder, waiting: Sequence[ConsumerView]) -> tuple[Measure, ...]:
    return (
        Measure("consumers_after_mark_delete_position", len(waiting), "consumers"),
        Measure("position_when_joining", waiting[0].waits_from, ""),
        Measure("mark_delete_position", keys.mark_delete, ""),
    )


def _finding(
    view: SubscriptionView,
    consumer: ConsumerView,
    wait: AckWait,
    severity: Severity,
    shown_by: tuple[str, tuple[Measure, ...]],
) -> Finding:
    (summary, numbers), quiet = shown_by, wait.acks.quiet
    end = say("its acks: {}; {}", wait.silence, verdict(consumer))
    if wait.seconds is not None:
        ago = say(" (last ack or message {} ago)", quiet) if quiet else ""
        end = say("at its pace that takes up to {}{}", duration(wait.seconds), ago)
    return Finding(
        severity=severity,
        confidence=0.85 if view.watched else 0.65,
        consumer=consumer.label,
        summary=say("{}; {}", summary, end),
        evidence=(
            *numbers,
            *consumer.measure("unacked_messages"),
            Measure("msg_in_replay", exact(view.replay), "entries"),
            backlog_measure(view),
            Measure("done_in", wait.seconds, "seconds"),
            measured("quiet_for", quiet),
        ),
        remedy=remedy(view, consumer),
        actions=treatment(view, consumer),
    )


def _hands_over(view: SubscriptionView, each: ConsumerView) -> str | None:
    """Whether the consumer's keys wait only for what it holds now and soon finishes."""
    if not each.acked or each.drain_seconds is None or each.drain_seconds >= PAUSE_SECONDS:
        return None
    if left_out_for(view, each) > PAUSE_SECONDS:
        return None
    soon = duration(each.drain_seconds)
    return f"{each.label} acknowledges, and is done with what it holds in {soon}"


HYPOTHESIS = Hypothesis(
    "messages of keys that {who} had, or has, wait until it acknowledges",
    speaks_for=(
        "undecided", "keys_drain", "replay_waits", "no_permits", "never_acked_many",
        "waits", "rate_none", "quiet_long", "quiet_some", "unusual", "neighbour_later", "still",
        "one_flow",
    ),
    against=("acks_come", "lively", "nothing_left", "joined_late"),
    excluded=("not_key_shared", "one_consumer", "out_of_order"),
    not_by=("holds_nothing", _hands_over),
    missing=("draining_hashes", "msg_in_replay"),
)  # fmt: skip
