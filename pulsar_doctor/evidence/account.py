"""Where each message of a subscription is: its backlog, divided among places.

Every entry that is not acknowledged is in exactly one place, with who has it and for how long that
place has not moved. The account follows from the view alone, so that it is the same whatever the
source of a number is, and the account of two views is that of both together.

What each source reports of a place, exactly or between bounds, is a table in docs/account.md.

Source: PersistentDispatcherMultipleConsumers and PersistentDispatcherSingleActiveConsumer (what is
read, sent, kept to be sent again), PendingAckHandleImpl, TopicTransactionBuffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pulsar_doctor.broker.stats.observed import SHARING, SINGLE_ACTIVE
from pulsar_doctor.broker.stats.window import MINUTE, RATE_SECONDS
from pulsar_doctor.evidence.consumer import ConsumerView, since_last_delivery
from pulsar_doctor.evidence.measures import STATS
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import Count, at_least, at_most, exactly, least, most
from pulsar_doctor.wording.sentences import say

NONE = Count(0, 0)
IN_HAND_MOST = 16  # entries, by which two counts of one moment may differ while messages move
SETTLED_SECONDS = 5.0  # without a movement, after which two documents are of one state


PlaceName = Literal[
    "in-transaction",  # published, and behind an open transaction: not readable
    "unread",  # readable and due
    # Unread, acknowledged in an open transaction, or with nobody: internal stats tell these apart.
    "unsent",
    "delayed",
    "replay",  # read, and waits to be sent (again)
    "held",  # sent to a consumer
    "pending-ack",  # acknowledged in a transaction that is open
    "unaccounted",  # read, and with nobody: what is left of the sum
]


@dataclass(frozen=True, slots=True)
class Rest:
    """For how long a place has not moved, in seconds. most: None where nothing bounds it."""

    least: float
    most: float | None


@dataclass(frozen=True, slots=True)
class Place:
    """Entries of one place. None is not reported."""

    name: PlaceName
    entries: Count | None
    rest: Rest | None = None
    consumer: str | None = None  # the label of who has them
    messages: Count | None = None  # where they are counted as messages, too
    older: int = 0  # entries that have been there since before the window, at least
    partly: int | None = None  # of them, entries of which messages are acknowledged, at least

    @property
    def empty(self) -> bool:
        """Whether nothing is there for certain, nor anything held that the backlog has no more."""
        none_held = self.messages is None or self.messages.least in (0, None)
        return self.entries is not None and self.entries.most == 0 and none_held


@dataclass(frozen=True, slots=True)
class Flow:
    """What moved in the window. unit: messages, entries, or consumers."""

    name: str
    count: Count
    unit: str = "messages"


@dataclass(frozen=True, slots=True)
class Account:
    """Every place of one subscription that is not known to be empty, and what moved."""

    total: Count | None  # entries that are not acknowledged
    places: tuple[Place, ...]
    flows: tuple[Flow, ...]
    contradiction: str | None = None  # the sum of the places cannot be the total

    def entries_in(self, name: PlaceName) -> Count:
        """The entries in places of this name."""
        return sum_of(each.entries for each in self.places if each.name == name)


def account_of(view: SubscriptionView, places: Sequence[Place] | None = None) -> Account:
    """The account of one subscription at the moment of the view. places: if known already."""
    total = _total(view)
    there = occupied(view) if places is None else tuple(places)
    return Account(total, there, tuple(_flows(view)), _contradiction(view, total, there))


def occupied(view: SubscriptionView) -> tuple[Place, ...]:
    """The places that are not known to be empty."""
    total = _total(view)
    if total == NONE and all(each.holds_nothing for each in view.served):
        return ()
    return tuple(each for each in _places(view, total) if not each.empty)


def is_settled(view: SubscriptionView, places: Sequence[Place], within_seconds: float) -> bool:
    """Whether nothing waits, or each place has moved within so many seconds before one reading.

    A fleet cannot be watched topic by topic; where this is true a window would show no more. The
    oldest message has moved too, and who holds messages acknowledges them all within a minute.
    """
    if _came_again(view, within_seconds):
        return False  # a window shows whether it stays
    oldest = view.since_mark_delete
    if not places:
        return not _may_drop(view)
    signs = oldest, view.since_delivery
    lately = all(age and age.exact and age.seconds <= within_seconds for age in signs)
    if not lately or view.msg_rate_redeliver or any(each.name == "delayed" for each in places):
        return False
    sure = [each for each in places if least(each.entries) != 0 or each.name == "held"]
    moving = all(_moves(each, within_seconds) for each in sure)
    holders = {each.consumer for each in places if each.name == "held"}
    return (
        bool(holders)
        and moving
        and all(_keeps_up(each, within_seconds) for each in view.served if each.label in holders)
    )


def _came_again(view: SubscriptionView, within_seconds: float) -> bool:
    """Whether a consumer has just connected, and another one was or may have been sent messages.

    A broker's list of topics does not report what was sent to those that have left, and there only
    an age that is known exactly shows that somebody came.
    """
    connected = (each.connected_for for each in view.served)
    lately = [age for age in connected if age is not None and age.seconds < within_seconds]
    circulation = view.circulation
    if circulation is None or not circulation.ever_known:
        return any(age.exact for age in lately)
    sent = sum(least(each.msg_out_counter) or 0 for each in view.served)
    return bool(lately) and (circulation.ever_sent or 0) > sent


def _may_drop(view: SubscriptionView) -> bool:
    """Whether a non-persistent topic has a consumer without permits: what comes may be dropped."""
    permits = (least(each.available_permits) or 0 for each in view.consumers or ())
    return view.msg_drop_rate is not None and any(each <= 0 for each in permits)


def _moves(place: Place, within_seconds: float) -> bool:
    rest = place.rest
    return rest is not None and rest.most is not None and rest.most <= within_seconds


def _keeps_up(each: ConsumerView, within_seconds: float) -> bool:
    """Whether it has acknowledged lately, and all that it holds in a minute, by the last one."""
    acked, rate, permits = each.since_last_ack, each.message_ack_rate, each.available_permits
    if acked is None or not acked.exact or acked.seconds > within_seconds or not rate:
        return False
    held_back = (
        each.blocked_consumer_on_unacked_msgs or permits is None or (least(permits) or 0) < 0
    )
    counted = each.unacked_entries is None  # Exclusive and Failover count none as held
    return not held_back and (not counted or (most(each.unacked_messages) or 0) <= rate * MINUTE)


def left_with_nobody(view: SubscriptionView) -> int:
    """Entries that were read and that no consumer holds, at least; 0 while counts may differ."""
    many = view.backlog is not None and (view.backlog.entries or 0) > IN_HAND_MOST
    settled = is_quiet(view) or (many and view.unread is None and not view.watched)
    return (least(with_nobody(view)) or 0) if settled and view.type in SHARING else 0


def with_nobody(view: SubscriptionView) -> Count | None:
    """Entries that were read and that no consumer holds, whatever became of them.

    None where nobody is attached: all of it will be read anew. Without the read position at least
    the oldest was read, where it was sent to who is there, and nobody has or waits for any.
    """
    if not view.served:
        return None
    if view.unread is None:
        elsewhere = (view.unacked, view.replay, view.delayed)
        empty = view.oldest_sent and all(most(each) == 0 for each in elsewhere)
        waits = view.backlog is not None and view.backlog.empty is False
        return at_least(1) if empty and waits else None
    total = _total(view)
    held = sum_of(each.entries for each in _all_held(view, total))
    return _less(total, (view.unread, view.delayed, view.replay, held))


def _total(view: SubscriptionView) -> Count | None:
    """The backlog: counter and positions bound it where they differ as of two moments."""
    backlog = view.backlog
    if backlog is None or backlog.entries is None:
        return exactly(view.own.waiting) if view.own and backlog is None else None
    entries = max(0, backlog.entries)
    if backlog.doubtful and backlog.positions is not None:
        return Count(min(entries, backlog.positions), max(entries, backlog.positions))
    return exactly(entries)


def _places(view: SubscriptionView, total: Count | None) -> Iterator[Place]:
    """Every place, as a message passes through them."""
    if view.own is not None and view.backlog is None:
        yield Place("unsent", total)  # of a cursor of the broker's own that is all that is reported
        return
    alone = view.type in SINGLE_ACTIVE  # which sends at once what is delayed, and keeps no replay
    delayed = NONE if alone else view.delayed or _up_to(total)
    listed = view.consumers is not None or view.own is not None
    if view.attended is False or (listed and not view.served):
        yield from _not_read(view, _less(total, (delayed,)))  # all of it will be read anew
        yield Place("delayed", delayed)
        return
    held = _all_held(view, total)
    by_all = sum_of(each.entries for each in held)
    replay = NONE if alone else view.replay or _up_to(_less(total, (view.unread, delayed, by_all)))
    read = _less(total, (view.unread, delayed, replay))
    if view.unread is None:
        yield _unsent(view, _less(total, (delayed, replay, by_all)))
    else:
        yield from _not_read(view, view.unread)
    yield Place("delayed", delayed)
    yield Place("replay", replay, _since_sent(view))
    yield from held
    if view.unread is not None:
        yield from _with_nobody(view, read, by_all)


def _not_read(view: SubscriptionView, unread: Count | None) -> Iterator[Place]:
    """What the cursor has to read yet: all may be behind a transaction that is not reported."""
    rest, behind = _since_sent(view), view.unreadable
    if behind is None and STATS in view.sources and view.open_transactions != 0:
        behind = _up_to(unread)
    if behind is not None:
        yield Place("in-transaction", behind, rest)
        unread = _less(unread, (behind,))
    yield Place("unread", unread, rest, older=_older(view, unread))


def _unsent(view: SubscriptionView, entries: Count | None) -> Place:
    """What no consumer has: by a trace some are known to be there, and since when."""
    unsent, left = view.unsent, view.left_behind
    if entries is None and unsent is not None:
        return Place("unsent", at_least(1), Rest(unsent.seconds, None), older=1)
    if entries is None and left is not None and left.published:
        return Place("unsent", at_least(1), Rest(left.seconds, None), older=1)
    return Place("unsent", entries, _since_sent(view), older=_older(view, entries))


def _with_nobody(view: SubscriptionView, read: Count | None, held: Count) -> Iterator[Place]:
    """What was read and nobody has: acknowledged in an open transaction, or lost on the way.

    read: neither unread, delayed nor in replay. held: of that, by consumers.
    """
    stood = view.hole.stood if view.hole is not None else None
    rest = None if stood is None else Rest(stood.seconds, stood.seconds if stood.exact else None)
    left, pending = _less(read, (held,)), view.pending_acks != 0
    if pending:
        yield Place("pending-ack", _up_to(left), rest)
    if view.type in SINGLE_ACTIVE:  # which sends at once what it reads
        left = _less(read, (exactly(held.most),))
    yield Place("unaccounted", _up_to(left) if pending else left, rest)


def _all_held(view: SubscriptionView, total: Count | None) -> tuple[Place, ...]:
    """What consumers have, each apart; together where they are not reported."""
    if view.consumers is not None:
        gone = expired_in_hand(view) > 0
        return tuple(_held(view, each, total, gone=gone) for each in view.served)
    entries = _entries_of(view.unacked, None) or _up_to(total)
    return (Place("held", entries, messages=view.unacked),)


def _held(view: SubscriptionView, each: ConsumerView, total: Count | None, *, gone: bool) -> Place:
    """What one consumer has. Of batches the number of entries is known between bounds.

    gone: whether some of what consumers hold has expired.
    """
    messages = each.unacked_messages
    entries = each.unacked_entries or _entries_of(messages, each.entry_messages_most)
    fewest, longest = least(entries) or 0, most(entries)
    if STATS in view.sources and view.type in SINGLE_ACTIVE:  # which counts none as held
        fewest = fewest if view.pending_acks == 0 or each.never_acked else 0
    upper = [bound for bound in (longest, most(messages)) if bound is not None]
    backlog = most(total)
    if backlog is not None and gone:
        fewest = 0
    if backlog is not None and backlog >= fewest:  # fewer only as of another moment
        upper.append(backlog)
    bound = min(upper, default=None)
    if entries is not None or bound is not None:
        entries = Count(fewest if bound is None else min(fewest, bound), bound)
    return Place("held", entries, _rest_of(each), each.label, messages, partly=each.partly_acked)


def _entries_of(messages: Count | None, batch: int | None) -> Count | None:
    """The entries of so many messages. batch: messages in an entry, about; None: unknown."""
    if messages is None:
        return None
    fewest = messages.least or 0
    return Count(-(-fewest // batch) if batch else min(1, fewest), messages.most)


def _rest_of(each: ConsumerView) -> Rest | None:
    """Since it last took or acknowledged some, or was sent what it holds."""
    known = [age for age in (each.since_work, each.holds_since) if age is not None and age.exact]
    longest = min((age.seconds for age in known), default=None)
    quiet = each.quiet_for
    if quiet is None:
        return None if longest is None else Rest(0.0, longest)
    return Rest(quiet.seconds if longest is None else min(quiet.seconds, longest), longest)


def _since_sent(view: SubscriptionView) -> Rest | None:
    """Since anything left for a consumer: by its moment, by counters, else by the last rates."""
    age, watched = view.since_delivery or since_last_delivery(view.served), view.watched_seconds
    bounds = [age.seconds] if age is not None and age.exact else []
    bounds += [watched] if view.delivered and watched else []
    bounds += [RATE_SECONDS] if view.sent_by_rate else []
    longest = min(bounds, default=None)
    fewest = watched if view.delivered == 0 and watched else 0.0
    if longest is None:
        return Rest(fewest, None) if fewest else None
    return Rest(min(fewest, longest), longest)


def _older(view: SubscriptionView, entries: Count | None) -> int:
    """Entries of a place that were there before the window began, at least."""
    came = view.published
    if not view.watched_seconds or came is None:
        return 0
    return max(0, (least(entries) or 0) - came)


def sum_of(counts: Iterable[Count | None]) -> Count:
    """The sum of these counts; one that is not reported may be any number."""
    parts = [each or Count(0, None) for each in counts]
    upper = [each.most for each in parts if each.most is not None]
    return Count(
        sum(each.least or 0 for each in parts), sum(upper) if len(upper) == len(parts) else None
    )


def _up_to(count: Count | None) -> Count | None:
    """Any number of them, none included."""
    return None if count is None else Count(0, count.most)


def _less(total: Count | None, parts: Iterable[Count | None]) -> Count | None:
    """What is left of the total, between bounds; a part that is not reported may be all of it."""
    if total is None:
        return None
    fewest, longest = total.least or 0, total.most
    for part in parts:
        upper = most(part)
        fewest = 0 if upper is None else fewest - upper
        longest = None if longest is None else longest - (least(part) or 0)
    return Count(max(0, fewest), None if longest is None else max(0, longest))


def _contradiction(
    view: SubscriptionView, total: Count | None, places: Sequence[Place]
) -> str | None:
    """That the places hold more than the backlog has, where nothing moved between two counts."""
    if most(total) is None or not is_quiet(view):
        return None
    fewest = sum(least(each.entries) or 0 for each in places)
    known = max(fewest, _fewest_held(view) - expired_in_hand(view))
    if known <= (most(total) or 0):
        return None
    return say("at least {:entries} are in known places, and the backlog is {}", known, total)


def expired_in_hand(view: SubscriptionView) -> int:
    """Entries that consumers hold and the backlog has no more, at least; 0 where none expired.

    Two numbers of nearly one moment may differ a little while messages move.
    """
    backlog = view.backlog.entries if view.backlog is not None else None
    if not view.expired_ever or backlog is None:
        return 0
    held = _fewest_held(view)
    if held <= 2 * max(0, backlog):
        return 0
    gone = min(held - max(0, backlog), view.expired_ever)
    return gone if gone > IN_HAND_MOST else 0


def _fewest_held(view: SubscriptionView) -> int:
    """By the counters of consumers."""
    counted = (_entries_of(each.unacked_messages, each.entry_messages_most) for each in view.served)
    return sum(least(each) or 0 for each in counted)


def is_quiet(view: SubscriptionView) -> bool:
    """Whether nothing moved while the numbers were read, one after the other."""
    quiet = (each.quiet_at_least(SETTLED_SECONDS) for each in view.served)
    return view.delivered in (0, None) and view.published in (0, None) and all(quiet)


def _flows(view: SubscriptionView) -> Iterator[Flow]:
    """What moved in the window, as far as it is reported."""
    put_back = view.filtering.lately if view.filtering else None
    counted = (
        ("published", view.published, "messages"),
        ("sent", view.delivered, "messages"),
        ("expired", view.expired, "messages"),
        ("put back by a filter", put_back, "messages"),
        ("connected again", view.turnover.times if view.turnover else None, "consumers"),
    )
    for name, number, unit in counted:
        if number is not None:
            yield Flow(name, exactly(number), unit)
    if view.finished is not None:  # with those that expired or were skipped
        yield Flow("acknowledged", at_most(view.finished), "entries")
    window = view.circulation.window if view.circulation is not None else None
    if window is not None and window.again > 0:
        yield Flow("sent again", at_least(window.again))
