"""The list of scenarios: a name, what is to be found, and how the state is produced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pulsar_doctor.wording.sizes import VERSION
from tests.scenarios.scene import Scene, scene

Play = Callable[[Scene], None]

DEFAULT: tuple[str, ...] = ()
FIRST, MIDDLE, LAST = TURNS = range(3)
# Nobody can wait five minutes here: what has stood still for six seconds shall count as long.
SHORT = (
    *(
        f"{code}.refill_wait=5s"
        for code in (
            "permits-exhausted",
            "prefetch-hogging",
            "negative-permits",
            "zero-queue-unsupported",
            "blocked-on-unacked-consumer",
            "blocked-on-unacked-subscription",
            "key-shared-blocked",
        )
    ),
    "not-acknowledging.silent_for=5s",
)


@dataclass(frozen=True, slots=True)
class Expected:
    """The verdict on the subscription. code: the first finding's; None: nothing beyond info."""

    status: str
    code: str | None = None


HEALTHY = Expected("healthy")
UNKNOWN = Expected("unknown")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One state of a real broker.

    play: produces the state, returns when it is settled; it is held until the scene closes.
    settings: thresholds for `--set`, for what cannot wait five minutes. during: what happens in
    the middle of the window. turn: FIRST where it is much work, LAST where it does not hold
    long: it begins when the others stand. since: the first version of Pulsar that can be in that
    state. until: the version from which on it is no fault any more. conf: gives settings without
    which the broker cannot be in that state; it is recorded, and no state of the shared brokers.
    """

    name: str
    expects: Expected
    play: Play
    settings: tuple[str, ...] = DEFAULT
    during: Play | None = None
    turn: int = MIDDLE
    since: tuple[int, int] | None = None
    until: tuple[int, int] | None = None
    conf: Callable[[], Mapping[str, str]] | None = None

    def is_of(self, version: str | None) -> bool:
        """Whether a broker of this version can be in that state. None: the default one."""
        major, minor, *_ = (version or VERSION).split(".")
        of = (int(major), int(minor))
        return (self.since or of) <= of and (self.until is None or of < self.until)


SCENARIOS: dict[str, Scenario] = {}


def stalled(code: str) -> Expected:
    """A standstill with this cause first."""
    return Expected("stalled", code)


def warning(code: str) -> Expected:
    """Something to look at, with this cause first."""
    return Expected("warning", code)


def scenario(
    name: str,
    expects: Expected,
    *,
    settings: tuple[str, ...] = DEFAULT,
    during: Play | None = None,
    turn: int = MIDDLE,
    since: tuple[int, int] | None = None,
    until: tuple[int, int] | None = None,
    conf: Callable[[], Mapping[str, str]] | None = None,
) -> Callable[[Play], Play]:
    """Enters the decorated function into SCENARIOS."""

    def enter(play: Play) -> Play:
        assert name not in SCENARIOS, name
        SCENARIOS[name] = Scenario(name, expects, play, settings, during, turn, since, until, conf)
        return play

    return enter


@contextmanager
def stage(played: Scenario, service_url: str, admin_url: str, topic: str) -> Iterator[Scene]:
    """The scene with the state settled in it; it is held until the end of the block."""
    with scene(service_url, admin_url, topic) as opened:
        played.play(opened)
        yield opened
