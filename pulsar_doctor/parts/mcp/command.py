"""`pulsar-doctor mcp`: lets an assistant ask, with tools that only read."""

from __future__ import annotations

import os
import signal
from threading import Timer
from typing import Any

import click

from pulsar_doctor.cli import _completing
from pulsar_doctor.cli._commands import Sections
from pulsar_doctor.cli._options import adding, option, talk_options
from pulsar_doctor.cli._types import DURATION
from pulsar_doctor.errors import needing

GROUP = "diagnose"


@click.command(cls=Sections)
@adding(
    contexts=option(
        "--allow-context", metavar="NAME", multiple=True, shell_complete=_completing.contexts,
        help="A cluster that may be read: one of `context list`; may be repeated. Without it none.",
    ),
    port=option(
        "--http", metavar="PORT", type=click.IntRange(0, 65_535),
        help="Serve HTTP on 127.0.0.1 instead of standard input and output; 0: any free port.",
    ),
    limit=option(
        "--time-limit", type=DURATION, default="2m", show_default=True,
        help="How long a call may take; then it is ended.",
    ),
)  # fmt: skip
@talk_options
def command(contexts: tuple[str, ...], port: int | None, limit: float) -> None:
    """Serves read-only tools to assistants (MCP).

    An assistant starts it, and they talk the Model Context Protocol. Each tool is one call of
    pulsar-doctor: check, judge, explain, known_issues, holes, what_if and compare. They only
    read: none takes a message, loads a topic of a namespace, touches a process, writes a file, or
    reaches a cluster that --allow-context does not name. Credentials come from the context alone.

    \b
    pulsar-doctor mcp --allow-context prod
    pulsar-doctor mcp --allow-context prod --allow-context staging
    pulsar-doctor mcp --http 8765

    With --http, every user of this machine can connect; the headers Host and Origin are checked, so
    that no page in a browser can.
    """
    from pulsar_doctor.broker.contexts import read
    from pulsar_doctor.broker.settings import IN_CONTEXTS

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name, signal.SIGTERM), _end)
    for name in contexts:
        read(os.environ, IN_CONTEXTS).named(name)
    with needing("mcp", "pulsar-doctor mcp"):
        import anyio

        from pulsar_doctor.parts.mcp.calls import Doctor
        from pulsar_doctor.parts.mcp.serving import serve

    anyio.run(serve, Doctor(contexts, limit), port)


def _end(*_: Any) -> None:
    """Ends all calls as Ctrl-C does, and us: the thread that reads standard input never ends."""
    Timer(1, os._exit, [130]).start()
    raise KeyboardInterrupt
