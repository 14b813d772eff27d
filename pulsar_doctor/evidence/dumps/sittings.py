"""Where the threads of a JVM are that matter to a consumer, and for whom each of them waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import islice

from pulsar_doctor.evidence.dumps.chains import LockChains
from pulsar_doctor.evidence.dumps.frames import innermost_own
from pulsar_doctor.evidence.dumps.hotspot import Dump
from pulsar_doctor.evidence.dumps.java import JavaThread
from pulsar_doctor.evidence.process_report import Role, Sitting, WaitingThread

CHAINS_MOST = 1000  # threads that wait for others
# For how long each thread is there, at least, and whether that was seen by two dumps alone.
ThreadTimes = Mapping[JavaThread, tuple[float, bool]]


def sittings(
    now: Dump,
    waiting: Mapping[int, WaitingThread],
    times_of: Callable[[Iterable[JavaThread]], ThreadTimes],
) -> tuple[Sitting, ...]:
    """waiting: what the agent has read of threads, by number; times_of: only these matter."""
    chains = LockChains.of(now, waiting)
    matter = _that_matter(now)
    held_up = {one.id: found for one, _ in matter if (found := chains.chain(one))}
    held_up = dict(islice(held_up.items(), CHAINS_MOST))
    owners = {each.id: each for found in held_up.values() for each in found}
    times = times_of([*owners.values(), *(each for each, _ in matter)])
    return tuple(
        replace(
            _seated(each, role, times, chains),
            chain=tuple(
                _seated(owner, owner.role or "application", times, chains)
                for owner in held_up.get(each.id, ())
            ),
        )
        for each, role in matter
    )


def _that_matter(dump: Dump) -> list[tuple[JavaThread, Role]]:
    """Threads with a role. Those with frames of libraries alone are the application's only where
    no thread has a frame of its own."""
    found = [(each, role) for each in dump.threads if (role := each.role) is not None]
    own = {each.id for each, role in found if role != "application" or innermost_own(each.frames)}
    some = any(role == "application" and each.id in own for each, role in found)
    return [(each, role) for each, role in found if not some or each.id in own]


def _seated(thread: JavaThread, role: Role, times: ThreadTimes, chains: LockChains) -> Sitting:
    seconds, since_look = times[thread]
    wait = chains.wait(thread)
    if role == "receives" and wait is not None and wait.owner is None:
        wait = None  # it waits for a message
    return replace(thread.sitting(role, seconds or None), waits=wait, since_look=since_look)
