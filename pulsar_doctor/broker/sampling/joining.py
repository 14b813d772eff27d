"""Joins windows of one topic to a longer one, so that earlier samples still count."""

from __future__ import annotations

from dataclasses import asdict, replace

from pulsar_doctor.broker.sampling.part import in_order
from pulsar_doctor.broker.stats.backlog import is_empty
from pulsar_doctor.broker.stats.observed import ClusterLimits, TopicWindow
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import SubscriptionStats
from pulsar_doctor.broker.stats.window import (
    Window,
    connections,
    identity,
    reloaded,
    subscription_fell,
)

TOPICS_MOST = 512  # with the last sample kept


def joined(before: TopicWindow, after: TopicWindow) -> TopicWindow:
    """Both, of the same topic or partition. The later one's samples and limits count first."""
    samples = in_order([*before.window.samples, *after.window.samples])
    reported = {name: limit for name, limit in asdict(after.limits).items() if limit is not None}
    limits = ClusterLimits(**(asdict(before.limits) | reported))
    elsewhere = before.elsewhere | after.elsewhere
    return replace(after, window=Window(tuple(samples)), limits=limits, elsewhere=elsewhere)


class LastSamples:
    """Keeps the last sample of each topic, to begin the next round's window. Changes in place."""

    def __init__(self) -> None:
        self._last: dict[str, Sample] = {}

    def window(self, window: TopicWindow) -> TopicWindow:
        """From the last sample of the round before on, where that makes it longer and no weaker."""
        full, samples = window.full_topic, window.window.samples
        before = self._last.pop(full, None)
        if window.window.last.taken_ms is not None and len(self._last) < TOPICS_MOST:
            self._last[full] = window.window.last
        if before is None or not continues(before, window.window.first):
            return window
        return replace(window, window=Window((before, *samples)))


def continues(before: Sample, after: Sample) -> bool:
    """Whether everything that the later reading alone shows is true from the earlier one on.

    Not so where the topic was loaded anew or somebody came since: they would have no beginning. Nor
    where there was nothing to do at first and is now: to wait for work is no slow pace.
    """
    was, now = before.topic.subscriptions or {}, after.topic.subscriptions or {}
    earlier = set(connections(before.topic))
    return (
        before.taken_ms is not None
        and after.taken_ms is not None
        and before.taken_ms <= after.taken_ms
        and now.keys() <= was.keys()
        and not reloaded(before, after)
        and all(identity(each) in earlier for sub in now.values() for each in sub.consumers or ())
        and all(_had_work(was[name], sub) for name, sub in now.items())
    )


def _had_work(was: SubscriptionStats, now: SubscriptionStats) -> bool:
    idle = is_empty(was) and was.msg_out_counter == now.msg_out_counter
    return not subscription_fell(was, now) and (idle or not is_empty(was))
