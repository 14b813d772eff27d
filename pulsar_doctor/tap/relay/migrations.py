"""Further listening addresses of the tap, one for each cluster that a topic has moved to.

TOPIC_MIGRATED (PIP-188) names another cluster, where the client looks its topic up again as if that
were its service URL. So that it stays on the tap it is given an address of the tap instead, on the
host that it reached; behind it is that cluster, and no broker but those that it names.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import Any

from pulsar_doctor.tap.relay.addresses import Address
from pulsar_doctor.tap.relay.connection import accept
from pulsar_doctor.tap.relay.connections import Connections
from pulsar_doctor.tap.relay.dialling import SHUTDOWN_SECONDS, Dialler
from pulsar_doctor.tap.relay.targets import Targets

LISTENERS_MOST = 16
HANDSHAKE_SECONDS = 10.0
BACKLOG = 1024

ListenerKey = tuple[str, tuple[Address, ...]]  # where it listens, and for which cluster


class Listeners:
    """All sockets that the tap listens on. context: the tap's own TLS; None for none."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self._servers: list[asyncio.Server] = []
        self._migrated: dict[ListenerKey, Address] = {}
        self._clusters: dict[tuple[Address, ...], Dialler] = {}
        self._starting: set[asyncio.Task[None]] = set()
        self.connections: Connections

    async def listen(self, dialler: Dialler, **where: Any) -> asyncio.Server:
        """Accepts clients for the cluster behind dialler. where: as create_server takes it."""
        server = await asyncio.get_running_loop().create_server(
            lambda: accept(self.connections, dialler),
            **where,
            backlog=BACKLOG,
            ssl=self._context,
            ssl_handshake_timeout=HANDSHAKE_SECONDS if self._context else None,
            ssl_shutdown_timeout=SHUTDOWN_SECONDS if self._context else None,
        )
        self._servers.append(server)
        return server

    def migrate(
        self, brokers: tuple[Address, ...], client: asyncio.BaseTransport | None, before: Dialler
    ) -> Address | None:
        """The address of the tap for the cluster with these brokers; None where there is none.

        client: whoever is told; it is reached where it has reached the tap. before: how the cluster
        is dialled that named the new one.
        """
        name = client.get_extra_info("sockname") if client is not None else None
        if not name:
            return None
        known = self._migrated.get((name[0], brokers))
        if known is not None:
            self._clusters[brokers].targets.name_service()
            return known
        if len(self._migrated) >= LISTENERS_MOST:
            self.connections.say(
                f"more than {LISTENERS_MOST} clusters that topics moved to: clients of the next "
                "ones go past the tap"
            )
            return None
        try:
            sock = _bound(name)
        except OSError as error:
            self.connections.say(f"cannot listen for a migrated topic: {error.strerror}")
            return None
        if brokers not in self._clusters:
            targets = Targets(brokers, migrated_from=before.targets)
            self._clusters[brokers] = Dialler(targets, before.context)
        task = asyncio.get_running_loop().create_task(self._begin(self._clusters[brokers], sock))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)
        address = name[0], int(sock.getsockname()[1])
        self._migrated[name[0], brokers] = address
        return address

    async def _begin(self, dialler: Dialler, sock: socket.socket) -> None:
        try:
            await self.listen(dialler, sock=sock)
        except OSError as error:
            sock.close()
            self.connections.say(f"cannot listen for a migrated topic: {error.strerror}")

    def close(self) -> None:
        """No more clients."""
        for task in self._starting:
            task.cancel()
        for server in self._servers:
            with contextlib.suppress(OSError):
                server.close()


def _bound(name: tuple[Any, ...]) -> socket.socket:
    """A listening socket on the host of this socket's name, on any port that is free.

    It listens at once: the client may come before the event loop has taken it over.
    """
    sock = socket.socket(socket.AF_INET6 if ":" in name[0] else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.bind((name[0], 0, *name[2:]))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock
