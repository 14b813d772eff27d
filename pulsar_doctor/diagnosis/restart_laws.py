"""Laws of what was sent to consumers that left: who comes next may get no further.

A consumer that has just been restarted looks like one that crashes again and again, until the
oldest message is acknowledged: the dispatcher sends the oldest first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

from pulsar_doctor.diagnosis.answers import Rests
from pulsar_doctor.diagnosis.observing import worded
from pulsar_doctor.diagnosis.thresholds import LONG_SECONDS, QUIET_AFTER
from pulsar_doctor.evidence.circulation import Rounds
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import least, most
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import Sentence


def in_vain(view: SubscriptionView, within: float) -> Iterator[Rests]:
    """Who is there was sent what others were sent before, and nothing shows progress since."""
    if text := sent_in_vain(view, within):
        yield Rests(text)


def sent_in_vain(view: SubscriptionView, within: float) -> Sentence | None:
    """How consumers left before they acknowledged the oldest message; None: nothing shows it."""
    age, still = _age(view), view.since_mark_delete
    rounds, stayed = circles(view, within), view.turnover.stayed if view.turnover else None
    if outlived(view, within):
        return worded("starts_over", view, still=still, age=duration(age))
    if rounds is not None:
        return worded("went_round", rounds)
    if view.nothing_to_move or not age < within:
        return None
    if view.served and stayed is not None and stayed < within:
        return worded("left_early", view, stayed=duration(stayed))
    alone = view.alone and not view.alone.elsewhere and view.circulation
    if not (alone and alone.starts_over):
        return None
    return worded("left_in_vain", view, still=still, age=duration(age))


def circles(view: SubscriptionView, within: float) -> Rounds | None:
    """How often messages went round; None where those that left may have acknowledged them.

    A window that shows nobody who came tells the same of one that acknowledged a large backlog.
    Where nobody has been there for `within`, nobody comes and goes any more.
    """
    rounds = view.circulation.rounds if view.circulation is not None else None
    if view.alone is not None and (_age(view) >= within or (view.alone.seconds or 0) >= within):
        return None
    young = _age(view) < within and view.since_mark_delete is not None
    young = young and (came_in_window(view) or not view.watched)
    return rounds if rounds is not None and (rounds.sure or young) else None


def leaves_early(view: SubscriptionView) -> bool:
    """Whether who is there came lately, and gives nothing back: a storm counts the same."""
    sent = view.circulation
    gives_back = sent is not None and (sent.rate_redeliver or (sent.life and sent.life.again))
    return not gives_back and _age(view, min) < LONG_SECONDS


def came_in_window(view: SubscriptionView) -> bool:
    """Whether the window shows that somebody who was there left, and all who are there came."""
    alone, watched = view.alone, view.watched_seconds
    return bool(watched) and (alone.left if alone is not None else _age(view) < (watched or 0.0))


def outlived(view: SubscriptionView, within: float, still: float = 0.0) -> bool:
    """Whether the oldest message was sent to others before, and to who is there, and remains.

    The dispatcher sends the oldest first. Who is there came less than `within` ago, and what waits
    was sent at once, or more waits, or was sent, than comes in meanwhile; mark-delete has not moved
    for `still` before that.
    """
    age, sent, moved = _age(view), view.since_delivery, view.since_mark_delete
    circulation = view.circulation
    if circulation is None or not circulation.starts_over or not age < within:
        return False
    if moved is not None and moved.seconds - age < still:
        return False
    held = sum(view.kept_by(each) for each in view.served)
    backlog = (view.backlog.entries or 0) if view.backlog is not None else 0
    sent_here = sum(least(each.msg_out_counter) or 0 for each in view.served)
    waits = max(held, sent_here, backlog - (most(view.delayed) or 0))
    at_once = sent is not None and 0 <= age - sent.seconds < QUIET_AFTER.default
    return held > 0 and (at_once or waits > 1 + age * (view.msg_rate_in or 0.0))


def _age(view: SubscriptionView, of: Callable[[Iterable[float]], float] = max) -> float:
    """Seconds since the first of those that are there connected, or nobody requested messages."""
    ages = [each.connected_for for each in view.served]
    ages = ages or [view.alone.since_flow if view.alone else None]
    return of(math.inf if age is None else age.seconds for age in ages)
