"""Loads our agent into a JVM and reads what it wrote: the client's own numbers.

The agent (agent.jar, made of java/) and its answer lie for that moment in a folder below the JVM's
/tmp that only its user can enter. The folder has one name for one agent in one JVM, which keeps the
path of each agent for good, and one look at a time: a second one waits until the first has taken
its folder away, since a JVM that once did not find its agent there never looks again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from pulsar_doctor.process.child import CannotAttach, Child
from pulsar_doctor.process.identity import Process
from pulsar_doctor.process.inside import NEW, opened, read
from pulsar_doctor.process.jvm.attach import Jvm
from pulsar_doctor.process.jvm.leftovers import AGENT, agent_folder, clear
from pulsar_doctor.process.told import ClientConsumer, Inspection

JAR = Path(__file__).with_name("agent.jar")
MILLISECONDS, OBJECTS = 500, 200_000
FORMAT = 1
ANSWER_BYTES = 16 << 20  # a consumer has about 1.5 KB
ENDED = {
    "time": f"the look ended after {MILLISECONDS} ms of its processor's time, or 5 s: "
    "there may be more consumers",
    "objects": f"the look ended after {OBJECTS} objects: there may be more consumers",
}

LOADED = {  # sources: HotSpot's InvocationAdapter.c; 0 is good
    "0": "has run the agent, which could not write its answer into the JVM's /tmp",
    "100": "has not found the agent in its /tmp",
    "101": "does not take the agent into its class path",
    "102": "could not start the agent; the JVM has written why on its stderr",
}


def consumers(jvm: Jvm, milliseconds: int = MILLISECONDS, objects: int = OBJECTS) -> Inspection:
    """What the Pulsar clients in this JVM say of themselves. Raises CannotAttach.

    milliseconds: of the processor, at most.
    """
    process = jvm.process
    folder, answer = _folder_name(process), f"look-{secrets.token_hex(4)}"
    jar = f"/tmp/{folder}/agent.jar"
    lines = f"{milliseconds}\n{objects}\n{jar}\n/tmp/{folder}/{answer}"
    with jvm.inside(partial(_work, process, folder, answer)) as child:
        _lay(child, process)
        reply = jvm.ask("load", "instrument", "false", f"{jar}={lines}")
        try:
            text = child.step()
        except FileNotFoundError:
            raise CannotAttach(f"JVM {process.pid} {_refusal(reply)}") from None
        except OSError as error:
            why = f"its answer cannot be read: {error.strerror}"
            raise CannotAttach(f"JVM {process.pid} has run the agent, but {why}") from None
    return _look(json.loads(text), process.pid)


def _work(process: Process, name: str, answer: str, tmp: int) -> Iterator[bytes]:
    """In the child: lays the agent there, reads its answer, and takes both away."""
    with agent_folder(tmp, name, process) as folder:
        clear(folder)
        with opened("agent.jar", NEW, folder) as jar, os.fdopen(jar, "wb", closefd=False) as file:
            file.write(_jar())
        yield b""
        yield read(answer, folder, uid=process.uid, most=ANSWER_BYTES)


def _lay(child: Child, process: Process) -> None:
    try:
        child.step()
    except OSError as error:
        why = f"cannot write into the JVM's /tmp: {error.strerror or 'it takes too long'}"
        raise CannotAttach(f"JVM {process.pid} cannot be looked into: {why}") from None


def _folder_name(process: Process) -> str:
    digest = hashlib.sha256(_jar()).hexdigest()
    return f"{AGENT}{process.uid}-{process.inner_pid}-{digest[:12]}"


@cache
def _jar() -> bytes:
    """Read before the child has another user, who may have no right to our files."""
    return JAR.read_bytes()


def _refusal(answer: str) -> str:
    """Why there is no answer of the agent: by what the JVM said to having been told to load it."""
    said = " ".join(answer.split())
    if re.search(r"[Dd]ynamic agent loading is not enabled", said):
        return "does not load agents while it runs (-XX:-EnableDynamicAgentLoading)"
    code = said.removeprefix("return code: ")
    return LOADED.get(code, f"has loaded the agent, and nothing came of it ({said[:200]})")


def _look(told: dict[str, Any], pid: int) -> Inspection:
    if "failed" in told:
        raise CannotAttach(f"the agent in JVM {pid} has failed: {told['failed'][:400]}")
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
