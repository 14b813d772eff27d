"""The server of tools, resources and a prompt, on standard input and output or on loopback."""

from __future__ import annotations

import json
import socket
import sys
from contextlib import suppress
from io import BufferedIOBase
from types import SimpleNamespace
from typing import Any, BinaryIO, TextIO, cast

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ToolAnnotations

from pulsar_doctor import __version__
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.mcp.calls import NOTE, Doctor
from pulsar_doctor.parts.mcp.tools import Tools
from pulsar_doctor.wording.gate import warn
from pulsar_doctor.wording.printable import listed, printable

TOOLS = ("check", "judge", "explain", "known_issues", "holes", "what_if", "compare")
NAME_MOST = 50  # characters of a name that is refused
READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
INSTRUCTIONS = (
    "Explains why consumers of Apache Pulsar are stuck, and only reads. Begin with check, or with "
    f"judge for a pasted text. exit_code 1: stalled; 3: unknown, which is not healthy; {NOTE}."
)


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
