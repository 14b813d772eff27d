"""What a thread dump says of the threads of a Pulsar consumer."""

from __future__ import annotations

import pytest

from pulsar_doctor.evidence.dumps.hotspot import dump

HEAD = "2026-05-01 12:00:00\nFull thread dump OpenJDK 64-Bit Server VM (17.0.15 mixed mode):\n\n"
LISTENER = """\
"pulsar-external-listener-3-1" #33 [812] daemon prio=5 os_prio=0 cpu=1.20ms elapsed=41.02s \
tid=0x00007f nid=812 runnable  [0x00007f]
   java.lang.Thread.State: RUNNABLE
\tat sun.nio.ch.Net.poll(java.base@21.0.2/Native Method)
\tat java.net.Socket$SocketInputStream.read(java.base@21.0.2/Socket.java:1099)
\t- locked <0x00000000febd5de0> (a java.lang.Object)
\tat com.acme.Billing.charge(Billing.java:88)
\tat com.acme.Worker.received(Worker.java:12)
\tat org.apache.pulsar.client.impl.ConsumerBase.callMessageListener(ConsumerBase.java:1228)
\tat org.apache.pulsar.client.impl.ConsumerBase.lambda$triggerListener$9(ConsumerBase.java:1190)
\tat org.apache.pulsar.client.impl.ConsumerBase$$Lambda/0x00007f8a1c3e5a18.run(Unknown Source)
\tat java.lang.Thread.run(java.base@21.0.2/Thread.java:1583)
"""
RECEIVER = """\
"main" #1 prio=5 os_prio=0 cpu=971.03ms elapsed=6.88s tid=0x00007f12 nid=0x59d3 waiting [0x0]
   java.lang.Thread.State: WAITING (parking)
\tat jdk.internal.misc.Unsafe.park(java.base@17.0.15/Native Method)
\t- parking to wait for  <0x00000000f0bb78f8> (a java.util.concurrent.locks.Condition)
\tat app//org.apache.pulsar.common.util.collections.GrowableArrayBlockingQueue.take(G.java:179)
\tat app//org.apache.pulsar.client.impl.ConsumerImpl.internalReceive(ConsumerImpl.java:474)
\tat app//org.apache.pulsar.client.impl.ConsumerBase.receive(ConsumerBase.java:250)
\tat app//com.acme.Main.main(Main.java:20)
"""
SHADED = RECEIVER.replace("org.apache.pulsar.client", "acme.shade.org.apache.pulsar.client")
ACKNOWLEDGES = RECEIVER.replace(
    "ConsumerImpl.internalReceive", "ConsumerImpl.doAcknowledge"
).replace("ConsumerBase.receive", "ConsumerBase.acknowledge")
IDLE = """\
"pulsar-external-listener-3-1" #33 daemon prio=5 os_prio=0 cpu=1ms elapsed=4s tid=0x1 nid=0x1f \
waiting on condition  [0x00007f]
   java.lang.Thread.State: WAITING (parking)
\tat jdk.internal.misc.Unsafe.park(java.base@17.0.15/Native Method)
\tat java.util.concurrent.LinkedBlockingQueue.take(java.base@17.0.15/LinkedBlockingQueue.java:435)
\tat java.lang.Thread.run(java.base@17.0.15/Thread.java:840)
"""
NATIVE = (
    '"VM Thread" os_prio=0 cpu=3.98ms elapsed=6.82s tid=0x00007f1230121c60 nid=0x59d9 runnable\n'
)
JAVA_8 = """\
"main" #1 prio=5 os_prio=0 tid=0x00007f3c5800b000 nid=0x1e waiting on condition [0x00007f3c5f]
   java.lang.Thread.State: TIMED_WAITING (sleeping)
\tat java.lang.Thread.sleep(Native Method)
\tat com.acme.Main.main(Main.java:8)
"""
DEADLOCK = """

Found one Java-level deadlock:
=============================
"left":
  waiting to lock monitor 0x1 (object 0x2, a java.lang.Object),
  which is held by "right"

"right":
  waiting to lock monitor 0x3 (object 0x4, a java.lang.Object),
  which is held by "left"

Java stack information for the threads listed above:
===================================================
"left":
\tat com.acme.Billing.lock(Billing.java:9)

Found 1 deadlock.
"""


@pytest.mark.parametrize(
    ("text", "role", "line", "nid"),
    [
        (LISTENER, "listens", "com.acme.Billing.charge (Billing.java:88)", 812),
        (RECEIVER, "receives", "com.acme.Main.main (Main.java:20)", 0x59D3),
        (SHADED, "receives", "com.acme.Main.main (Main.java:20)", 0x59D3),
        (ACKNOWLEDGES, "acknowledges", "com.acme.Main.main (Main.java:20)", 0x59D3),
        (IDLE, None, None, 0x1F),
        (JAVA_8, "application", "com.acme.Main.main (Main.java:8)", 0x1E),
    ],
)
def test_what_a_thread_is_there_for_follows_from_its_stack(text, role, line, nid):
    (thread,) = dump(f"{HEAD}{NATIVE}\n{text}").threads
    assert (thread.role, thread.line, thread.nid) == (role, line, nid)


def test_a_thread_that_sits_is_told_with_its_innermost_call_and_the_applications_line():
    (thread,) = dump(HEAD + LISTENER).threads
    sits = thread.sitting("listens", 41.0)
    assert sits.where == "sun.nio.ch.Net.poll under com.acme.Billing.charge (Billing.java:88)"
    assert (sits.thread, sits.id, sits.state) == ("pulsar-external-listener-3-1", 33, "RUNNABLE")


def test_a_hidden_class_keeps_its_name_without_its_number():
    """`0x….run` would be taken for code of the application."""
    (listener,) = dump(HEAD + LISTENER).threads
    assert listener.frames[6] == (
        "org.apache.pulsar.client.impl.ConsumerBase$$Lambda.run (Unknown Source)"
    )
    frame = (
        "java.lang.VirtualThread$$Lambda/0x00000000a0455160.run(java.base@25.0.2/Unknown Source)"
    )
    (jdks,) = dump(stack("java.lang.Object.wait(java.base@25.0.2/Native Method)", frame)).threads
    assert (jdks.line, jdks.role) == (None, None)


def test_who_stands_where_it_stood_is_known_by_all_its_frames():
    before, after = (
        dump(HEAD + RECEIVER),
        dump(HEAD + RECEIVER.replace("Main.java:20", "Main.java:21")),
    )
    assert after.stayed(before) == frozenset()
    assert before.stayed(before) == {1}


def test_the_jvms_own_deadlocks_are_told_and_no_thread_twice():
    told = dump(HEAD + RECEIVER + DEADLOCK)
    assert told.deadlocks == (("left", "right"),)
    assert [each.name for each in told.threads] == ["main"]


def test_what_is_no_dump_tells_nothing():
    for text in ("", "\n\n", '"', '"x" #1', HEAD, HEAD + '"x" #1 prio=5 nid=0x1 runnable\n\tat x'):
        assert dump(text).deadlocks == ()


def stack(*frames: str) -> str:
    """A thread with these frames, innermost first, as the JVM prints them."""
    head = '"worker" #7 prio=5 os_prio=0 cpu=1ms elapsed=4s tid=0x1 nid=0x1f runnable\n'
    lines = "".join(f"\tat {each}\n" for each in frames)
    return f"{head}   java.lang.Thread.State: TIMED_WAITING (sleeping)\n{lines}\n"


OWN = "app//com.acme.Billing.charge(Billing.java:88)"
PARK = "jdk.internal.misc.Unsafe.park(java.base@17.0.15/Native Method)"


@pytest.mark.parametrize(
    ("frames", "where"),
    [
        (
            (
                "java.lang.Thread.sleep(java.base@17.0.15/Native Method)",
                "com.google.common.util.concurrent.Uninterruptibles.sleepUninterruptibly(U.java:401)",
                "com.google.common.util.concurrent.RateLimiter.acquire(RateLimiter.java:287)",
                OWN,
            ),
            "java.lang.Thread.sleep in com.google.common.util.concurrent.RateLimiter.acquire under "
            "com.acme.Billing.charge (Billing.java:88)",
        ),
        (
            (
                PARK,
                "java.util.concurrent.CountDownLatch.await(java.base@17.0.15/C.java:230)",
                "reactor.core.publisher.BlockingSingleSubscriber.blockingGet(B.java:87)",
                "reactor.core.publisher.Mono.block(Mono.java:1779)",
                OWN,
            ),
            "reactor.core.publisher.Mono.block under com.acme.Billing.charge (Billing.java:88)",
        ),
        (
            (
                "sun.nio.ch.Net.poll(java.base@17.0.15/Native Method)",
                "org.postgresql.core.PGStream.receiveChar(PGStream.java:467)",
                "com.zaxxer.hikari.pool.ProxyPreparedStatement.executeQuery(P.java:52)",
                "com.acme.Ledger$$SpringCGLIB$$0.write(<generated>)",
                "org.springframework.aop.framework.CglibAopProxy.intercept(C.java:717)",
                OWN,
            ),
            "sun.nio.ch.Net.poll in org.springframework.aop.framework.CglibAopProxy.intercept "
            "under com.acme.Billing.charge (Billing.java:88)",
        ),
        (  # its own package is in the list: the innermost of what is neither the JDK nor the client
            (
                "java.lang.Thread.sleep(java.base@17.0.15/Native Method)",
                "org.h2.Main.run(M.java:3)",
            ),
            "java.lang.Thread.sleep under org.h2.Main.run (M.java:3)",
        ),
    ],
)
def test_the_applications_line_is_told_beneath_libraries_with_its_call_of_them(frames, where):
    (thread,) = dump(HEAD + stack(*frames)).threads
    assert thread.sitting("application").where == where
