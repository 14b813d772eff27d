"""Limits a consumer's permits from the broker's samples while its commands pass.

The clocks of broker, capture and this machine agree within MARGIN_NS only. So a FLOW or a MESSAGE
that passed between MARGIN_NS before the question and now is in the sample or is not: each widens
the balance by its own permits, and nothing else does. What the frames moved is known exactly, so
the bounds of all samples are bounds of one number: what the balance is without those moves. They
narrow from sample to sample, and where none is left, frames or samples are wrong.

What a FLOW brings while its consumer is blocked on unacknowledged messages is set aside, and not in
the sample: on types that count these the least falls by what was granted since the last sample.
"""

from __future__ import annotations

from typing import NamedTuple

from pulsar_doctor.evidence.values import Count, narrowed

MARGIN_NS = 1_000_000_000
BUCKET_NS = 100_000_000
BUCKETS_MOST = 100  # ten seconds: a sample that takes longer tells a name alone


class FramesMoved(NamedTuple):
    """How much passed of one consumer in some time."""

    granted: int
    spent: int
    acks: int  # message ids


class RecentFrames:
    """What has passed of one consumer of late, in tenths of a second. Changed in place."""

    __slots__ = ("_buckets", "_forgotten_ns")

    def __init__(self) -> None:
        self._buckets: list[list[int]] = []  # number of the bucket, then as in FramesMoved
        self._forgotten_ns = 0  # nothing is known of what passed before

    def add(self, now_ns: int, passed: FramesMoved) -> None:
        """A frame has passed."""
        bucket, buckets = now_ns // BUCKET_NS, self._buckets
        if not buckets or buckets[-1][0] != bucket:
            buckets.append([bucket, 0, 0, 0])
        last = buckets[-1]
        last[1] += passed.granted
        last[2] += passed.spent
        last[3] += passed.acks
        if len(buckets) > BUCKETS_MOST:
            self._forgotten_ns = (buckets.pop(0)[0] + 1) * BUCKET_NS

    def since(self, then_ns: int) -> FramesMoved | None:
        """What has passed since then, and perhaps a little before; None: it is not known."""
        if then_ns < self._forgotten_ns:
            return None
        late = [each for each in self._buckets if (each[0] + 1) * BUCKET_NS > then_ns]
        return FramesMoved(*(sum(each[n] for each in late) for n in (1, 2, 3)))


class PermitBalance:
    """One consumer's permits without what its frames have moved. Changed in place."""

    __slots__ = ("_granted", "_known", "_spent", "agreed")

    def __init__(self) -> None:
        self._known: Count | None = None
        self._granted = self._spent = 0  # at the last sample
        self.agreed = False  # the last samples say the same, though frames have passed between them

    def sampled(self, now: Count, granted: int, spent: int, *, sets_aside: bool) -> Count | None:
        """What it is now, by all samples; None where this one contradicts those before.

        now: by this sample alone. granted, spent: by all frames until now.
        """
        moved = granted - spent
        own, before = _less(now, moved), self._known
        if before is not None and sets_aside:
            before = Count((before.least or 0) - (granted - self._granted), before.most)
        both = own if before is None else narrowed(before, own)
        has_moved = (granted, spent) != (self._granted, self._spent)
        is_same = before is not None and both is not None
        self.agreed = is_same and (has_moved or self.agreed)
        self._known, self._granted, self._spent = both or own, granted, spent
        return None if both is None else _less(both, -moved)


def _less(count: Count, moved: int) -> Count:
    return Count((count.least or 0) - moved, (count.most or 0) - moved)
