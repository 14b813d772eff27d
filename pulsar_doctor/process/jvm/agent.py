"""Loads our agent into a JVM and reads what it wrote: the client's own numbers.

The agent (Agent.java, shipped as agent.jar) and its answer lie for that moment in a folder below
the JVM's /tmp that only its user can enter. The folder has one name for one agent, so that the JVM,
which keeps the path of each agent for good, keeps one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pulsar_doctor.process.jvm.attach import Jvm, acting_as
from pulsar_doctor.process.jvm.proof import CannotAttach
from pulsar_doctor.process.told import ClientConsumer, Inspection

JAR = Path(__file__).with_name("agent.jar")
MILLISECONDS, OBJECTS = 500, 200_000
FORMAT = 1
ANSWER_BYTES = 64 << 20
ENDED = {
    "time": f"the look ended after {MILLISECONDS} ms: there may be more consumers",
    "objects": f"the look ended after {OBJECTS} objects: there may be more consumers",
}


def consumers(jvm: Jvm, milliseconds: int = MILLISECONDS, objects: int = OBJECTS) -> Inspection:
    """What the Pulsar clients in this JVM say of themselves. Raises CannotAttach."""
    process = jvm.process
    with _folder(jvm) as (outside, inside):
        name = f"look-{secrets.token_hex(4)}"
        lines = f"{milliseconds}\n{objects}\n{inside}/agent.jar\n{inside}/{name}"
        answer = jvm.ask("load", "instrument", "false", f"{inside}/agent.jar={lines}")
        try:
            text = _read(outside / name)
        except FileNotFoundError:
            raise CannotAttach(f"JVM {process.pid} {_refusal(answer)}") from None
        finally:
            for left in (name, f"{name}.part"):
                (outside / left).unlink(missing_ok=True)
    return _look(json.loads(text), process.pid)


def _refusal(answer: str) -> str:
    said = " ".join(answer.split())
    if re.search(r"[Dd]ynamic agent loading is not enabled", said):
        return "does not load agents while it runs (-XX:-EnableDynamicAgentLoading)"
    return f"has loaded the agent, and nothing came of it ({said[:200]})"


@contextlib.contextmanager
def _folder(jvm: Jvm) -> Iterator[tuple[Path, str]]:
    """Where the agent lies: as it is reached from here, and by its name in there."""
    process, jar = jvm.process, JAR.read_bytes()
    inside = f"/tmp/.pulsar-doctor-{process.uid}-{hashlib.sha256(jar).hexdigest()[:12]}"
    outside = Path(f"{process.root}{inside}")
    try:
        with acting_as(process):
            with contextlib.suppress(FileExistsError):
                outside.mkdir(mode=0o700)
            there = outside.lstat()
            mine = stat.S_ISDIR(there.st_mode) and there.st_uid == process.uid
            if not mine or stat.S_IMODE(there.st_mode) != 0o700:
                raise CannotAttach(f"{outside} is there already, and somebody else's")
            part = outside / f"agent-{secrets.token_hex(4)}"
            part.write_bytes(jar)
            part.rename(outside / "agent.jar")
    except OSError as error:
        why = f"cannot write into the JVM's /tmp: {error.strerror}"
        raise CannotAttach(f"JVM {process.pid} cannot be looked into: {why}") from None
    try:
        yield outside, inside
    finally:
        with contextlib.suppress(OSError):  # its process has ended, or another look goes on there
            if {each.name for each in outside.iterdir()} <= {"agent.jar"}:
                (outside / "agent.jar").unlink(missing_ok=True)
                outside.rmdir()


def _read(file: Path) -> str:
    """A plain file of the folder; whoever runs in there might have put something else."""
    opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(opened, "rb") as answer:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise CannotAttach(f"{file} is no plain file")
        return answer.read(ANSWER_BYTES).decode("utf-8", "replace")


def _look(told: dict[str, Any], pid: int) -> Inspection:
    if told.get("format") != FORMAT:
        raise CannotAttach(
            f"JVM {pid} has an agent of another version loaded; its answer is not read"
        )
    ended = ENDED.get(told.get("ended", ""))
    return Inspection(
        read_at_ms=told["read_at_ms"],
        consumers=tuple(map(_consumer, told["consumers"])),
        runtime=f"Java {told['java']}",
        objects=told["objects"],
        milliseconds=told["milliseconds"],
        not_told=() if ended is None else (ended,),
    )


def _consumer(told: dict[str, Any]) -> ClientConsumer:
    """One consumer; what is not there under its name is not told."""
    kind = told["class"].rpartition(".")[2]
    return ClientConsumer(
        id=told["id"],
        kind="multi" if "children" in told or "MultiTopics" in kind else "single",
        topic=told.get("topic"),
        subscription=told.get("subscription"),
        subscription_type=told.get("conf.subscriptionType"),
        name=told.get("consumerName"),
        consumer_id=told.get("consumerId"),
        state=told.get("state"),
        partition=told.get("partitionIndex"),
        children=tuple(told.get("children", ())),
        unsent_permits=told.get("availablePermits"),
        queue_size=_queue_size(told, kind),
        queue_size_most=told.get("maxReceiverQueueSize"),
        queue_size_scales=told.get("conf.autoScaledReceiverQueueSizeEnabled"),
        refill_threshold=told.get("receiverQueueRefillThreshold"),
        waiting=told.get("incomingMessages"),
        listener_waiting=told.get("messageListenerQueueSize"),
        listener_executor_waiting=told.get("listenerExecutor"),
        listener_threads=tuple(told.get("listenerThreads", ())),
        paused=told.get("paused"),
        listener=told.get("listener"),
        zero_queue=kind.startswith("ZeroQueue"),
        receives_pending=_sum(told, "pendingReceives", "pendingBatchReceives"),
        acks_pending=_sum(told, "pendingIndividualAcks", "pendingIndividualBatchIndexAcks"),
        cumulative_ack_pending=told.get("cumulativeAckPending"),
        acks_grouped_micros=told.get("conf.acknowledgementsGroupTimeMicros"),
        unacked_tracked=told.get("unAckedMessageTracker"),
        ack_timeout_ms=told.get("conf.ackTimeoutMillis"),
        nacks_pending=told.get("nackedMessages"),
        dead_letter_after=told.get("conf.deadLetterPolicy.maxRedeliverCount"),
        dead_letter_topic=told.get("conf.deadLetterPolicy.deadLetterTopic"),
        connected=told.get("connected"),
        local_address=_address(told.get("localAddress")),
        remote_address=_address(told.get("remoteAddress")),
        missing=tuple(told.get("missing", ())),
    )


def _queue_size(told: dict[str, Any], kind: str) -> int | None:
    """The one in force: it may scale, since 2.9; a zero queue asks for one at a time."""
    if kind.startswith("ZeroQueue"):
        return 0
    now = told.get("currentReceiverQueueSize", told.get("maxReceiverQueueSize"))
    return now if isinstance(now, int) else None


def _sum(told: dict[str, Any], *names: str) -> int | None:
    known = [told[name] for name in names if name in told]
    return sum(known) if known else None


def _address(told: str | None) -> tuple[str, int] | None:
    host, _, port = (told or "").rpartition(" ")
    return (host, int(port)) if host else None
