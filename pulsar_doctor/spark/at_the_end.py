"""A consumer without permits at the end of its trace, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class AtTheEnd(NamedTuple):
    """A consumer without permits, and the worst that is found of it; None where nothing is.

    since_us: since when; closed_us: when it ended, None where it is still there; until_us: when its
    trace was last watched. identity, numbers: as its rows have them, in the columns of a trace.
    """

    trace_id: str
    incarnation: int
    code: str | None
    severity: str | None
    since_us: int | None = None
    closed_us: int | None = None
    until_us: int = 0
    identity: Mapping[str, Any] = {}
    numbers: Mapping[str, Any] = {}
