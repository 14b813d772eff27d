"""A consumer without permits at the end of its trace, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class AtTheEnd(NamedTuple):
    """A consumer without permits, and the worst finding about it (None: no finding)."""

    trace_id: str
    incarnation: int
    code: str | None
    severity: str | None
    since_us: int | None = None  # when its permits ran out
    closed_us: int | None = None  # when it was closed; None: it is still open
    until_us: int = 0  # until when its trace was recorded
    identity: Mapping[str, Any] = {}  # columns of a trace, as in its rows
    numbers: Mapping[str, Any] = {}  # columns of a trace, as in its rows
