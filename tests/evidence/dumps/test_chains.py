"""Who holds what a thread of a dump waits for; the dumps are those of real JVMs, cut to a few."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsar_doctor.evidence.dumps.hotspot import Dump, dump
from pulsar_doctor.evidence.dumps.sittings import LINKS_MOST, LockChains
from pulsar_doctor.evidence.process_report import WaitingThread

DUMPS = Path(__file__).parent
LISTENER, WRITER, CLERK = 14, 13, 12
SYNC = "java.util.concurrent.locks.ReentrantLock$NonfairSync"
BY_AGENT = {WRITER: WaitingThread(WRITER, 0, 1, SYNC, CLERK)}
CHARGE = "com.acme.Waits.charge (Waits.java:48)"
PARKED = """\
"%s" #%d daemon prio=5 os_prio=0 cpu=0.40ms elapsed=2.15s tid=0x1 nid=0x4c8b waiting on condition
   java.lang.Thread.State: WAITING (parking)
\tat jdk.internal.misc.Unsafe.park(java.base@17.0.15/Native Method)
\t- parking to wait for  <0x000000069ec1b7d0> (a %s)
\tat java.util.concurrent.locks.LockSupport.park(java.base@17.0.15/LockSupport.java:211)
\tat com.acme.Waits.get(Waits.java:50)

"""
WAITS_ON = """\
"listener" #%d daemon prio=5 cpu=0.55ms elapsed=2.43s tid=0x1 nid=0x4dfa in Object.wait()  [0x0]
   java.lang.Thread.State: %s (on object monitor)
\tat java.lang.Object.wait(java.base@17.0.15/Native Method)
\t- %s <0x000000069ec1b688> (a com.acme.Ledger)
\tat java.lang.Object.wait(java.base@17.0.15/Object.java:338)
\tat com.acme.Waits.notice(Waits.java:41)
\t- locked <0x000000069ec1b688> (a com.acme.Ledger)

"""
HOLDS = """\
"writer" #13 daemon prio=5 os_prio=0 cpu=0.40ms elapsed=2.15s tid=0x1 nid=0x4c8b runnable
   java.lang.Thread.State: RUNNABLE
\tat com.acme.Waits.write(Waits.java:18)
\t- locked <0x000000069ec1b688> (a com.acme.Ledger)

"""


def recorded(name: str) -> Dump:
    return dump((DUMPS / name).read_text())


def told(text: str, *agent: WaitingThread, thread: int = LISTENER) -> tuple[str | None, list[str]]:
    read = dump(text)
    chains = LockChains.of(read, {each.id: each for each in agent})
    one = next(each for each in read.threads if each.id == thread)
    wait = chains.wait(one)
    return wait and wait.text, [each.name for each in chains.chain(one)]


def test_a_chain_of_a_monitor_and_a_lock_is_followed_to_the_thread_that_sleeps():
    read = recorded("chain.txt")
    chains = LockChains.of(read, BY_AGENT)
    listener = next(each for each in read.threads if each.id == LISTENER)
    wait = chains.wait(listener)
    assert wait is not None
    assert wait.text == "the monitor of a java.lang.Object, which writer holds"
    writer, clerk = chains.chain(listener)
    assert (writer.name, clerk.name) == ("writer", "clerk")
    assert listener.sitting("listens").where == CHARGE
    assert writer.sitting("application").where == (
        "java.util.concurrent.locks.ReentrantLock.lock under "
        "com.acme.Waits.lambda$main$2 (Waits.java:18)"
    )


def test_without_the_agent_the_owner_of_a_lock_is_not_known_and_that_of_a_monitor_is():
    text = (DUMPS / "chain.txt").read_text()
    assert told(text)[1] == ["writer"]
    assert told(text, thread=WRITER) == (
        "a java.util.concurrent.locks.ReentrantLock, whose owner is not known",
        [],
    )


def test_what_the_agent_has_read_of_another_wait_is_not_taken():
    other = WaitingThread(WRITER, 0, 2, "java.util.concurrent.FutureTask", CLERK)
    assert told((DUMPS / "chain.txt").read_text(), other, thread=WRITER)[1] == []


@pytest.mark.parametrize(
    ("how", "state", "waits", "chain"),
    [
        (
            "waiting on",
            "WAITING",
            "a com.acme.Ledger, which has no owner: who is to end the wait is not known",
            [],
        ),
        (
            "waiting to re-lock in wait()",
            "BLOCKED",
            "the monitor of a com.acme.Ledger, which writer holds",
            ["writer"],
        ),
    ],
)
def test_a_thread_in_wait_has_left_the_monitor_and_needs_it_again_once_notified(
    how, state, waits, chain
):
    text = WAITS_ON % (LISTENER, state, how) + HOLDS
    assert told(text, WaitingThread(LISTENER, 0, 1, "com.acme.Ledger", 13)) == (waits, chain)


@pytest.mark.parametrize(
    ("of", "agent", "waits"),
    [
        (
            "java.util.concurrent.CompletableFuture$Signaller",
            {},
            "a java.util.concurrent.CompletableFuture, which has no owner: who is to complete it "
            "is not known",
        ),
        (
            "java.util.concurrent.FutureTask",
            {"begun": False},
            "a java.util.concurrent.FutureTask, which no thread has begun to run",
        ),
        (
            "java.util.concurrent.FutureTask",
            {"begun": True, "owner": 13},
            "a java.util.concurrent.FutureTask, which writer runs",
        ),
        (
            "java.util.concurrent.Semaphore$NonfairSync",
            {},
            "a java.util.concurrent.Semaphore, which has no owner: who is to end the wait is not "
            "known",
        ),
        ("org.acme.Gate", {"owner": 13}, "an org.acme.Gate, which writer holds"),
        (
            "java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject",
            {},
            None,  # for work, as its frames say
        ),
    ],
)
def test_what_has_no_owner_is_said_to_have_none(of, agent, waits):
    text = PARKED % ("listener", LISTENER, of) + HOLDS
    assert told(text, WaitingThread(LISTENER, 0, 1, of, **agent))[0] == waits


RATES = """\
"%s" #%d daemon prio=5 os_prio=0 cpu=0.15ms elapsed=1.25s tid=0x1 nid=0x3602 in Object.wait()  [0x0]
   java.lang.Thread.State: RUNNABLE
\tat com.acme.%s(Waits.java:141)
\t- waiting on the Class initialization monitor for com.acme.%s
\tat java.lang.Thread.run(java.base@17.0.15/Thread.java:840)

"""
JOINS = """\
"listener" #14 prio=5 os_prio=0 cpu=0.13ms elapsed=1.11s tid=0x1 nid=0x3746 in Object.wait()  [0x0]
   java.lang.Thread.State: WAITING (on object monitor)
\tat java.lang.Object.wait0(java.base@25.0.2/Native Method)
\t- waiting on <0x00000000ffe2f3a8> (a com.acme.Sleeper)
\tat java.lang.Object.wait(java.base@25.0.2/Unknown Source)
\tat java.lang.Thread.join(java.base@25.0.2/Unknown Source)
\t- locked <0x00000000ffe2f3a8> (a com.acme.Sleeper)
\tat java.lang.Thread.join(java.base@25.0.2/Unknown Source)
\tat com.acme.Waits.stop(Waits.java:138)

"""


def test_who_initializes_a_class_has_its_initializer_among_its_frames():
    ring = RATES % ("one", 1, "Euro.<clinit>", "Dollar") + RATES % (
        "other",
        2,
        "Dollar.<clinit>",
        "Euro",
    )
    assert told(ring, thread=1) == ("the class com.acme.Dollar, which other initializes", ["other"])
    assert told(ring, thread=2)[1] == ["one"]
    alone = RATES % ("one", 1, "Main.main", "Dollar")  # what it extends is initialized first
    assert told(alone, thread=1) == (
        "the class com.acme.Dollar, which another thread initializes",
        [],
    )


def test_whose_end_a_thread_waits_for_is_read_by_the_agent():
    assert told(JOINS) == ("the end of another thread, which is not known", [])
    sleeper = WaitingThread(LISTENER, 0, 1, "com.acme.Sleeper", 13)
    assert told(JOINS + HOLDS, sleeper) == ("the end of writer", ["writer"])


def test_a_thread_may_wait_for_what_it_holds_itself():
    mine = WaitingThread(LISTENER, 0, 1, SYNC, LISTENER)
    assert told(PARKED % ("listener", LISTENER, SYNC), mine) == (
        "a java.util.concurrent.locks.ReentrantLock, which it holds itself",
        [],
    )


def test_a_deadlock_ends_the_chain_and_so_does_its_limit():
    ring = "".join(PARKED % (f"t{each}", each, SYNC) for each in range(3))
    agent = [WaitingThread(each, 0, 1, SYNC, (each + 1) % 3) for each in range(3)]
    assert told(ring, *agent, thread=0)[1] == ["t1", "t2"]
    many = "".join(PARKED % (f"t{each}", each, SYNC) for each in range(50))
    agent = [WaitingThread(each, 0, 1, SYNC, each + 1) for each in range(49)]
    assert len(told(many, *agent, thread=0)[1]) == LINKS_MOST
    itself = WaitingThread(0, 0, 1, SYNC, 0)
    assert told(many, itself, thread=0)[1] == []
