"""Since when nobody is attached to a subscription, and how that came."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.broker.stats.sample import Age


@dataclass(frozen=True, slots=True)
class Alone:
    """Nobody is attached.

    left: whether somebody was, within the window. reloaded: whether the topic may have been loaded
    anew since then, which closes every consumer. seconds: for how long nobody was, at least; None
    where that is not told. since_flow: since anybody asked for messages.
    """

    left: bool
    reloaded: bool
    seconds: float | None
    since_flow: Age | None
