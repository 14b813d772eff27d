"""The server of tools, resources and a prompt, on standard input and output or on loopback."""

from __future__ import annotations

import json
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, BinaryIO, Literal, TextIO, cast

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from pulsar_doctor import __version__
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.mcp.calls import NOTE, Doctor
from pulsar_doctor.wording.gate import warn
from pulsar_doctor.wording.printable import json_text, listed, printable

TOOLS = ("check", "judge", "explain", "known_issues", "holes", "what_if", "compare")
NAME_MOST = 50  # characters of a name that is refused
READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
INSTRUCTIONS = (
    "Explains why consumers of Apache Pulsar are stuck, and only reads. Begin with check, or with "
    f"judge for a pasted text. exit_code 1: stalled; 3: unknown, which is not healthy; {NOTE}."
)
Arg = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00-\x1f\x7f]*$")]
Document = Annotated[str, Field(max_length=4_000_000)]
Seconds = Annotated[int, Field(ge=0, le=60)]
DocumentKind = Literal["stats", "internal-stats", "case"]
Call = Context[Any, Any]
BRIEF = ("stall-check", "--output=brief")
HERE = Path(__file__)
GLOSSARY = HERE.with_name("glossary.md"), HERE.parents[3] / "docs/glossary.md"  # or a source tree
INCIDENT = HERE.with_name("incident.txt")


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools, resources and the prompt."""

    doctor: Doctor

    async def check(
        self, ctx: Call, topic: Arg = "", subscription: Arg = "", namespace: Arg = "",
        context: Arg = "", seconds: Seconds = 10,
    ) -> CallToolResult:  # fmt: skip
        """Explains why subscriptions of a live cluster are stuck or slow, the worst first.

        Give a topic, or a namespace as tenant/namespace. context: one of the allowed clusters, if
        there are several. seconds: how long it watches; more seconds decide more.
        """
        line = self._source("", "", context, topic, subscription, namespace)
        return await self.doctor.answer(ctx, *BRIEF, f"--window={seconds}s", *line)

    async def judge(
        self, ctx: Call, document: Document, kind: DocumentKind = "stats", topic: Arg = "",
        subscription: Arg = "", at: Arg = "",
    ) -> CallToolResult:  # fmt: skip
        """Explains why subscriptions are stuck, from a text that somebody pasted; needs no cluster.

        kind `stats`: what `pulsar-admin topics stats` printed, metrics of a broker, a thread dump
        of a client, or a log; or what `topics stats-internal` printed; or a case of pulsar-doctor.
        at: when it was printed, such as 2026-05-01T12:00:00Z.
        """
        line = [
            *_options(at=at),
            *self._source(f"--{kind}", document or " ", "", topic, subscription),
        ]
        return await self.doctor.answer(ctx, *BRIEF, *line, pasted=document)

    async def explain(self, ctx: Call, code: Arg) -> CallToolResult:
        """Explains a cause by its code, such as permits-exhausted: meaning, sources, thresholds."""
        return await self.doctor.answer(ctx, "explain", "--", code)

    async def known_issues(
        self, ctx: Call, issue: Arg = "", component: Arg = "broker", version: Arg = ""
    ) -> CallToolResult:
        """Shows a known bug, or lists those of a version of the broker, java, go, cpp, …"""
        some = ("list", *_options(component=component, version=version))
        return await self.doctor.answer(
            ctx, "known-issues", *(("show", "--", issue) if issue else some)
        )

    async def holes(
        self, ctx: Call, topic: Arg = "", subscription: Arg = "", context: Arg = "",
        document: Document = "",
    ) -> CallToolResult:  # fmt: skip
        """Shows holes between acknowledged messages, and what they cost at the next load.

        document: what `topics stats-internal` printed, instead of a live topic.
        """
        line = self._source("--internal-stats", document, context, topic, subscription)
        return await self.doctor.answer(ctx, "holes", *line, pasted=document)

    async def what_if(
        self, ctx: Call, topic: Arg = "", subscription: Arg = "", context: Arg = "",
        document: Document = "",
    ) -> CallToolResult:  # fmt: skip
        """Predicts what helps a slow subscription: `helps` has what each lever would bring.

        It also has all that is known of it. document: as for judge, instead of a live topic.
        """
        line = self._source("--stats", document, context, topic, subscription)
        return await self.doctor.answer(ctx, "stall-check", "-v", *line, pasted=document)

    async def compare(
        self, ctx: Call, earlier: Document, topic: Arg = "", subscription: Arg = "",
        context: Arg = "", document: Document = "",
    ) -> CallToolResult:  # fmt: skip
        """Says whether a remedy has worked, by what `topics stats` printed before it, and by now.

        Now is a live topic, or a document of today. exit_code 3: not yet well.
        """
        line = self._source("--stats", document, context, topic, subscription)
        return await self.doctor.answer(ctx, *BRIEF, *line, pasted=document, earlier=earlier or " ")

    def causes(self) -> str:
        """The codes of all causes with their titles."""
        return json_text({cause.code: cause.text.strip().partition("\n")[0] for cause in load()})

    def glossary(self) -> str:
        """The words of Pulsar and of pulsar-doctor."""
        return next(file for file in GLOSSARY if file.exists()).read_text("utf-8")

    def incident(self, topic: str, subscription: str = "") -> str:
        """How to find out why a consumer is stuck."""
        where = json_text({"topic": topic, "subscription": subscription})
        return INCIDENT.read_text("utf-8").format(where=where, note=NOTE)

    def _source(
        self, option: str, document: str, context: str, topic: str, subscription: str,
        where: str = "",
    ) -> list[str]:  # fmt: skip
        """What is read: standard input, if there is a document; else a cluster. where: a namespace.

        Raises ToolError for nothing or too much, and for a cluster that is not allowed.
        """
        if topic and where:
            raise ToolError("give a topic or a namespace, not both")
        if not (document or topic or where):
            raise ToolError(f"give a topic, or a {'document' if option else 'namespace'}")
        first, allowed = f"{option}=-", self.doctor.contexts
        if not document:
            context = context or (allowed[0] if len(allowed) == 1 else "")
            first = f"--context={context}"
            if context not in allowed:
                names = ", ".join(allowed) or "none, see --allow-context"
                raise ToolError(f"name an allowed context; allowed: {names}")
        given = _options(subscription=subscription, namespace=where)
        return [first, *given, *(["--", topic] if topic else [])]


def _options(**given: str) -> list[str]:
    return [f"--{name}={value}" for name, value in given.items() if value]


async def serve(doctor: Doctor, port: int | None) -> None:
    """Until the client closes standard input; with a port, until Ctrl-C."""
    server = server_of(doctor)
    sys.stdin = cast(TextIO, SimpleNamespace(buffer=_Lines(sys.stdin.buffer)))
    await (server.run_stdio_async() if port is None else on_loopback(server, port))


class _Lines(BufferedIOBase):
    """Lines of JSON. Half a character becomes `?`: the SDK answers no request that has one."""

    def __init__(self, lines: BinaryIO) -> None:
        self._lines = lines

    def readable(self) -> bool:
        """It is."""
        return True

    def read1(self, size: int = -1) -> bytes:
        """One line, or nothing at the end."""
        line = self._lines.readline()
        with suppress(ValueError, RecursionError):  # what is no JSON the SDK refuses
            if b"\\ud" in line.lower():
                whole = json.dumps(json.loads(line), ensure_ascii=False)
                return whole.encode(errors="replace") + b"\n"
        return line


class _Server(MCPServer):
    """The SDK drops arguments that a tool does not have; here they are an error."""

    async def call_tool(self, name: str, arguments: dict[str, Any], *more: Any) -> Any:
        """Calls it. Raises ToolError."""
        for tool in await self.list_tools():
            known = tool.input_schema["properties"]
            if tool.name == name and (others := arguments.keys() - known):
                names = listed([printable(each[:NAME_MOST]) for each in sorted(others)], 3)
                raise ToolError(f"{name} has no argument {names}; it has {', '.join(known)}")
        return await super().call_tool(name, arguments, *more)


def server_of(doctor: Doctor) -> MCPServer:
    """With everything that an assistant may use."""
    server = _Server(
        "pulsar-doctor", version=__version__, instructions=INSTRUCTIONS, log_level="CRITICAL"
    )
    tools = Tools(doctor)
    for name in TOOLS:
        server.add_tool(getattr(tools, name), annotations=READS, structured_output=False)
    server.resource("pulsar-doctor://causes")(tools.causes)
    server.resource("pulsar-doctor://glossary")(tools.glossary)
    server.prompt()(tools.incident)
    return server


async def on_loopback(server: MCPServer, port: int) -> None:
    """Streamable HTTP for programs of this machine. Raises DoctorError where the port is taken."""
    try:
        listening = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise DoctorError(f"cannot listen on 127.0.0.1:{port}: {error.strerror}") from None
    with listening:
        places = [f"{name}:{listening.getsockname()[1]}" for name in ("127.0.0.1", "localhost")]
        origins = [f"http://{place}" for place in places]
        security = TransportSecuritySettings(allowed_hosts=places, allowed_origins=origins)
        app = server.streamable_http_app(transport_security=security)
        warn(f"listening on {origins[0]}/mcp")
        config = uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1)
        await uvicorn.Server(config).serve([listening])
