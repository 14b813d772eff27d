"""Shell completion of codes, thresholds, contexts, and topics of a broker that answers fast."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress

import click

from pulsar_doctor.errors import DoctorError

TOPICS_SECONDS = 0.3  # somebody waits at the keyboard
FULL = "persistent://"
HOME = "public/default"  # the namespace of a topic that is named without one

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def offering(names: Callable[[click.Context, str], Iterable[str]]) -> Complete:
    """Those that begin with what is typed; none where they cannot be had."""

    def complete(ctx: click.Context, _: click.Parameter, typed: str) -> list[str]:
        with suppress(DoctorError, OSError, TimeoutError):
            return sorted({name for name in names(ctx, typed) if name.startswith(typed)})
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
    import httpcore  # noqa: F401

    from pulsar_doctor.broker.admin import Admin
    from pulsar_doctor.broker.settings import load

    where = load(ctx.find_root().ensure_object(dict), os.environ)
    async with Admin(where) as admin:
        await anyio.sleep(0)  # imports what httpx needs at its first request: it is not the broker
        with anyio.fail_after(TOPICS_SECONDS):
            found = await admin.topics(namespace)
    partitions = tuple(f"{name}-partition-" for name in found.partitioned)
    whole = [name for name in found.topics if not name.startswith(partitions)]
    return [*whole, *found.partitioned]
