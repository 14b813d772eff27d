"""Reads the agent's answer, which an untrusted process has written.

Each field has its type here; one that has another, or a number of things that no client has, makes
the whole answer one that cannot be read. The process is examined by its threads then, and from
outside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pulsar_doctor.evidence.dumps.answers import Schema, Unreadable, checked, parsed
from pulsar_doctor.evidence.process_report import (
    Address,
    ClientConsumer,
    Inspection,
    Pool,
    WaitingThread,
)
from pulsar_doctor.parts.examine.child import CannotAttach

MILLISECONDS, OBJECTS = 500, 200_000
FORMAT = 1
ANSWER_BYTES = 16 << 20  # a consumer has about 1.5 KB
CONSUMERS = 5_000
POOLS = 100
THREADS = 20_000  # as many as are read of a dump
LATEST_MS = 253_402_300_799_999  # the end of the year 9999
FAILURE_CHARACTERS = 400
ENDED = {
    "time": f"the look ended after {MILLISECONDS} ms of its processor's time, or 4 s: "
    "there may be more consumers",
    "objects": f"the look ended after {OBJECTS} objects: there may be more consumers",
}
VIRTUAL = "where its virtual threads are (%d or more): a thread dump does not show them"
POOL: Schema = {
    "waiting": int, "looked": int, "holding": int, "task": str, "listenerThreads": [int],
    "ledger": int, "entry": int, "published_ms": int, "topic": str, "in_order": bool,
}  # fmt: skip
NEEDED = ("java", "read_at_ms", "consumers", "objects", "milliseconds")
ANSWER: Schema = {
    "format": int, "failed": str, "java": str, "read_at_ms": int, "consumers": [dict],
    "objects": int, "milliseconds": int, "ended": str, "threads": [dict],
    "pools": [dict], "virtual": int,
}  # fmt: skip
THREAD: Schema = {
    "id": int, "blocked": int, "waited": int, "on": str, "owner": int, "begun": bool,
}  # fmt: skip
# Fields that are reported as they are: our name, the client's, and its type.
PLAIN: Mapping[str, tuple[str, type]] = {
    "topic": ("topic", str),
    "subscription": ("subscription", str),
    "subscription_type": ("conf.subscriptionType", str),
    "name": ("consumerName", str),
    "consumer_id": ("consumerId", int),
    "state": ("state", str),
    "partition": ("partitionIndex", int),
    "unsent_permits": ("availablePermits", int),
    "queue_size_most": ("maxReceiverQueueSize", int),
    "queue_size_scales": ("conf.autoScaledReceiverQueueSizeEnabled", bool),
    "refill_threshold": ("receiverQueueRefillThreshold", int),
    "waiting": ("incomingMessages", int),
    "listener_waiting": ("messageListenerQueueSize", int),
    "listener_executor_waiting": ("listenerExecutor", int),
    "paused": ("paused", bool),
    "listener": ("listener", bool),
    "cumulative_ack_pending": ("cumulativeAckPending", bool),
    "acks_grouped_micros": ("conf.acknowledgementsGroupTimeMicros", int),
    "unacked_tracked": ("unAckedMessageTracker", int),
    "ack_timeout_ms": ("conf.ackTimeoutMillis", int),
    "nacks_pending": ("nackedMessages", int),
    "dead_letter_after": ("conf.deadLetterPolicy.maxRedeliverCount", int),
    "dead_letter_topic": ("conf.deadLetterPolicy.deadLetterTopic", str),
    "connected": ("connected", bool),
}
CONSUMER: Schema = {
    **dict(PLAIN.values()),
    "id": int,
    "class": str,
    "children": [int],
    "currentReceiverQueueSize": int,
    "listenerThreads": [int],
    "pendingReceives": int,
    "pendingBatchReceives": int,
    "pendingIndividualAcks": int,
    "pendingIndividualBatchIndexAcks": int,
    "localAddress": str,
    "remoteAddress": str,
    "missing": [str],
}


def inspection(answer: bytes, pid: int) -> Inspection:
    """What an answer tells. CannotAttach where it tells why not, or cannot be read."""
    try:
        return _inspection(parsed(answer), pid)
    except Unreadable as why:
        raise CannotAttach(f"JVM {pid} gave an answer that cannot be read: {why}") from None


def _inspection(answer: object, pid: int) -> Inspection:
    fields = checked(answer, ANSWER)
    if "failed" in fields:
        why = " ".join(fields["failed"][:FAILURE_CHARACTERS].split())
        raise CannotAttach(f"the agent in JVM {pid} has failed: {why}")
    if fields.get("format") != FORMAT:
        raise CannotAttach(
            f"JVM {pid} has an agent of another version loaded; its answer is not read"
        )
    fields = checked(answer, ANSWER, NEEDED)
    if len(fields["consumers"]) > CONSUMERS:
        raise Unreadable(f"it has more than {CONSUMERS} consumers")
    if len(fields.get("threads", ())) > THREADS:
        raise Unreadable(f"it has more than {THREADS} threads")
    if len(fields.get("pools", ())) > POOLS:
        raise Unreadable(f"it has more than {POOLS} pools")
    if not 0 <= fields["read_at_ms"] <= LATEST_MS:
        raise Unreadable("its time is none")
    ended, virtual = ENDED.get(fields.get("ended", "")), fields.get("virtual", 0)
    return Inspection(
        read_at_ms=fields["read_at_ms"],
        consumers=tuple(map(_consumer, fields["consumers"])),
        runtime=f"Java {fields['java']}",
        objects=fields["objects"],
        milliseconds=fields["milliseconds"],
        unknowns=(*([ended] if ended else []), *([VIRTUAL % virtual] if virtual > 0 else [])),
        threads=tuple(
            WaitingThread(**checked(each, THREAD, ("id",))) for each in fields.get("threads", ())
        ),
        pools=tuple(map(_pool, fields.get("pools", ()))),
        virtual_threads=virtual,
    )


def _pool(answer: object) -> Pool:
    fields = checked(answer, POOL, ("waiting", "looked", "holding", "task"))
    position = fields.get("ledger"), fields.get("entry")
    of, is_lambda, _ = fields["task"].partition("$$Lambda")
    published = fields.get("published_ms", -1)
    return Pool(
        threads=tuple(fields.get("listenerThreads", ())),
        waiting=fields["waiting"],
        looked=fields["looked"],
        holding=fields["holding"],
        task=f"lambda of {of}" if is_lambda else of,
        topic=fields.get("topic"),
        message=None if None in position else "{}:{}".format(*position),
        published_ms=published if 0 < published <= LATEST_MS else None,
        in_order=fields.get("in_order", False),
    )


def _consumer(answer: object) -> ClientConsumer:
    """One consumer; what is not there under its name is not reported."""
    fields = checked(answer, CONSUMER, ("id", "class"))
    kind = fields["class"].rpartition(".")[2]
    return ClientConsumer(
        **{ours: fields.get(theirs) for ours, (theirs, _) in PLAIN.items()},
        id=fields["id"],
        kind="multi" if "children" in fields or "MultiTopics" in kind else "single",
        children=tuple(fields.get("children", ())),
        queue_size=_queue_size(fields, kind),
        listener_threads=tuple(fields.get("listenerThreads", ())),
        zero_queue=kind.startswith("ZeroQueue"),
        receives_pending=_sum(fields, "pendingReceives", "pendingBatchReceives"),
        acks_pending=_sum(fields, "pendingIndividualAcks", "pendingIndividualBatchIndexAcks"),
        local_address=_address(fields.get("localAddress")),
        remote_address=_address(fields.get("remoteAddress")),
        missing=tuple(fields.get("missing", ())),
    )


def _queue_size(fields: dict[str, Any], kind: str) -> int | None:
    """The one in force: it may scale, since 2.9; a zero queue asks for one at a time."""
    if kind.startswith("ZeroQueue"):
        return 0
    now: int | None = fields.get("currentReceiverQueueSize", fields.get("maxReceiverQueueSize"))
    return now


def _sum(fields: dict[str, Any], *names: str) -> int | None:
    known = [fields[name] for name in names if name in fields]
    return sum(known) if known else None


def _address(text: str | None) -> Address | None:
    if text is None:
        return None
    host, _, port = text.rpartition(" ")
    if not (host and re.fullmatch(r"[0-9]{1,5}", port)):
        raise Unreadable("an address is none")
    return host, int(port)
