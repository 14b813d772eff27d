"""The pool that has a consumer's messages is blocked, in all of its threads.

You see, in its process: each of 2 pool threads is in CountDownLatch.await for 2.3 min, with 2998
tasks before the pool. `availablePermits` may be 1000, and no ack comes.

The application hands each message to a pool of threads. If every thread of the pool is in a call
that does not end, no task begins any more, and all other messages wait in front of the pool.

It is a warning if no thread of the pool has run for `stuck_for` and no acknowledgement has come
since then; from `stalled_after` on it is a stall. In a JVM the agent reports the tasks that wait
and their messages. In Python (ThreadPoolExecutor) and Go (goroutines that begin in one function) it
does not: there the consumer has to hold more messages than the pool has threads, and the confidence
is lower. A pool that works in its rhythm is not found.

Source: ThreadPoolExecutor in java.util.concurrent; concurrent.futures.thread in Python.
"""

from __future__ import annotations

from dataclasses import replace

from pulsar_doctor.diagnosis.actions.process import STUCK_FOR, numbers, unstuck
from pulsar_doctor.diagnosis.actions.processes import CONSEQUENCES
from pulsar_doctor.diagnosis.actions.threads import all_have_sat
from pulsar_doctor.diagnosis.answers import Answers, Finding
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.measures import PROCESS, Measure
from pulsar_doctor.evidence.process_report import Pool
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.sentences import joined, say

MEANING = "a pool of which every thread was in one place for less is working"
THRESHOLDS = (
    replace(STUCK_FOR, default=60.0, meaning=MEANING),
    Threshold("stalled_after", 300.0, "seconds", "a pool that was blocked for less may go on"),
)
NEEDS = frozenset({PROCESS})
SYMPTOM = "nothing comes"
EXPLAINS = CONSEQUENCES | {"nobody-receives", "handoff-unbounded"}
REMEDY = (
    "Restart the process. Set a time limit on the call in which the threads of the pool are, and "
    "limit how many messages may wait for the pool."
)
SLACK_SECONDS = 5.0  # an acknowledgement may leave its client so long after its thread has stopped


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for each consumer with messages in a pool of which no thread runs."""
    for consumer in view.consumers or ():
        own = consumer.inside
        pool = None if own is None or own.deadlock or consumer.works else own.blocked_pool
        if own is None or pool is None:
            continue
        threads = [each for each in own.pool_places if each.id in pool.threads]
        stood = min(each.seconds or 0.0 for each in threads)
        if stood < limits["stuck_for"] or _heard_since(consumer, stood):
            continue
        tasks = "" if pool.waiting is None else say(" with {:tasks} before it", f"{pool.waiting:,}")
        where = all_have_sat(threads, "pool thread")
        yield Finding(
            severity="stalled" if stood >= limits["stalled_after"] else "warning",
            confidence=0.9 if pool.holding else 0.7,
            consumer=consumer.label,
            summary=joined(
                "; ",
                (
                    say("{} hangs in a pool{}: {}", consumer.label, tasks, where),
                    pool.messages(own.moment_ms) or "",
                ),
            ),
            evidence=(*numbers(consumer, own), *_measures(pool, stood)),
            actions=unstuck(view, consumer, threads),
        )


def _heard_since(consumer: ConsumerView, seconds: float) -> bool:
    last = consumer.since_last_ack
    return bool(consumer.acked) or (last is not None and last.seconds + SLACK_SECONDS < seconds)


def _measures(pool: Pool, stood: float) -> tuple[Measure, ...]:
    return (
        Measure("stood_for", round(stood, 1), "seconds", "at least"),
        Measure("pool_threads", len(pool.threads), "threads"),
        Measure("tasks_waiting", pool.waiting, "tasks"),
    )
