"""Loads our agent into a JVM and reads what it wrote: the client's own numbers.

The agent (agent.jar, made of java/) and its answer lie for that moment in a folder below the JVM's
/tmp that only its user can enter. The folder has one name for one agent in one JVM, which keeps the
path of each agent for good, and one look at a time: a second one waits until the first has taken
its folder away, since a JVM that once did not find its agent there never looks again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pulsar_doctor.process.identity import Process
from pulsar_doctor.process.jvm.attach import Jvm, acting_as, tmp_of
from pulsar_doctor.process.jvm.proof import CannotAttach
from pulsar_doctor.process.told import ClientConsumer, Inspection

JAR = Path(__file__).with_name("agent.jar")
MILLISECONDS, OBJECTS = 500, 200_000
FORMAT = 1
ANSWER_BYTES = 64 << 20
OTHERS_SECONDS = 20.0  # twice what a JVM may take to answer
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
    with _folder(jvm) as (outside, inside):
        name = f"look-{secrets.token_hex(4)}"
        lines = f"{milliseconds}\n{objects}\n{inside}/agent.jar\n{inside}/{name}"
        answer = jvm.ask("load", "instrument", "false", f"{inside}/agent.jar={lines}")
        try:
            text = _read(outside / name)
        except FileNotFoundError:
            raise CannotAttach(f"JVM {process.pid} {_refusal(answer)}") from None
    return _look(json.loads(text), process.pid)


def _refusal(answer: str) -> str:
    """Why there is no answer of the agent: by what the JVM said to having been told to load it."""
    said = " ".join(answer.split())
    if re.search(r"[Dd]ynamic agent loading is not enabled", said):
        return "does not load agents while it runs (-XX:-EnableDynamicAgentLoading)"
    code = said.removeprefix("return code: ")
    return LOADED.get(code, f"has loaded the agent, and nothing came of it ({said[:200]})")


@contextlib.contextmanager
def _folder(jvm: Jvm) -> Iterator[tuple[Path, str]]:
    """Where the agent lies, for this look alone: as it is reached from here, and its name there."""
    process, jar = jvm.process, JAR.read_bytes()
    whose = f"{process.uid}-{process.inner_pid}"
    name = f".pulsar-doctor-{whose}-{hashlib.sha256(jar).hexdigest()[:12]}"
    with contextlib.ExitStack() as held:
        try:
            with acting_as(process):
                outside = held.enter_context(tmp_of(process)) / name
                held.enter_context(_alone(outside, process))
                _clear(outside)
                held.callback(_take_away, outside)
                (outside / "agent.jar").write_bytes(jar)
        except OSError as error:
            why = f"cannot write into the JVM's /tmp: {error.strerror}"
            raise CannotAttach(f"JVM {process.pid} cannot be looked into: {why}") from None
        yield outside, f"/tmp/{name}"


@contextlib.contextmanager
def _alone(folder: Path, process: Process) -> Iterator[None]:
    """Makes the folder, and holds it: it is ours, and nobody else's look uses it or removes it."""
    until = time.monotonic() + OTHERS_SECONDS
    while True:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        try:
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:  # another look has just taken it away
            continue
        except (NotADirectoryError, PermissionError):
            raise CannotAttach(f"/tmp/{folder.name} is there, and somebody else's") from None
        try:
            there = os.fstat(held)
            if there.st_uid != process.uid or stat.S_IMODE(there.st_mode) != 0o700:
                raise CannotAttach(f"/tmp/{folder.name} is there, and somebody else's")
            if _locked(held) and _is_at(held, folder):
                yield
                return
        finally:
            os.close(held)
        if time.monotonic() > until:
            raise CannotAttach(f"another look into JVM {process.pid} has not ended yet")
        time.sleep(0.02)


def _locked(folder: int) -> bool:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(opened: int, path: Path) -> bool:
    """Whether the path still leads to what is open; it may have been taken away meanwhile."""
    try:
        return os.path.samestat(os.fstat(opened), path.lstat())
    except FileNotFoundError:
        return False


def _clear(folder: Path) -> None:
    for each in folder.iterdir():
        each.unlink()


def _take_away(folder: Path) -> None:
    with contextlib.suppress(OSError):
        _clear(folder)
        folder.rmdir()


def _read(file: Path) -> str:
    """A plain file of the folder; whoever runs in there might have put something else."""
    opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(opened, "rb") as answer:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise CannotAttach(f"{file} is no plain file")
        return answer.read(ANSWER_BYTES).decode("utf-8", "replace")


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
