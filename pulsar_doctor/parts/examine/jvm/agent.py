"""Loads our agent into a JVM, and reads the client's counters that it wrote.

The agent (agent.jar, made of java/) and its answer lie for that moment in a folder below the JVM's
/tmp that only its user can enter. The folder has one name for one agent in one JVM, which keeps the
path of each agent for good, and one inspection at a time: a second one waits until the first has
taken its folder away, since a JVM that once did not find its agent there never tries again.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

from pulsar_doctor.evidence.process_report import Inspection
from pulsar_doctor.parts.examine.child import CannotAttach, Child
from pulsar_doctor.parts.examine.identity import Process
from pulsar_doctor.parts.examine.inside import NEW, opened, read
from pulsar_doctor.parts.examine.jvm.attach import Jvm
from pulsar_doctor.parts.examine.jvm.inspection import (
    ANSWER_BYTES,
    MILLISECONDS,
    OBJECTS,
    inspection,
)
from pulsar_doctor.parts.examine.jvm.leftovers import AGENT, agent_folder, clear

JAR = Path(__file__).with_name("agent.jar")
LOADED = {  # sources: HotSpot's InvocationAdapter.c; 0 is good
    "0": "has run the agent, which could not write its answer into the JVM's /tmp",
    "100": "has not found the agent in its /tmp",
    "101": "does not take the agent into its class path",
    "102": "could not start the agent; the JVM has written why on its stderr",
}


def consumers(jvm: Jvm, milliseconds: int = MILLISECONDS, objects: int = OBJECTS) -> Inspection:
    """What the Pulsar clients in this JVM report. milliseconds: most CPU. Raises CannotAttach."""
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
    return inspection(text, process.pid)


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
    """Why there is no answer of the agent: by the JVM's answer to the command to load it."""
    text = " ".join(answer.split())
    if re.search(r"[Dd]ynamic agent loading is not enabled", text):
        return "does not load agents while it runs (-XX:-EnableDynamicAgentLoading)"
    code = text.removeprefix("return code: ")
    return LOADED.get(code, f"has loaded the agent, and nothing came of it ({text[:200]})")
