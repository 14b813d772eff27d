"""A consumer has permits, there is something to send it, and the broker does not read: its fault.

The dispatcher reads entries from the ledger for its consumers, one read at a time, and the end of a
read starts the next one. If that chain breaks, nothing moves although everybody waits. The internal
stats (`pulsar-admin topics stats-internal`) show the broken chain in three ways:
- no read is pending, neither of new entries nor of a replay, though both could be (what the
  broker's own checkAndUnblockIfStuck looks for);
- a read is marked as pending, and the cursor neither reads nor waits for new entries;
- the cursor waits for new entries, and there are some beyond its read position.

A healthy reader passes through each of these flags, and one sample can be stale. So the rule wants
`samples` or more with the same picture, over at least `still_for`, in each of which a consumer
could receive (permits above 0, not blocked; on Exclusive and Failover the active one) and something
was left to send, and in which nothing moved: nothing delivered, the read position unchanged. Acks
of what was delivered before do not count as movement, where the read position is told. A consumer
that connected or asked within `still_for` is not waited for yet. Internal stats of the last sample
alone do, where nothing was delivered in as many samples of the topic, or for `retried_within`, and
what is unread was there before: a healthy reader passes through these flags only on its way to a
delivery.

It is unknown, not found, where something else looks the same: a read under way in a slow storage,
an open transaction, delayed messages that pause the dispatcher, acknowledged ranges at the limit
that is persisted (the dispatcher may pause until they are), a broker that does not count throttled
reads, messages of Key_Shared that are bound to a consumer. On Exclusive and Failover the next read
waits until the last messages are on the wire: a client that does not read its connection looks the
same until `retried_within`, when it would have been closed. A read that failed is tried again
within that time, too: below it the confidence is lower. The limit of a resource group and the read
of a compacted ledger cannot be seen.

Source: PersistentDispatcherMultipleConsumers and PersistentDispatcherSingleActiveConsumer
(readMoreEntries, checkAndUnblockIfStuck), ManagedCursorImpl.asyncReadEntriesOrWait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter

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
from pulsar_doctor.dispatcher import (
    THROTTLED,
    Case,
    Face,
    Reading,
    held_back,
    may_receive,
    moves,
    readings_of,
    ready_throughout,
)
from pulsar_doctor.durations import duration
from pulsar_doctor.standing import Standing, standings
from pulsar_doctor.stats.observed import SINGLE_ACTIVE, Observed

RANGES_LIMIT = 10_000  # managedLedgerMaxUnackedRangesToPersist, where nobody told
SOCKET_BYTES = 65_536  # fewer are taken by the operating system, whether the client reads or not
THRESHOLDS = (
    Threshold("samples", 3.0, "samples", "fewer with the same picture do not decide"),
    Threshold("still_for", 5.0, "seconds", "nothing has moved for so long; a FLOW is older"),
    Threshold("retried_within", 60.0, "seconds", "a failed read or a deaf client ends by then"),
)
NEEDS = frozenset({STATS})
EXPLAINS: frozenset[str] = frozenset()
REMEDY = (
    "Unload the topic (`pulsar-admin topics unload TOPIC`): it loads again with a fresh dispatcher "
    "and nothing is lost; keep both stats for a bug report, and see the broker's log for failed "
    "reads first. unblockStuckSubscriptionEnabled=true heals the case with no read pending."
)


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found where the broker should read and does not; unknown where that cannot be told apart."""
    assert evidence.stats is not None
    return found(_answers(evidence.stats, limits))


def _answers(observed: Observed, limits: Limits) -> Iterator[Finding | Unknown]:
    left = observed.left
    if observed.persistent is False or (left is not None and left.most == 0):
        return
    if moves(observed) or held_back(observed):
        return
    active = [standing for standing in standings(observed) if standing.active]
    if observed.now.consumers is None or (active and all(s.permits is None for s in active)):
        yield Unknown("nothing moves, and who could receive is not told")
    ready = tuple(standing for standing in active if may_receive(standing.now))
    if not ready:
        return
    readings = tuple(readings_of(observed))
    if not readings and observed.now.is_durable is False:
        return  # a reader: what it holds and what is left cannot be told apart
    case = Case(observed, ready, readings, limits)
    doubt = next((reason for ask in DOUBTS if (reason := ask(case))), None)
    if doubt is None:
        yield _finding(case)
    else:
        yield Unknown(f"{_who(ready)}, and nothing moves: {doubt}")


def _one_sample(case: Case) -> str | None:
    if not case.observed.one_sample:
        return None
    return "one sample does not decide, a healthy reader looks so too; take several (--window 10s)"


def _no_readings(case: Case) -> str | None:
    if case.readings:
        return None
    return "only the internal stats tell whether the broker reads (--internal-stats)"


def _too_few(case: Case) -> str | None:
    span = case.span
    if span is None:
        return "the time between the samples is not told (--interval)"
    enough = len(case.readings) >= case.limits["samples"] and span >= case.limits["still_for"]
    if enough or case.last_alone_tells:
        return None
    return f"{len(case.readings)} samples over {duration(span)} are too few; take a longer window"


def _not_told(case: Case) -> str | None:
    blocked = [case.observed.now.blocked_subscription_on_unacked_msgs]
    blocked += [standing.now.blocked_consumer_on_unacked_msgs for standing in case.ready]
    if any(_left_not_told(case, reading) for reading in case.readings):
        return "what is left to send is not told"
    if case.observed.type not in SINGLE_ACTIVE and None in blocked:
        return "whether it is blocked on unacknowledged messages is not told"
    if any(reading.face is None for reading in case.readings):
        return "this broker does not tell whether a read is pending"
    if case.observed.course.growth(attrgetter("msg_out_counter")) is None:
        return "how much was delivered is not told"
    return None


def _left_not_told(case: Case, reading: Reading) -> bool:
    """What waits to be sent again does not matter on Shared where something is unread."""
    if reading.unread is None:
        return True
    return reading.replay is None and not (case.observed.type == "Shared" and reading.unread)


def _not_throughout(case: Case) -> str | None:
    if case.left_least <= 0:
        return "not in every sample was something left to send"
    if any(ready_throughout(standing) for standing in case.ready):
        return None
    return "no consumer had permits in every sample"


def _just_asked(case: Case) -> str | None:
    asked, still = case.asked, case.limits["still_for"]
    changed = case.observed.course.moved(attrgetter("active_consumer_name"))
    if changed:
        return "the active consumer has just changed"
    if asked is None or asked.ms >= still * 1000:
        return None
    return f"it asked or connected {asked} ago"


def _who_is_active(case: Case) -> str | None:
    """Consumers may share a name, or tell none, and then the active one is not told."""
    consumers = standings(case.observed)
    if case.observed.type not in SINGLE_ACTIVE or len(consumers) == 1:
        return None
    active = sum(standing.active for standing in consumers)
    if active == 1 and all(standing.now.consumer_name for standing in consumers):
        return None
    return "which of its consumers is the active one is not told"


def _reads(case: Case) -> str | None:
    if any(reading.face is Face.UNDER_WAY for reading in case.readings):
        return (
            "a read is under way and takes long; see the latency of the bookies and the broker's "
            "log for failed reads"
        )
    if case.face is None:
        return "the flags of its read differ from sample to sample, so it tries; see its log"
    return None


def _replay_only(case: Case) -> str | None:
    """What waits to be sent again may be bound to a consumer: by its key, or as a chunk."""
    if case.observed.type == "Key_Shared" and any(reading.replay for reading in case.readings):
        return "the messages to be sent again may be bound to one of the Key_Shared consumers"
    if (
        case.observed.type == "Key_Shared"
        and case.observed.now.consumers_after_mark_delete_position
    ):
        return "Key_Shared consumers that joined lately may have to wait for earlier messages"
    if case.unread_least > 0:
        return None
    everybody = all(may_receive(standing.now) for standing in standings(case.observed))
    if case.face is Face.NONE_PENDING and everybody:
        return None
    return "only messages to be sent again are left, and who may have them is not told"


def _transaction(case: Case) -> str | None:
    """A reader must not pass an open transaction: it waits although there are entries."""
    open_ones = case.observed.window.last.topic.ongoing_txn_count
    if open_ones:
        return f"{open_ones} transactions are open, and a reader waits for their end"
    if open_ones is None and case.face is Face.ASLEEP:
        return "it may wait for a transaction; whether one is open is not told"
    return None


def _paused(case: Case) -> str | None:
    now = case.observed.now
    limit = case.observed.limits.max_unacked_ranges_to_persist or RANGES_LIMIT
    ranges = case.observed.acknowledged_ranges
    if case.observed.type not in SINGLE_ACTIVE and now.msg_delayed != 0:
        return "delayed messages can pause the dispatcher"
    if ranges is not None and ranges >= limit:
        return f"{ranges} acknowledged ranges can pause the dispatcher until fewer are left"
    return None


def _throttled(case: Case) -> str | None:
    if case.face is not Face.NONE_PENDING:
        return None  # a throttled read is not marked as pending
    if any(getattr(case.observed.now, name) is not None for name in THROTTLED):
        return None
    return "a dispatch rate limit looks the same, and this broker does not count throttled reads"


def _deaf_client(case: Case) -> str | None:
    """On Exclusive and Failover the next read waits until the last messages are on the wire."""
    if case.observed.type not in SINGLE_ACTIVE or case.face is not Face.NONE_PENDING:
        return None
    sent = [standing.now.bytes_out_counter for standing in case.ready]
    much = any(count is None or count > SOCKET_BYTES for count in sent)
    if not much or case.stands >= case.limits["retried_within"]:
        return None
    return (
        "a client that does not read its connection looks the same for up to "
        f"{duration(case.limits['retried_within'])}; look again then"
    )


DOUBTS: tuple[Callable[[Case], str | None], ...] = (
    _one_sample,
    _no_readings,
    _too_few,
    _not_told,
    _who_is_active,
    _not_throughout,
    _just_asked,
    _reads,
    _replay_only,
    _transaction,
    _paused,
    _throttled,
    _deaf_client,
)


def _who(ready: Sequence[Standing]) -> str:
    permits = sum(standing.permits or 0 for standing in ready)
    names = ready[0].label if len(ready) == 1 else f"{len(ready)} consumers"
    return f"{names} could receive, with {permits} permits"


def _sure(case: Case) -> float:
    """Lower where a failed read may be tried again soon, and where more cannot be seen."""
    entries = case.readings[-1].sample.internal, case.readings[0].sample.internal
    last, first = (internal.last_confirmed_entry if internal else None for internal in entries)
    sure = 0.9 if case.stands >= case.limits["retried_within"] else 0.75
    if case.unread_least == 0 or (case.face is Face.ASLEEP and last == first):
        sure -= 0.15  # a replay that nobody counts; a bound of reading that nobody tells
    elif len(case.readings) < case.limits["samples"]:
        sure -= 0.15
    return round(sure, 2)


def _finding(case: Case) -> Finding:
    window, reading, cursor = case.observed.window, case.readings[-1], case.readings[-1].cursor
    assert case.face is not None
    assert cursor.read_position is not None
    position = "{}:{}".format(*cursor.read_position)
    return Finding(
        code="broker-read-stuck",
        severity="stalled",
        confidence=_sure(case),
        consumer=None,
        summary=(
            f"{_who(case.ready)}, {case.left_least} or more entries are left to send, and in "
            f"{len(window.samples)} samples over {duration((window.span_ms or 0) / 1000)} nothing "
            f"moved: {case.face.value}, the read position stays at {position}"
        ),
        evidence=(
            Measure("available_permits", sum(s.permits or 0 for s in case.ready), "permits"),
            Measure("unread_entries", reading.unread, "entries"),
            Measure("msg_in_replay", case.observed.now.msg_in_replay, "entries"),
            backlog_measure(case.observed),
            Measure("read_position", position, ""),
            Measure("subscription_have_pending_read", _yes(reading), ""),
            Measure("waiting_read_op", _flag(cursor.waiting_read_op), ""),
            Measure("pending_read_ops", cursor.pending_read_ops, "reads"),
            Measure("samples", len(case.readings), "samples"),
            Measure("stands_for_least", round(case.stands, 3), "seconds"),
        ),
        remedy=REMEDY,
    )


def _yes(reading: Reading) -> str | None:
    return _flag(reading.cursor.subscription_have_pending_read)


def _flag(told: bool | None) -> str | None:
    return None if told is None else str(told).lower()
