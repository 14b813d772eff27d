"""Who is affected by a finding, and how much: what waits, who is idle, what fills up when.

Only what the view knows, bounds as bounds, and no number that the finding's summary has named.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import TypeGuard

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.observed import SHARING
from pulsar_doctor.diagnosis.answers import Finding
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.deadlines import Deadline
from pulsar_doctor.evidence.subscription import (
    UNACKED_DEFAULTS,
    SubscriptionView,
    UnackedLimit,
    replay_waits,
)
from pulsar_doctor.evidence.values import Count, exact, exactly, least
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import listed
from pulsar_doctor.wording.sentences import joined, say, values_in

FAR_SECONDS = 7 * 86_400  # until a limit: what waits now comes first
FARTHEST_SECONDS = 60 * 86_400  # no pace holds for longer
IDLE_LEAST_MS = 1000  # between two messages everybody is
NO_DRAIN = ("time_to_drain", "left_out_for")  # measures beside which its pace says nothing new
SHARE_LEAST = 0.01  # of a limit that fills: below that it tells nothing
SHARE_MUCH = 0.1  # of one that does not


@dataclass(frozen=True, slots=True)
class _Case:
    """What an impact is worked out from."""

    view: SubscriptionView
    named: ConsumerView | None  # the consumer of the finding
    known: Set[str]  # the values in its summary

    def news(self, number: int | None) -> TypeGuard[int]:
        """Whether it is a number above 0 that is not in the summary."""
        return number is not None and number > 0 and str(number) not in self.known


def impact_of(
    view: SubscriptionView,
    finding: Finding,
    named: ConsumerView | None,
    deadlines: tuple[Deadline, ...] = (),
) -> str | None:
    """One sentence without its stop; None where there is nothing to add. named: its consumer."""
    if finding.severity == "info":
        return None
    case = _Case(view, named, values_in(finding.summary))
    drain = () if any(each.name in NO_DRAIN for each in finding.evidence) else _drain(case)
    limits = (*_limit(case), *_ranges(case))
    near = [soon(each) for each in deadlines if each.seconds <= FAR_SECONDS]
    far = [soon(e) for e in deadlines if FAR_SECONDS < e.seconds <= FARTHEST_SECONDS]
    parts = (*near, *_waiting(case), *_idle(case), *drain, *limits, *far)
    return joined("; ", parts) or None


def soon(deadline: Deadline) -> str:
    """`messages expire unread in about 3 h`."""
    if deadline.seconds <= 0:
        return f"{deadline.effect} now"
    return f"{deadline.effect} in about {duration(deadline.seconds)} at this pace"


def _waiting(case: _Case) -> Iterator[str]:
    view = case.view
    backlog = view.backlog.entries if view.backlog else None
    behind, left = case.news(backlog), _left(case, backlog)
    if left is not None and left.exact is not None and left.exact == backlog:
        if behind:
            yield say("{:entries} in the backlog {} to be sent", left, _wait(left))
    elif left is not None and behind:
        waits = _wait(left)
        yield say("{} of the {:entries} in the backlog {} to be sent", left, backlog, waits)
    elif left is not None:
        yield say("{:entries} {} to be sent", left, _wait(left))
    elif behind:
        verb = "is" if backlog == 1 else "are"
        yield say("{:entries} {} not acknowledged", backlog, verb)
    replay = exact(view.replay)
    if case.news(replay) and (left is None or replay != left.least):
        wait = "waits" if replay == 1 else "wait"
        yield say("{} {} {}", replay, wait, replay_waits(view.type))


def _left(case: _Case, backlog: int | None) -> Count | None:
    """What is left to send, as far as it is news; no upper bound that the backlog is, too."""
    left = case.view.left
    if left is None or not case.news(left.least):
        return None
    bounded = left.exact is None and left.most is not None
    if bounded and (not case.news(left.most) or (backlog is not None and left.most == backlog)):
        return Count(left.least, None)
    return left


def _wait(count: Count) -> str:
    last = count.least if count.most is None else count.most  # the last number of its words
    return "waits" if last == 1 else "wait"


def _idle(case: _Case) -> Iterator[str]:
    """Who could work on something and has nothing, while not all is done."""
    view = case.view
    if view.nothing_to_move or not _waits(case):
        return
    others = [
        (each.label, each.idle_for)
        for each in view.consumers or ()
        if each is not case.named
        and each.idle_for is not None
        and each.active is not False
        and each.idle_for.ms >= IDLE_LEAST_MS
    ]
    if not others or any(label in case.known for label, _ in others):
        return
    names = listed([label for label, _ in others])
    since: Age = min((idle for _, idle in others), key=lambda age: age.ms)
    verb = "has" if len(others) == 1 else "have"
    yield say("{} {} had nothing to do for {}", names, verb, since)


def _waits(case: _Case) -> bool:
    """Whether there is certainly something that others could work on."""
    if case.view.backlog is not None:
        return case.view.backlog.empty is False
    return case.named is not None and bool(least(case.named.unacked_messages))


def _drain(case: _Case) -> Iterator[str]:
    seconds = case.named.drain_seconds if case.named else None
    if seconds and duration(seconds) not in case.known:
        yield say("at its present pace it needs at least {} for what it holds", duration(seconds))


def _limit(case: _Case) -> Iterator[str]:
    """How much of a limit of unacknowledged messages is used, where that is much or grows."""
    if case.view.type not in SHARING:
        return
    if case.named is not None and not case.named.blocked_consumer_on_unacked_msgs:
        own = tuple(_limit_of_consumer(case, case.named))
        yield from own
        if own and len(case.view.consumers or ()) == 1:
            return  # its own is the nearer one
    if case.view.unacked_limit is not None and not case.view.unacked_limit.blocked:
        yield from _limit_of_subscription(case, case.view.unacked_limit)


def _limit_of_consumer(case: _Case, named: ConsumerView) -> Iterator[str]:
    """Uses of the consumer's limit; if not reported, that of broker.conf where it acks nothing."""
    limit, held = named.max_unacked_messages_per_consumer, named.unacked_messages
    limit_text = say("its limit of {:unacknowledged messages}", limit)
    if limit is None and named.never_acked:
        limit = UNACKED_DEFAULTS["consumer"]
        most = "the {:unacknowledged messages} that brokers allow a consumer by default"
        limit_text = say(most, limit)
    if case.news(limit):
        yield from _used("it has", held, limit, (limit_text, _growth(case.view, named)))


def _limit_of_subscription(case: _Case, limit: UnackedLimit) -> Iterator[str]:
    if case.news(limit.most):
        limit_text = say("the subscription's limit of {}", limit.most)
        growth = _growth_of_all(case.view, limit)
        yield from _used("all consumers have", case.view.unacked, limit.most, (limit_text, growth))


def _ranges(case: _Case) -> Iterator[str]:
    """How much of the limit of acknowledged ranges is used, from half of it on."""
    ranges, who = case.view.ranges, "acknowledged ranges have"
    limit = ranges.known_limit if ranges is not None and case.view.durable is not False else None
    if ranges is not None and limit and 2 * ranges.count >= limit and case.news(limit):
        limit_text = say("the {} that the broker keeps over a restart", limit)
        yield from _used(who, exactly(ranges.count), limit, (limit_text, None))


def _used(who: str, held: Count | None, limit: int, of: tuple[str, float | None]) -> Iterator[str]:
    """of: the owner of the limit; and the messages a second that fill it, None: not reported."""
    count, (limit_text, growth) = least(held), of
    if count is None or not 0 < count < limit:
        return
    fills = None if not growth else duration((limit - count) / growth)
    full = fills and say(", full in about {} at this rate", fills)
    if count / limit >= (SHARE_LEAST if full else SHARE_MUCH):
        bound = "" if exact(held) is not None else "at least "
        yield say(
            "{} used {}{} of {}{}", who, bound, f"{count / limit:.0%}", limit_text, full or ""
        )


def _growth(view: SubscriptionView, named: ConsumerView) -> float | None:
    """Messages a second that it is sent and does not acknowledge; None: none, or nothing tells.

    In the window; of one that never acknowledged any, all that it is sent.
    """
    if exact(named.unacked_messages) is None:
        return None
    done = 0 if named.acked is False or named.never_acked else named.done
    if view.watched_seconds and named.delivered is not None and done is not None:
        more = named.delivered - done
        return more / view.watched_seconds if more > 0 else None
    return named.msg_rate_out if named.never_acked else None


def _growth_of_all(view: SubscriptionView, limit: UnackedLimit) -> float | None:
    done = limit.acks.acknowledged
    if not view.watched_seconds or view.delivered is None or done is None:
        return None
    return max(0, view.delivered - done) / view.watched_seconds or None
