"""Messages of a key wait, because the consumer that had the key before has not acknowledged yet.

Key_Shared keeps the order of a key: when a consumer joins or leaves, keys change their owner, and
the new owner gets a key's messages only when the earlier one has acknowledged all it holds of it.
A hand-over takes moments. With an earlier owner that hangs, its former keys stand still for all.

From 4.0 on the broker lists the draining hashes with the consumer whose acks are awaited, with what
it still holds and how often a message was turned away. Before (and with the classic dispatcher) a
consumer that joined gets nothing until mark-delete has passed the position of its joining, whoever
holds it back. Neither applies where out-of-order delivery is allowed.

The consumer that is waited for is a stall when it acknowledged nothing in the window, or nothing
for `refill_wait`. If it works, what it holds is done within `slow_wait`, which is healthy, or
later, which is a warning. What it was sent or acknowledged less than `just_now` ago decides
nothing yet. Where nothing waits behind it there is nothing to say.

Source: DrainingHashesTracker and PersistentStickyKeyDispatcherMultipleConsumers; PIP-379; before,
getRestrictedMaxEntriesForConsumer of the latter, and PIP-282.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pulsar_doctor.ack_waiting import AckWait, ack_wait
from pulsar_doctor.diagnosis import (
    CLEAR,
    STATS,
    Evidence,
    Finding,
    Limits,
    Measure,
    NotTold,
    Outcome,
    Severity,
    Threshold,
    Unknown,
    backlog_measure,
    found,
)
from pulsar_doctor.durations import duration
from pulsar_doctor.standing import Standing, standings
from pulsar_doctor.stats.fields import Position
from pulsar_doctor.stats.observed import Observed
from pulsar_doctor.stats.topic import ConsumerStats, DrainingHash

THRESHOLDS = (
    Threshold("refill_wait", 300.0, "seconds", "without an ack for so long it is a stall anyway"),
    Threshold("slow_wait", 30.0, "seconds", "a hand-over within this is healthy"),
    Threshold("just_now", 3.0, "seconds", "an ack or message younger than this decides nothing"),
)
NEEDS = frozenset({STATS})
EXPLAINS = frozenset({"permits-exhausted", "slow-but-progressing", "not-acknowledging", "ack-hole"})
REMEDY = (
    "See what this consumer does with the messages it holds; if it hangs, close it: its messages "
    "and keys go to the others at once. A smaller receiver queue keeps a hand-over short."
)


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found for the consumer whose acks are awaited."""
    observed = evidence.stats
    assert observed is not None
    now = observed.now
    if observed.type != "Key_Shared" or now.allow_out_of_order_delivery:
        return CLEAR
    if now.consumers is None:
        return Unknown("the subscription's consumers are not told")
    joined = now.consumers_after_mark_delete_position
    if joined:
        return found(_by_joining(observed, joined, limits))
    return found(answer for s in standings(observed) for answer in _by_hashes(s, limits))


def _by_hashes(standing: Standing, limits: Limits) -> Iterator[Finding | Unknown | NotTold]:
    now = standing.now
    if now.draining_hashes is None:
        if now.draining_hashes_count:
            yield Unknown(f"the draining hashes of {standing.label} are not told", standing.label)
        elif now.draining_hashes_count is None:
            yield from _without_any(standing)
        return
    blocking = [each for each in now.draining_hashes if each.unack_msgs != 0]
    blocking = [each for each in blocking if each.blocked_attempts != 0]
    if not blocking or not _waits_behind(standing):
        return
    if any(None in (each.unack_msgs, each.blocked_attempts) for each in blocking):
        yield Unknown(f"what the draining hashes of {standing.label} hold is not told")
        return
    yield from _judge(standing, limits, _hash_summary(standing, blocking), _hashes(blocking))


def _without_any(standing: Standing) -> Iterator[NotTold]:
    """Of stats that know neither way of telling who waits for whom."""
    if standing.observed.now.consumers_after_mark_delete_position is None:
        yield NotTold("neither draining hashes nor positions of joining are in these stats")


def _waits_behind(standing: Standing) -> bool:
    """Whether messages still wait: they are in replay, or more were turned away in the window."""
    in_replay = standing.observed.now.msg_in_replay
    return in_replay != 0 or bool(standing.course.growth(_attempts))


def _attempts(consumer: ConsumerStats) -> int:
    return sum(each.blocked_attempts or 0 for each in consumer.draining_hashes or ())


def _judge(
    standing: Standing, limits: Limits, summary: str, numbers: tuple[Measure, ...]
) -> Iterator[Finding | Unknown]:
    """Of the consumer whose acks are awaited."""
    if standing.unacked is None:
        yield Unknown(f"unacked_messages of {standing.label} is not told", standing.label)
        return
    wait = ack_wait(standing, max(1, standing.unacked))
    verdict = wait.verdict(limits)
    if isinstance(verdict, Unknown):
        yield Unknown(f"{summary}; {verdict.reason}", standing.label)
    elif verdict is not None:
        lately = wait.quiet is None or wait.quiet.ms < limits["refill_wait"] * 1000
        severity = "warning" if wait.seconds is not None and lately else verdict
        yield _finding(standing, wait, severity, (summary, numbers))


def _by_joining(
    observed: Observed, joined: Mapping[str, str], limits: Limits
) -> Iterator[Finding | Unknown]:
    waiting = [s for s in standings(observed) if _is_held_back(s, joined)]
    names = {standing.now.consumer_name for standing in waiting}
    if not waiting or _nothing_left(observed):
        return
    earlier = [s for s in standings(observed) if s.now.consumer_name not in names]
    holding = [s for s in earlier if s.unacked != 0]
    if _mark_delete_moved(observed):
        return
    if not holding:
        yield Unknown(f"{waiting[0].label} waits for mark-delete, and nobody before it holds any")
    elif not _something_left(observed):
        yield Unknown(f"whether anything is left to send to {waiting[0].label} is not told")
    else:
        culprit = max(holding, key=_for_so_long)
        summary = _joining_summary(culprit, waiting, joined)
        yield from _judge(culprit, limits, summary, _positions(observed, waiting, joined))


def _is_held_back(standing: Standing, joined: Mapping[str, str]) -> bool:
    """Whether it could be sent messages but for the position at which it joined."""
    now = standing.now
    position = _position(joined.get(now.consumer_name or ""))
    cursor = standing.observed.cursor_now
    done = None if cursor is None else cursor.mark_delete_position
    if position is None or standing.delivered or now.blocked_consumer_on_unacked_msgs:
        return False
    if done is not None and position <= done:
        return False
    if done is not None and now.last_sent_position_when_joining is None:
        ledger, entry = done  # it is a read position: where mark-delete stands just before it
        if position == (ledger, entry + 1):
            return False
    return standing.permits is None or standing.permits > 0


def _position(text: str | None) -> Position | None:
    ledger, _, entry = (text or "").partition(":")
    try:
        return int(ledger), int(entry)
    except ValueError:
        return None


def _mark_delete_moved(observed: Observed) -> bool:
    by_cursor = observed.cursor.moved(lambda cursor: cursor.mark_delete_position)
    by_moment = observed.course.passed("last_mark_delete_advanced_timestamp_ms")
    return bool(by_cursor or by_moment)


def _nothing_left(observed: Observed) -> bool:
    left = observed.left
    return bool(observed.backlog.empty) or (left is not None and left.most == 0)


def _something_left(observed: Observed) -> bool:
    now, left, held = observed.now, observed.left, observed.held
    entries = observed.backlog.entries
    if now.msg_in_replay or (left is not None and left.least > 0):
        return True
    # Brokers that do not tell msg_in_replay: the backlog that is due and not held waits there.
    if entries is None or held is None:
        return False
    return entries - (now.msg_delayed or 0) > held.most


def _for_so_long(standing: Standing) -> tuple[bool, int]:
    """Who is waited for: rather one that acknowledged nothing, and for longest."""
    quiet = ack_wait(standing, 1).quiet
    return not standing.acked, 0 if quiet is None else quiet.ms


def _hash_summary(standing: Standing, blocking: Sequence[DrainingHash]) -> str:
    held = sum(each.unack_msgs or 0 for each in blocking)
    waiting = standing.observed.now.msg_in_replay
    behind = "" if not waiting else f"; {waiting} entries wait to be sent"
    return (
        f"{standing.label} has not acknowledged {held} entries of {len(blocking)} key hashes that "
        f"belong to others by now{behind}"
    )


def _hashes(blocking: Sequence[DrainingHash]) -> tuple[Measure, ...]:
    return (
        Measure("draining_hashes", len(blocking), "hashes"),
        Measure("unack_msgs", sum(each.unack_msgs or 0 for each in blocking), "entries"),
        Measure("blocked_attempts", sum(e.blocked_attempts or 0 for e in blocking), "attempts"),
    )


def _joining_summary(
    culprit: Standing, waiting: Sequence[Standing], joined: Mapping[str, str]
) -> str:
    names = ", ".join(standing.label for standing in waiting[:3])
    more = f" and {len(waiting) - 3} more" if len(waiting) > 3 else ""
    position = joined[waiting[0].now.consumer_name or ""]
    return (
        f"{names}{more} joined at {position} and gets nothing before mark-delete is there, while "
        f"{culprit.label} holds {culprit.unacked} unacknowledged messages"
    )


def _positions(
    observed: Observed, waiting: Sequence[Standing], joined: Mapping[str, str]
) -> tuple[Measure, ...]:
    cursor = observed.cursor_now
    done = None if cursor is None else cursor.mark_delete_position
    position = joined[waiting[0].now.consumer_name or ""]
    return (
        Measure("consumers_after_mark_delete_position", len(waiting), "consumers"),
        Measure("position_when_joining", position, ""),
        Measure("mark_delete_position", None if done is None else f"{done[0]}:{done[1]}", ""),
    )


def _finding(
    standing: Standing, wait: AckWait, severity: Severity, told: tuple[str, tuple[Measure, ...]]
) -> Finding:
    """told: the summary without its end, and the numbers of this way of telling."""
    observed, (summary, numbers) = standing.observed, told
    quiet = None if wait.quiet is None else wait.quiet.ms / 1000
    end = f"no ack came for {wait.quiet}"
    if wait.seconds is not None:
        ago = f" (last ack or message {wait.quiet} ago)" if wait.quiet else ""
        end = f"at its pace that takes up to {duration(wait.seconds)}{ago}"
    return Finding(
        code="key-shared-blocked",
        severity=severity,
        confidence=0.65 if observed.one_sample else 0.85,
        consumer=standing.label,
        summary=f"{summary}; {end}",
        evidence=(
            *numbers,
            Measure("unacked_messages", standing.unacked, "messages"),
            Measure("msg_in_replay", observed.now.msg_in_replay, "entries"),
            backlog_measure(observed),
            Measure("done_in", wait.seconds, "seconds"),
            Measure("quiet_for", quiet, "seconds"),
        ),
        remedy=REMEDY,
    )
