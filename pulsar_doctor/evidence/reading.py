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
    """The broker's read in one sample. None is not reported."""

    pending: bool | None  # whether a read of new entries is marked as pending
    replaying: bool | None  # whether a read of entries to be sent again is
    under_way: int | None  # reads that the cursor does
    waits: bool | None  # whether the cursor waits for new entries
    unread: int | None  # entries left to read
    replay: int | None  # entries to be sent again

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
    """The broker's reading over all samples, where something may be left to send."""

    moved: bool  # whether it read, or tried to send
    # One for each sample with the read position, oldest first; none where it moved.
    states: tuple[ReadState, ...]
    seconds: float | None  # from the first of them to the last; None: not reported
    newest: bool  # whether the last of them is of the newest sample
    position: str | None  # where the next read begins, by the last of them
    extended: bool  # whether entries were added between them
    samples: int  # of the topic
    window_seconds: float  # of all samples
    came: int | None  # messages, within the window
    switched: bool  # whether the active consumer changed

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
