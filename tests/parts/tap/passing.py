"""What permits the broker can have had of one consumer, by what passed the tap around that time.

A FLOW passes the tap before it reaches the broker, a MESSAGE after it has left, each by at most
MARGIN_NS. So at a moment t the broker has counted all FLOWs up to t - MARGIN_NS and perhaps later
ones, and all messages up to t and perhaps those until t + MARGIN_NS. What passed is kept in steps
of STEP_NS, for the last few seconds.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from pulsar_doctor.wire.columns import Row

MARGIN_NS = 200_000_000  # on the way between tap and broker
STEP_NS = 20_000_000
STEPS_MOST = 512  # in which something moved: ten seconds and more
MARGIN = MARGIN_NS // STEP_NS
SOON = 2  # steps after which the tap has surely written down what it read


@dataclass(slots=True)
class PassedStep:
    """What moved within STEP_NS. permits: available after it. seq: of its last move."""

    number: int
    permits: int
    seq: int
    added: int = 0
    taken: int = 0


@dataclass(frozen=True, slots=True)
class PossiblePermits:
    """Between which numbers the broker's lay. seq: of the last move that may be in it.

    exact: nothing moved. messages_coming: some passed after the answer: before them others may
    have been debited that had not passed yet.
    """

    low: int
    high: int
    seq: int
    exact: bool
    messages_coming: bool

    def nearest(self, permits: int) -> int:
        """The one that is nearest to what the broker says."""
        return max(self.low, min(self.high, permits))


class Passing:
    """The newest moves of one incarnation. Changed in place.

    permits: those before its first move; None where that is not known.
    """

    def __init__(self, permits: int | None) -> None:
        self._permits = permits  # before the oldest step that is kept
        self._forgotten = -1  # number of the newest step that is not
        self._steps: deque[PassedStep] = deque()
        self.last_seq = 0

    def add(self, row: Row, *, moves: bool) -> None:
        """A row of this incarnation with its ledger. moves: even where permits are the same."""
        now = row.available_permits
        before = self._steps[-1].permits if self._steps else self._permits
        if not moves and now == before:
            return
        self.last_seq = row.seq
        if now is None:
            now = before or 0
        change = 0 if before is None else now - before
        step = self._step(row.mono_ns // STEP_NS)
        step.permits, step.seq = now, row.seq
        if change > 0:
            step.added += change
        else:
            step.taken -= change

    def _step(self, number: int) -> PassedStep:
        steps = self._steps
        if steps and steps[-1].number >= number:
            return steps[-1]
        if not steps and self._permits is None:
            self._forgotten = number  # what was before it is not known
        steps.append(PassedStep(number, 0, 0))
        if len(steps) > STEPS_MOST:
            oldest = steps.popleft()
            self._permits, self._forgotten = oldest.permits, oldest.number
        return steps[-1]

    def between(self, from_ns: int, until_ns: int) -> PossiblePermits | None:
        """What the broker can have said between these two; None where that is not known any more.

        To be asked once all has been added that passed until MARGIN_NS after until_ns.
        """
        first, last = from_ns // STEP_NS, until_ns // STEP_NS
        permits, seq = self._permits, 0
        within: list[PassedStep] = []
        for step in self._steps:
            if step.number < first - MARGIN:
                permits, seq = step.permits, step.seq
            elif step.number <= last + MARGIN:
                within.append(step)
        if permits is None or self._forgotten >= first - MARGIN:
            return None
        return PossiblePermits(
            low=min(_permits(permits, within, first, last, added=MARGIN + 1, taken=-MARGIN)),
            high=max(_permits(permits, within, first, last, added=-SOON, taken=SOON)),
            seq=within[-1].seq if within else seq,
            exact=not within,
            messages_coming=any(step.taken and step.number >= last for step in within),
        )


def _permits(
    permits: int, steps: list[PassedStep], first: int, last: int, *, added: int, taken: int
) -> list[int]:
    """From the first step to the last, where what moved counts so many steps later."""
    moves = [(step.number + added, step.added) for step in steps]
    moves += [(step.number + taken, -step.taken) for step in steps]
    told = []
    for at, change in sorted(moves):
        if at > last:
            break
        if at > first:
            told.append(permits)
        permits += change
    return [*told, permits]
