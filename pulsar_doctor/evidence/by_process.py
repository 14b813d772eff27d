"""Facts from a client's process: its own counters, and where its threads are.

It knows exactly what no broker can: how far it is to the next FLOW, whether it is paused, and what
its application does. It knows nothing of backlogs, other consumers and the broker's permits.

A partitioned or multi-topic consumer is a parent with children: each child has the permits of its
topic, the parent has the listener, and a queue of its own before which the children's messages were
counted as taken.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.inside import Inside
from pulsar_doctor.evidence.measures import PROCESS
from pulsar_doctor.evidence.process_report import (
    ClientConsumer,
    Pool,
    ProcessReport,
    Role,
    Sitting,
    method,
)
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import Count, at_least, exact, exactly, least

FULL_NAME = "persistent://"
PARTITION = re.compile("[0-9]{1,9}")
WORKS_FOR = ("listens", "receives", "acknowledges")


@dataclass(frozen=True, slots=True)
class _One:
    """A consumer of one topic in both samples, and its parent. None: it was not there."""

    now: ClientConsumer
    earlier: ClientConsumer | None
    parent: ClientConsumer | None
    parent_earlier: ClientConsumer | None


@dataclass(frozen=True, slots=True)
class _Threads:
    """What all consumers share: looked up once, since there may be thousands of both."""

    process: ProcessReport
    # Whether threads of more than one listener may be there.
    several: bool
    somebody_receives: bool
    # Those that listen, by Java's number of each; and of the application, longest first.
    listening: dict[int | None, list[Sitting]]
    all_listening: tuple[Sitting, ...]
    applications: tuple[Sitting, ...]
    deadlock: tuple[str, ...]
    # By the number of a thread that calls listeners: the consumers that it serves.
    called_by: dict[int, list[ClientConsumer]]

    @classmethod
    def of(cls, process: ProcessReport) -> _Threads:
        listening: dict[int | None, list[Sitting]] = defaultdict(list)
        for each in process.threads:
            if each.role == "listens":
                listening[each.id].append(each)
        consumers = process.inspections[-1].consumers if process.inspections else ()
        called_by: dict[int, list[ClientConsumer]] = defaultdict(list)
        for one in consumers:
            for thread in one.listener_threads if one.listener else ():
                called_by[thread].append(one)
        held = [each for each in process.threads if each.of_client]
        return cls(
            process,
            several=sum(bool(each.listener) for each in consumers) > 1,
            somebody_receives=any(each.role == "receives" for each in process.threads),
            listening=listening,
            all_listening=_longest_first(process.threads, "listens"),
            # what keeps a thread of the client is why; else it may be each of them
            applications=_longest_first(held, "application")
            or _longest_first(process.threads, "acknowledges", "application"),
            deadlock=_deadlock(process),
            called_by=called_by,
        )

    def in_pools(self, pools: Iterable[Pool]) -> tuple[Sitting, ...]:
        """Threads of these pools."""
        ids = {thread for each in pools for thread in each.threads}
        found = [each for each in self.process.threads if each.id in ids] if ids else []
        return tuple(sorted(found, key=lambda each: -(each.seconds or 0.0)))

    def shared_by(self, heads: Sequence[ClientConsumer]) -> tuple[str, ...]:
        """Which other consumers have their listeners called by the same thread."""
        pinned = {thread for each in heads for thread in each.listener_threads}
        found = [each for thread in pinned for each in self.called_by.get(thread, ())]
        ours = {each.id for each in heads}
        others = (named(each.name, each.topic or "?") for each in found if each.id not in ours)
        return tuple(dict.fromkeys(others))


def _longest_first(threads: Iterable[Sitting], *roles: Role) -> tuple[Sitting, ...]:
    found = [each for each in threads if each.role in roles]
    return tuple(sorted(found, key=in_turn))


def in_turn(thread: Sitting) -> tuple[float, bool, bool]:
    """A key of what matters first: the longest; then who waits for another thread; at last where
    the program began, as it waits for its other threads as a rule."""
    begins = method(thread.line).rpartition(".")[2] in ("<module>", "main")
    return -(thread.seconds or 0.0), not thread.chain, begins


def subscription_views(process: ProcessReport) -> list[SubscriptionView]:
    """One for each subscription of a topic or partition that a consumer of the process is on."""
    threads = _Threads.of(process)
    found: dict[tuple[str, int | None, str], list[_One]] = defaultdict(list)
    for one in _everyone(process):
        topic, partition = full_topic(one.now.topic or "?")
        found[topic, partition, one.now.subscription or "?"].append(one)
    return [
        SubscriptionView(
            topic=topic,
            partition=partition,
            subscription=subscription,
            type=next((each.now.subscription_type for each in those), None),
            sources=frozenset({PROCESS}),
            consumers=tuple(_view(threads, one, at) for at, one in enumerate(those)),
            moment_ms=process.inspections[-1].read_at_ms,
        )
        for (topic, partition, subscription), those in found.items()
    ]


def full_topic(name: str) -> tuple[str, int | None]:
    """The full name of a topic as clients write it, and which partition it is."""
    if "://" not in name:
        name = f"{FULL_NAME}public/default/{name}" if "/" not in name else f"{FULL_NAME}{name}"
    base, mark, number = name.rpartition("-partition-")
    return (base, int(number)) if mark and PARTITION.fullmatch(number) else (name, None)


def _everyone(process: ProcessReport) -> Iterable[_One]:
    if not process.inspections:
        return
    now = {each.id: each for each in process.inspections[-1].consumers}
    then = (
        {each.id: each for each in process.inspections[0].consumers}
        if len(process.inspections) > 1
        else {}
    )
    parents = {child: each for each in now.values() for child in each.children}
    for each in now.values():
        if each.kind == "multi" or each.state in ("Closed", "Failed"):
            continue
        parent = parents.get(each.id)
        yield _One(each, then.get(each.id), parent, then.get(parent.id) if parent else None)


def _view(threads: _Threads, one: _One, number: int) -> ConsumerView:
    now, inside = one.now, _inside(threads, one)
    until, size = inside.until_flow, inside.queue_size
    return ConsumerView(
        label=now.name or f"#{number}",
        number=number,
        name=now.name,
        address=None if now.local_address is None else "/{}:{}".format(*now.local_address),
        receiver_queue_size=exactly(size),
        refill_threshold=inside.refills_at,
        one_by_one=size in (0, 1),
        queued=Count(0, None) if inside.waiting is None else at_least(inside.waiting),
        next_flow_after=exactly(until),
        inside=inside,
    )


def _inside(threads: _Threads, one: _One) -> Inside:
    now, parent = one.now, one.parent
    heads = [now] if parent is None else [now, parent]
    listener = any(each.listener for each in heads) or None
    waiting, handed = _sum(heads, "waiting"), _sum(heads, "listener_waiting")
    taken, last = _taken(one), threads.process.inspections[-1]
    pools = _pools_of(now, threads.process.pools)
    return Inside(
        unsent=now.unsent_permits,
        refills_at=now.refills_at,
        queue_size=now.queue_size,
        waiting=waiting,
        handed=handed,
        paused=next((True for each in heads if each.paused), now.paused),
        listener=bool(listener) if now.listener is not None else None,
        zero_queue=now.zero_queue,
        taken=taken,
        seconds=threads.process.seconds,
        asked=_receives(threads, heads),
        sits=_sits(threads, heads)
        if (waiting or handed or now.zero_queue)
        else threads.applications,
        acks_pending=_both(one, "acks_pending"),
        acks_grouped_seconds=None
        if now.acks_grouped_micros is None
        else now.acks_grouped_micros / 1e6,
        connected=now.connected,
        deadlock=threads.deadlock,
        shares=threads.shared_by(heads) if listener else (),
        pools=pools,
        pool_places=threads.in_pools(pools),
        virtual_threads=last.virtual_threads,
        moment_ms=last.read_at_ms,
    )


def _pools_of(consumer: ClientConsumer, pools: Iterable[Pool]) -> tuple[Pool, ...]:
    topic = full_topic(consumer.topic or "?")
    return tuple(each for each in pools if each.topic and full_topic(each.topic) == topic)


def _sum(heads: Sequence[ClientConsumer], name: str) -> int | None:
    known = [getattr(each, name) for each in heads if getattr(each, name) is not None]
    return sum(known) if known else None


def _taken(one: _One) -> int | None:
    """Whether messages left its queues between the samples: 0, or 1 for some; None with one sample.

    What waits may have grown meanwhile, which says nothing. A listener's count falls as it works.
    """
    if one.earlier is None:
        return None
    pairs = [(one.earlier, one.now)]
    if one.parent is not None and one.parent_earlier is not None:
        pairs.append((one.parent_earlier, one.parent))
    return int(any(_moved(then, now) for then, now in pairs))


def _moved(then: ClientConsumer, now: ClientConsumer) -> bool:
    if then.unsent_permits != now.unsent_permits:
        return True
    fell = (
        (then.waiting, now.waiting),
        (then.listener_waiting, now.listener_waiting),
    )
    return any(
        before is not None and after is not None and after < before for before, after in fell
    )


def _receives(threads: _Threads, heads: Sequence[ClientConsumer]) -> bool | None:
    """Whether somebody waits in receive. Which consumer's, a stack does not tell."""
    if not threads.process.has_threads:
        return None
    return threads.somebody_receives or any((each.receives_pending or 0) > 0 for each in heads)


def _sits(threads: _Threads, heads: Sequence[ClientConsumer]) -> tuple[Sitting, ...]:
    """The threads that its messages wait for: those of its listener's executor, where reported."""
    if not any(each.listener for each in heads):
        return threads.applications
    pinned = {thread for each in heads for thread in each.listener_threads}
    own = [each for thread in pinned for each in threads.listening.get(thread, ())]
    if own:
        return _longest_first(own, "listens")
    return () if threads.several and pinned else threads.all_listening


def _deadlock(process: ProcessReport) -> tuple[str, ...]:
    """The first deadlock with a thread in it that works for a consumer, or is the application's."""
    roles = {each.thread: each.role for each in process.threads}
    for names in process.deadlocks:
        if any(roles.get(name) in (*WORKS_FOR, "application") for name in names):
            return names
    return ()


def _both(one: _One, name: str) -> int | None:
    """What is there in both samples, at least."""
    if one.earlier is None:
        return None
    numbers = getattr(one.earlier, name), getattr(one.now, name)
    return None if None in numbers else min(numbers)


def looked_into(view: SubscriptionView, inside: SubscriptionView) -> SubscriptionView:
    """A view by other sources, with what the process tells of its consumers on that subscription.

    The same consumer has the same name and address; behind a proxy or NAT the address differs, and
    the name is enough where nobody else has it. What the process does not tell stays as it is.
    """
    if view.consumers is None:
        return replace(view, consumers=inside.consumers, sources=view.sources | inside.sources)
    names = Counter(each.name for each in view.consumers)
    joined = tuple(
        _joined(each, inside.consumers or (), alone=names[each.name] == 1)
        for each in view.consumers
    )
    return replace(view, consumers=joined, sources=view.sources | inside.sources)


def seated(
    view: SubscriptionView, process: ProcessReport, ends: Mapping[str | None, Collection[str]]
) -> SubscriptionView:
    """A view with where threads are, of a process that does not tell its clients' own numbers.

    ends: its addresses, with the consumers that the broker knows at each. Messages wait in the
    queue of a consumer without permits that holds more than one; that it took none follows from the
    broker's side alone.
    """
    if not process.has_threads or view.consumers is None:
        return view
    if not any(each.address in ends for each in view.consumers):
        return view
    threads = _Threads.of(process)
    consumers = (
        each if there is None else replace(each, inside=_seen(view, each, threads, there))
        for each in view.consumers
        for there in [ends.get(each.address)]
    )
    return replace(view, sources=view.sources | {PROCESS}, consumers=tuple(consumers))


def named(consumer: str | None, topic: str) -> str:
    """A consumer of a process among others of it, which may have its name on other topics."""
    return f"{consumer or 'a consumer'} on {topic.removeprefix(FULL_NAME)}"


def _seen(
    view: SubscriptionView, consumer: ConsumerView, threads: _Threads, there: Collection[str]
) -> Inside:
    """there: all consumers at its address. Those of one client have one thread for listeners, as
    a rule: where two run, nobody knows which has them."""
    waits, ears = (consumer.queued.least or 0) > 0, threads.all_listening
    own, held = named(consumer.name, view.full_topic), least(consumer.unacked_messages) or 0
    pools = tuple(each for each in threads.process.pools if len(each.threads) < held)
    return Inside(
        some_wait=waits,
        taken=_taken_by(consumer, threads),
        listener=bool(ears),
        asked=threads.somebody_receives,
        sits=ears or threads.applications,
        deadlock=threads.deadlock,
        shares=tuple(each for each in there if each != own) if waits and len(ears) == 1 else (),
        pools=pools,
        pool_places=threads.in_pools(pools),
    )


def _taken_by(consumer: ConsumerView, threads: _Threads) -> int | None:
    """Whether it took messages: in the window; where there is none, since it was heard of last, or
    between two dumps, in which the threads that could take one have not moved.
    """
    if consumer.moved is not None:
        return int(consumer.moved)
    could = threads.all_listening or (() if threads.somebody_receives else threads.applications)
    rests = bool(could) and all(each.seconds for each in could)
    quiet = consumer.quiet_for is not None and consumer.quiet_for.ms > 0
    return 0 if rests or quiet or _works_for(threads) & {*threads.deadlock} else None


def _works_for(threads: _Threads) -> set[str]:
    return {each.thread for each in threads.process.threads if each.role in WORKS_FOR}


def _joined(consumer: ConsumerView, inside: Sequence[ConsumerView], *, alone: bool) -> ConsumerView:
    named = [each for each in inside if each.name is not None and each.name == consumer.name]
    placed = [each for each in named if each.address == consumer.address]
    found = placed or (named if alone else [])  # of other processes there may be more of the name
    if len(found) != 1 or found[0].inside is None:
        return consumer
    client, own = found[0], found[0].inside
    return replace(
        consumer,
        receiver_queue_size=client.receiver_queue_size or consumer.receiver_queue_size,
        refill_threshold=client.refill_threshold or consumer.refill_threshold,
        one_by_one=consumer.one_by_one if client.receiver_queue_size is None else client.one_by_one,
        all_in_hand=consumer.all_in_hand
        if client.receiver_queue_size is None
        else client.one_by_one,
        queued=consumer.queued if own.waiting is None else client.queued,
        next_flow_after=client.next_flow_after or consumer.next_flow_after,
        sending_after=_until_sending(consumer, own) or consumer.sending_after,
        inside=own,
    )


def _until_sending(consumer: ConsumerView, own: Inside) -> Count | None:
    """How many it has to take before the broker may send: below zero one FLOW is not enough."""
    permits, first = exact(consumer.available_permits), own.until_flow
    if permits is None or permits > 0 or first is None or not own.refills_at:
        return None
    more = max(0, -permits // own.refills_at) * own.refills_at
    return exactly(first + more)
