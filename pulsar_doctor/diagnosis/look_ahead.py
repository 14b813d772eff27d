"""Whether a Key_Shared subscription reads no further, because too much waits for slow consumers.

From 4.0 on the broker reads ahead for consumers that have permits while entries for the keys of
others wait to be sent, but only up to a limit (keySharedLookAheadMsgInReplayThresholdPerConsumer
and ...PerSubscription; the smaller one of both counts). From there on it sends all of them no more
than those others take. The limit is not in the statistics, but its effect is: a consumer has
permits in every sample and was sent fewer messages than these, while entries that were there before
the window are still not read, and no limit of the rate holds reads back.

Source: PersistentStickyKeyDispatcherMultipleConsumers (isReplayQueueSizeBelowLimit).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pulsar_doctor.diagnosis.actions.consumers import more_workers
from pulsar_doctor.diagnosis.actions.limits import further_ahead
from pulsar_doctor.diagnosis.answers import WHENS, CauseAnswer, Finding, Unknown
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import exact, least
from pulsar_doctor.wording.printable import listed
from pulsar_doctor.wording.sentences import say

LEAST = 2000  # entries: no broker stops reading before, unless it is configured so


@dataclass(frozen=True, slots=True)
class LookAhead:
    """A look-ahead that is used up."""

    behind: tuple[ConsumerView, ...]  # those without permits, the one silent for longest first
    starved: tuple[ConsumerView, ...]  # those that could receive
    replay: int  # entries that wait for consumers without permits
    share: int  # of these, for each such consumer
    unread: int  # entries, at least

    @property
    def summary(self) -> str:
        """Who is sent hardly anything, and what waits."""
        ready, full = (
            listed([each.label for each in some]) for some in (self.starved, self.behind)
        )
        return say(
            "{} could receive, and {} sent hardly anything: {:entries} wait for {}, and the broker"
            " reads no further ({} more are not read)",
            *(ready, "is" if len(self.starved) == 1 else "are", self.replay, full, self.unread),
        )


def look_ahead(view: SubscriptionView) -> Iterator[LookAhead | Unknown]:
    """The look-ahead, if it is used up; unknown where one sample does not show whether it is."""
    behind = [each for each in view.served if each.without_permits and not each.holds_nothing]
    replay = exact(view.replay) or 0
    if not behind or not replay:
        return
    may_starve = (least(view.left) or 0) > replay and any(e.may_receive for e in view.served)
    if not view.watched and replay >= LEAST and may_starve:
        yield Unknown(
            say("{:entries} wait for {}: does the broker read on?", replay, behind[0].label)
            + " One sample does not tell (--window 10s)"
        )
    starved, unread = tuple(filter(_starves, view.served)), _unread_throughout(view, replay)
    if starved and unread > 0 and not _held_back_otherwise(view):
        longest = tuple(sorted(behind, key=for_so_long, reverse=True))
        yield LookAhead(longest, starved, replay, replay // len(behind), unread)


def with_look_ahead(view: SubscriptionView, used_up: LookAhead, answer: CauseAnswer) -> CauseAnswer:
    """The answer, with how the others go on. A smaller queue of one that works helps nobody."""
    if not isinstance(answer, Finding):
        return answer
    ahead, later = further_ahead(view, used_up.replay), more_workers(view)
    if used_up.behind[0].works:
        return replace(answer, actions=(ahead, later), remedy=f"{later.text} {ahead.text}")
    actions = sorted((*answer.actions, ahead), key=lambda each: WHENS.index(each.when))
    return replace(answer, actions=tuple(actions))


def for_so_long(consumer: ConsumerView) -> tuple[bool, int]:
    """Who is waited for: rather one that acknowledged nothing, and for longest."""
    quiet = consumer.acks.quiet
    return not consumer.acked, 0 if quiet is None else quiet.ms


def _starves(consumer: ConsumerView) -> bool:
    """Whether the broker could have sent it more at any moment of the window than it did in all."""
    permits, sent = least(consumer.available_permits), consumer.delivered
    ready = consumer.may_receive_throughout and consumer.watched
    return bool(ready) and sent is not None and permits is not None and sent < permits


def _unread_throughout(view: SubscriptionView, replay: int) -> int:
    """Entries that were there when the window began and are not read yet, at least.

    A counter of the backlog may be wrong: without positions it counts from `LEAST` on only.
    """
    left, came = least(view.left), view.reads.came if view.reads else None
    counted = view.backlog is None or view.backlog.positions is None
    if left is None or came is None or (counted and replay < LEAST):
        return 0
    return left - replay - came


def _held_back_otherwise(view: SubscriptionView) -> bool:
    """Whether something else may keep the broker from reading."""
    throttled = view.throttling is None or view.throttling.lately
    waits = exact(view.delayed) != 0 or view.held_by_transaction
    return bool(throttled or waits or (view.unacked_limit and view.unacked_limit.blocked))
