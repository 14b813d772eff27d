"""Shell completion of codes, thresholds, contexts, and topics of a broker that answers fast.

A shell inserts what is printed here into the command line, and bash does not quote it. So a name is
offered only if no character of it means anything to a shell, to a terminal, or to the script that
reads the answer. Files are listed by the shell itself, and it quotes their names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from pulsar_doctor.errors import DoctorError
from pulsar_doctor.wording.gate import stdout
from pulsar_doctor.wording.printable import printable

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem, ShellComplete

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_PULSAR_DOCTOR_COMPLETE"  # set by the scripts of these shells, to SHELL_complete
NAME_MOST = 400  # characters
PLAIN = re.compile(r"[\w./-][\w./:@+=-]*", re.ASCII)
TOPICS_SECONDS = 0.3  # somebody waits at the keyboard
FULL = "persistent://"
HOME = "public/default"  # the namespace of a topic that is named without one

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def answer(program: click.Command, instruction: str) -> int:
    """Prints what Tab offers, for the script of a shell. instruction: what it set VARIABLE to."""
    shell, _, what = instruction.partition("_")
    if shell not in SHELLS or what != "complete":
        return 2
    completion = completion_of(shell, program)
    try:
        typed = completion.get_completion_args()
    except (LookupError, ValueError):  # no script of ours set COMP_WORDS and COMP_CWORD
        return 2
    items = filter(_offered, completion.get_completions(*typed))
    stdout().writelines(f"{completion.format_completion(item)}\n" for item in items)
    return 0


def completion_of(shell: str, program: click.Command) -> ShellComplete:
    """How a shell asks this program, and what it is answered."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    return found(program, {}, "pulsar-doctor", VARIABLE)


def _offered(item: CompletionItem[Any]) -> bool:
    if item.type == "plain":
        return len(item.value) <= NAME_MOST and PLAIN.fullmatch(item.value) is not None
    item.value = printable(item.value)  # what is typed: the shell completes files by itself
    return True


def offering(names: Callable[[click.Context, str], Iterable[str]]) -> Complete:
    """The candidates that begin with what is typed; none where they cannot be had."""

    def complete(ctx: click.Context, _: click.Parameter, typed: str) -> list[str]:
        with suppress(DoctorError, OSError, TimeoutError):
            found = {name for name in names(ctx, typed) if name.startswith(typed)}
            return sorted(name for name in found if not name.startswith("-"))
        return []

    return complete


@offering
def codes(ctx: click.Context, typed: str) -> Iterable[str]:
    """Codes of causes, and `healthy`."""
    from pulsar_doctor.diagnosis import healthy
    from pulsar_doctor.diagnosis.causes import load

    return [*(cause.code for cause in load()), healthy.STATUS.code]


@offering
def thresholds(ctx: click.Context, typed: str) -> Iterable[str]:
    """`CODE.THRESHOLD=`, as --set takes it."""
    from pulsar_doctor.diagnosis import healthy
    from pulsar_doctor.diagnosis.causes import load

    causes = [*load(), healthy.STATUS]
    return [f"{each.code}.{one.name}=" for each in causes for one in each.thresholds]


@offering
def contexts(ctx: click.Context, typed: str) -> Iterable[str]:
    """Names of contexts."""
    from pulsar_doctor.broker.contexts import read
    from pulsar_doctor.broker.settings import IN_CONTEXTS

    return read(os.environ, IN_CONTEXTS).by_name


@offering
def topics(ctx: click.Context, typed: str) -> Iterable[str]:
    """Topics of the namespace that is typed, in the way it is typed; listing them loads none."""
    import anyio

    path = typed.removeprefix(FULL).split("/")
    namespace = "/".join(path[:2]) if len(path) == 3 else HOME
    shown = FULL if typed.startswith(FULL) else ""
    for name in anyio.run(_topics_of, ctx, namespace):
        whole = name.removeprefix(FULL)
        yield shown + (whole if shown or len(path) == 3 else whole.removeprefix(f"{HOME}/"))


async def _topics_of(ctx: click.Context, namespace: str) -> Iterable[str]:
    import anyio
    import httpcore2  # noqa: F401

    from pulsar_doctor.broker.admin import Admin
    from pulsar_doctor.broker.settings import load

    where = load(ctx.find_root().ensure_object(dict), os.environ)
    async with Admin(where) as admin:
        await anyio.sleep(0)  # imports what httpx2 needs at its first request: it is not the broker
        with anyio.fail_after(TOPICS_SECONDS):
            found = await admin.topics(namespace)
    partitions = tuple(f"{name}-partition-" for name in found.partitioned)
    whole = [name for name in found.topics if not name.startswith(partitions)]
    return [*whole, *found.partitioned]
