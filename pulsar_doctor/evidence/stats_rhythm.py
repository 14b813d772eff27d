"""How the acks of one consumer come, by the broker's stats: whether it works on as it did.

The stats have the moment of the last ack only, and on Shared and Key_Shared how many messages came
back. So the acks of a window are those between its samples, and a silence is judged by the time of
a message over its life.
"""

from __future__ import annotations

from itertools import pairwise

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE
from pulsar_doctor.broker.stats.window import SHORT_MS
from pulsar_doctor.evidence import ack_wait
from pulsar_doctor.evidence.ack_wait import Acks
from pulsar_doctor.evidence.consumer import JUST_NOW_MS, RHYTHM_MOST, RHYTHM_NEEDS
from pulsar_doctor.evidence.stats_moved import ConsumerWindow, returned_in_life

ACKS_NEEDED = 3  # moments, before a window says how far apart they are
BURSTS_SECONDS = 30.0  # of silence, which a burst of acks may be followed by


def acks_of(of: ConsumerWindow) -> Acks:
    """How its acks come."""
    return Acks(
        of.returned,
        of.acked,
        of.span_ms,
        without_ack(of),
        an_ack=of.messages_an_ack,
        apart_ms=acks_apart_ms(of),
        rhythm_seconds=rhythm(of),
        may_fit=may_fit(of),
        never="last_acked_timestamp_ms" in of.now.never,
    )


def is_working(of: ConsumerWindow) -> bool:
    """Whether it acknowledged something within the window, or just now where that is open.

    Without a clock: within a short window, or the last full minute, of which the rates are.
    """
    since, moved = of.since(of.now.last_acked_timestamp_ms), of.acked or of.returned
    if since is not None and since.exact:
        return not _acks_ended(of) if moved else of.moved is None and since.ms < JUST_NOW_MS
    return bool(of.now.message_ack_rate or (moved and of.observed.window.is_short))


def _ack_moments(of: ConsumerWindow) -> list[int]:
    """The last ack of each sample, epoch milliseconds; each moment once."""
    seen = (each.last_acked_timestamp_ms for each in of.course.values if each is not None)
    return [moment for moment in dict.fromkeys(seen) if moment is not None]


def ack_gap(of: ConsumerWindow) -> float | None:
    """At most: between two samples that differ there may have been more acks."""
    return ack_wait.longest_gap([moment / 1000 for moment in _ack_moments(of)])


def acks_apart_ms(of: ConsumerWindow) -> int | None:
    """The longest time between two acks that follow in the window; None: too few are known."""
    moments = _ack_moments(of)
    if len(moments) < ACKS_NEEDED:
        return None
    return max(after - before for before, after in pairwise(moments))


def _acks_ended(of: ConsumerWindow) -> bool:
    """Whether it holds messages, and none was acknowledged for much longer than usual."""
    last = of.since(of.now.last_acked_timestamp_ms, of.now.last_consumed_timestamp_ms)
    apart_ms = acks_apart_ms(of)
    if last is None or of.held is None or not of.held.least:
        return False
    if apart_ms is None and last.ms >= SHORT_MS and of.finished and of.span_ms:
        apart_ms = of.span_ms * of.messages_an_ack // of.finished
    return apart_ms is not None and not ack_wait.in_rhythm(last.ms, apart_ms / 1000)


def in_rhythm(of: ConsumerWindow) -> bool:
    """Whether its silence is no longer than twice the time of a message over its life.

    That average has idle times in it, so it excuses no silence of RHYTHM_MOST. Where only
    bounds are known of what it has done, it may be no more than twice the shortest average.
    """
    life_done, done = of.finished_in_life, 0
    if life_done is not None and of.now.last_acked_timestamp_ms is not None:
        done = max(life_done.least, life_done.most - of.ahead)
    quiet, life = of.silence, of.since(of.now.connected_since_ms)
    if quiet is None or life is None or not (quiet.exact and life.exact) or done < RHYTHM_NEEDS:
        return False
    return quiet.ms <= min(2 * life.ms / done, 1000 * RHYTHM_MOST)


def rhythm(of: ConsumerWindow) -> float | None:
    """Seconds for a message over its life, where its last ack is no older than twice that."""
    now, returned = of.now, of.returned_in_life
    life = of.since(now.connected_since_ms)
    acked = of.since(now.last_acked_timestamp_ms)
    if returned is None or returned < 2 or life is None or acked is None:
        return None
    seconds = life.ms / returned / 1000
    exact = life.exact and acked.exact and seconds > 0
    return seconds if exact and ack_wait.in_rhythm(acked.ms, seconds * of.messages_an_ack) else None


def may_fit(of: ConsumerWindow) -> bool:
    """Whether its last ack may be as old as usual, by its pace until then; needs no clock.

    One sample shows no gaps: who acknowledges in bursts is silent for longer than on average.
    """
    now, returned = of.now, of.returned_in_life
    began_ms, acked_ms = now.connected_since_ms, now.last_acked_timestamp_ms
    acked = of.since(acked_ms)
    if not returned or acked is None or acked_ms is None or began_ms is None:
        return False
    if returned >= 2 and of.acked is None and acked.seconds < BURSTS_SECONDS:
        return True
    seconds = (acked_ms - began_ms) / returned / 1000
    return returned >= 2 and ack_wait.may_be_rhythm(acked.ms, seconds * of.messages_an_ack)


def without_ack(of: ConsumerWindow) -> Age | None:
    """Since its last ack or, if later, delivery or connection; None where nothing tells.

    At least the window, where it held messages all the time and none was acknowledged.
    """
    now, first = of.now, of.course.values[0]
    signs = (
        now.last_acked_timestamp_ms,
        now.last_consumed_timestamp_ms,
        now.connected_since_ms,
    )
    reported = of.tells("last_acked_timestamp_ms", "last_consumed_timestamp_ms")
    age = of.since(*signs) if reported else None
    span_ms = of.observed.window.span_least_ms
    held = first is not None and (first.unacked_messages or 0) > 0
    none = of.returned == 0 or of.acked is False  # an ack may count for nothing
    if held and none and span_ms and (age is None or age.ms < span_ms):
        return Age(span_ms, False)
    return age


def never_acked(of: ConsumerWindow) -> bool | None:
    """By the moment of its last ack; else where it holds all that it was ever sent."""
    now = of.now
    if now.last_acked_timestamp_ms is not None:
        return False
    if "last_acked_timestamp_ms" in now.never:
        return True
    singles = (now.avg_messages_per_entry or 1) <= 1  # of a batch a part may be acknowledged
    none_came_back = of.returned_in_life == 0 or _holds_all(of)
    return True if singles and none_came_back and now.msg_out_counter else None


def _holds_all(of: ConsumerWindow) -> bool:
    """Whether published, sent and not acknowledged are one number, with nothing left to send.

    Exclusive and Failover do not count what a consumer holds. All that was published since the
    topic was loaded was sent, and nothing else was; and as much is not acknowledged.
    """
    observed, out = of.observed, of.now.msg_out_counter
    if observed.type not in SINGLE_ACTIVE or len(observed.consumers) > 1:
        return False
    left, topic = observed.left, observed.window.last.topic
    return (
        left is not None
        and left.most == 0
        and out == topic.msg_in_counter == observed.now.msg_out_counter == observed.backlog.entries
    )


def holds_since(of: ConsumerWindow) -> Age | None:
    """What it was sent first is no younger than what it was sent last."""
    since = of.since(of.now.last_consumed_timestamp_ms)
    return None if since is None else Age(since.ms, exact=False)


def acked_messages(of: ConsumerWindow) -> int | None:
    """Messages that it acknowledged in the window; None where not reported."""
    return None if of.acked is False else of.course.change(returned_in_life)


def drain_seconds(of: ConsumerWindow) -> float | None:
    done, span_ms = acked_messages(of), of.busy_ms
    held = max(0, of.unacked or 0)
    return held * span_ms / (done + 1) / 1000 if done and done > 0 and span_ms else None
