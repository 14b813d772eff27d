"""Where the threads of a JVM are that matter to a consumer, and for whom each of them waits.

A monitor's holder is in the dump itself: it has entered it, and does not wait on it. So is the
thread that initializes a class (from Java 16 on), and with `Thread.print -l` the owner of a lock of
java.util.concurrent. The agent reads that owner too, the thread that runs a FutureTask, and the
thread that another one waits for to end. Latches, semaphores and a CompletableFuture have no owner:
whoever will end the wait is known to nobody.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from pulsar_doctor.evidence.dumps.hotspot import Dump
from pulsar_doctor.evidence.dumps.java import Awaited, JavaThread, innermost_own
from pulsar_doctor.evidence.process_report import (
    Role,
    Sitting,
    Wait,
    WaitingThread,
    WaitKind,
    method,
)

CHAINS_MOST = 1000  # threads that wait for others
# For how long each thread is there, at least, and whether that was seen by two dumps alone.
ThreadTimes = Mapping[JavaThread, tuple[float, bool]]
LINKS_MOST = 10
CLINIT = ".<clinit>"
SYNC = re.compile(r"\$(?:NonfairSync|FairSync|Sync|Signaller|QNode)$")
IDLE = re.compile(  # what a thread without work waits for; its frames say that
    r".*\$ConditionObject|java\.util\.concurrent\.(?:SynchronousQueue|LinkedTransferQueue"
    r"|ForkJoinPool|Exchanger)\b|java\.util\.TaskQueue|java\.lang\.ref\."
)
LOCK = re.compile(r"java\.util\.concurrent\.locks\.(?:Reentrant|Stamped)\w*Lock\b")
FUTURE = re.compile(r".*(?:Future|FutureTask|Promise|ForkJoinTask(?:\$\w+)?)$")


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


@dataclass(frozen=True, slots=True)
class LockChains:
    """The threads of one dump by who holds what, and what the agent has read of each."""

    by_id: Mapping[int, JavaThread]
    # A monitor's address, or a class -> the thread that has entered it, or initializes it.
    holders: Mapping[str, JavaThread]
    waiting: Mapping[int, WaitingThread]

    @classmethod
    def of(cls, dump: Dump, waiting: Mapping[int, WaitingThread]) -> LockChains:
        """Finds every chain, in one pass."""
        holders = {
            address: each
            for each in dump.threads
            for address in each.held
            if each.awaited is None or each.awaited.address != address
        }
        for each in dump.threads:
            calls = map(method, each.frames)
            begun = (call.removesuffix(CLINIT) for call in calls if call.endswith(CLINIT))
            holders |= dict.fromkeys(begun, each)
        return cls({each.id: each for each in dump.threads}, holders, waiting)

    def owner(self, thread: JavaThread) -> JavaThread | None:
        """Who holds what it waits for; None where nobody does, or nobody tells.

        Of an object that is to be notified the JVM tells who is in its monitor, who may be anybody.
        """
        found = self._owner(thread)
        return None if found is thread else found

    def _owner(self, thread: JavaThread) -> JavaThread | None:
        awaited, waiting = thread.awaited, self._waiting(thread)
        if awaited is None:
            return None
        if awaited.initializes:
            return self.holders.get(awaited.of)
        if not (awaited.enters or awaited.parks or thread.joins):
            return None
        found = None if thread.joins else self.holders.get(awaited.address or "")
        if found is None and waiting is not None and waiting.owner is not None:
            found = self.by_id.get(waiting.owner)
        return found

    def wait(self, thread: JavaThread) -> Wait | None:
        """What it waits for; None where it waits for nothing, or for work."""
        if thread.awaited is None or (kind := _kind(thread, thread.awaited)) is None:
            return None
        owner, waiting = self._owner(thread), self._waiting(thread)
        if owner is not None and kind == "signal":
            kind = "lock"
        begun = waiting.begun if waiting is not None else None
        name = None if owner is None else owner.name
        return Wait(kind, SYNC.sub("", thread.awaited.of), name, begun, itself=owner is thread)

    def chain(self, thread: JavaThread) -> tuple[JavaThread, ...]:
        """The owners one after the other; a deadlock ends with the first that is there again."""
        found: list[JavaThread] = []
        met = {thread.id}
        at = self.owner(thread) if self.wait(thread) else None
        while at is not None and at.id not in met and len(found) < LINKS_MOST:
            found.append(at)
            met.add(at.id)
            at = self.owner(at) if self.wait(at) else None
        return tuple(found)

    def _waiting(self, thread: JavaThread) -> WaitingThread | None:
        """What the agent has read, if the thread waited for the same kind of object by then."""
        waiting = self.waiting.get(thread.id)
        if waiting is None or thread.awaited is None or waiting.on != thread.awaited.of:
            return None
        return waiting


def _kind(thread: JavaThread, awaited: Awaited) -> WaitKind | None:
    if awaited.enters:
        return "monitor"
    if awaited.initializes:
        return "class"
    if thread.joins:
        return "end"
    if IDLE.match(awaited.of):
        return None
    if LOCK.match(awaited.of):
        return "lock"
    name = awaited.of
    return "future" if FUTURE.match(name) or name.endswith("$Signaller") else "signal"
