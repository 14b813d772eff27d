"""The server of tools, resources and a prompt, on standard input and output or on loopback."""

from __future__ import annotations

import socket

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ToolAnnotations

from pulsar_doctor import __version__
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.mcp.calls import NOTE, Doctor
from pulsar_doctor.parts.mcp.tools import Tools
from pulsar_doctor.wording.gate import warn

TOOLS = ("check", "judge", "explain", "known_issues", "holes", "what_if", "compare")
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
    await (server.run_stdio_async() if port is None else on_loopback(server, port))


def server_of(doctor: Doctor) -> MCPServer:
    """With everything that an assistant may use."""
    server = MCPServer(
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
