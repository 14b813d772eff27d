"""The state of the broker's reads for a subscription while nothing moved.

The dispatcher reads entries for its consumers, one read at a time, and the end of a read starts the
next. The flags of the cursor in the internal stats tell what the read does; a healthy reader passes
through all of them, so that only the same picture in every sample says anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Face(Enum):
    """What the flags of one sample say of the dispatcher's read."""

    NONE_PENDING = "no read is pending"
    LOST = "a read is marked as pending that the cursor does not do"
    ASLEEP = "the cursor waits for new entries though there are some"
    UNDER_WAY = "a read is under way"


@dataclass(frozen=True, slots=True)
class ReadState:
    """The broker's read in one sample; None is "not told".

    pending, replaying: whether one is marked as pending, of new entries, or of those to be sent
    again. under_way: reads that the cursor does. waits: whether it waits for new entries. unread,
    replay: entries that are left to read, and to be sent again.
    """

    pending: bool | None
    replaying: bool | None
    under_way: int | None
    waits: bool | None
    unread: int | None
    replay: int | None

    @property
    def face(self) -> Face | None:
        """None where the flags that decide are not reported."""
        if self.under_way:
            return Face.UNDER_WAY
        if self.pending and self.under_way == 0 and self.waits is False:
            return Face.LOST  # whatever a replay does meanwhile
        if self.replaying:  # the reads of a replay are not counted
            return Face.UNDER_WAY
        if self.pending is None or self.replaying is None or self.under_way is None:
            return None
        if not self.pending:
            return Face.NONE_PENDING
        return Face.ASLEEP if self.waits else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerReads:
    """The broker's reading over all samples, where something may be left to send.

    moved: whether it read, or tried to send. states: one for each sample that tells the read
    position, oldest first; none where it moved. seconds: from the first of them to the last; None
    where that is not told. newest: whether the last of them is of the newest sample. position:
    where the next read begins by that one. extended: whether entries were added between them.

    samples, window_seconds: how often, and for how long, the topic was looked at. came: messages
    that came meanwhile. switched: whether the active consumer changed. open_transactions: now.
    """

    moved: bool
    states: tuple[ReadState, ...]
    seconds: float | None
    newest: bool
    position: str | None
    extended: bool
    samples: int
    window_seconds: float
    came: int | None
    switched: bool
    open_transactions: int | None

    @property
    def face(self) -> Face | None:
        """What all samples say; None where they differ or do not tell."""
        faces = {state.face for state in self.states}
        return faces.pop() if len(faces) == 1 else None

    @property
    def unread_least(self) -> int:
        """Entries beyond the read position in every sample."""
        return min((state.unread or 0 for state in self.states), default=0)

    @property
    def left_least(self) -> int:
        """Entries left to send in every sample."""
        return min(((state.unread or 0) + (state.replay or 0) for state in self.states), default=0)

    @property
    def unread_before(self) -> int:
        """Entries beyond the read position since the window began, at least: not new ones."""
        return 0 if self.came is None else self.unread_least - self.came
