"""Additional listeners of the tap: for each broker, and for clusters that topics moved to.

Lookups are answered with an address that represents the broker that was found. A client that names
its broker in CONNECT never connects there; one that does not know how to comes to the tap all the
same.

TOPIC_MIGRATED (PIP-188) names another cluster, where the client searches its topic again as if that
were its service URL. So that it stays on the tap it is given an address of the tap instead, on the
host that it reached; behind it is that cluster, and no broker but those that it names.

Where the tap was given a name to listen at, that name is in all of them: a certificate may be
good for nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import Any

from pulsar_doctor.parts.tap.relay import tls
from pulsar_doctor.parts.tap.relay.addresses import Address, Way, is_name, normalised
from pulsar_doctor.parts.tap.relay.connection import accept
from pulsar_doctor.parts.tap.relay.connections import Connections
from pulsar_doctor.parts.tap.relay.conversation import HOME
from pulsar_doctor.parts.tap.relay.dialling import SHUTDOWN_SECONDS, Dialler
from pulsar_doctor.parts.tap.relay.targets import Targets

LISTENERS_MOST = 16
STAND_INS_MOST = 256
NAMES_MOST = 4096  # of stand-ins: clients may call the tap by several
HANDSHAKE_SECONDS = 10.0
BACKLOG = 1024
MANY_CLUSTERS = (
    f"more than {LISTENERS_MOST} clusters that topics moved to: clients of the next ones go past "
    "the tap"
)
MANY_BROKERS = (
    f"more than {STAND_INS_MOST} brokers: a client that does not name the broker it wants "
    "(proxy_through_service_url) goes past the tap to the next ones"
)

ListenerKey = tuple[str, tuple[Address, ...]]  # where it listens, and for which cluster


class Listeners:
    """The sockets that the tap listens on. host: where to listen, a name or an address."""

    def __init__(self, context: ssl.SSLContext | None, host: str = "") -> None:
        self.context = context  # the tap's own TLS; None: no TLS
        self._name = normalised(host) if is_name(host) else None
        self._servers: list[asyncio.Server] = []
        self._migrated: dict[ListenerKey, Address] = {}
        self._clusters: dict[tuple[Address, ...], Dialler] = {}
        self._stand_ins: dict[tuple[str, Dialler, Way], Address] = {}
        self._stand_for: dict[Address, Way] = {}
        self._starting: set[asyncio.Task[None]] = set()
        self.connections: Connections

    async def listen(self, dialler: Dialler, home: Way = HOME, **where: Any) -> asyncio.Server:
        """Accepts clients for the cluster behind dialler. where: as create_server takes it.

        home: the broker of clients that name none.
        """
        server = await asyncio.get_running_loop().create_server(
            lambda: accept(self.connections, dialler, home),
            **where,
            backlog=BACKLOG,
            ssl=self.context,
            ssl_handshake_timeout=HANDSHAKE_SECONDS if self.context else None,
            ssl_shutdown_timeout=SHUTDOWN_SECONDS if self.context else None,
        )
        self._servers.append(server)
        return server

    def _by_name(self, address: Address) -> Address:
        """The host by its name, where it has one and nothing else has this port there."""
        named = (self._name, address[1]) if self._name else address
        return address if named in self._stand_for else named

    def migrate(
        self, brokers: tuple[Address, ...], client: asyncio.BaseTransport | None, before: Dialler
    ) -> Address | None:
        """The address of the tap for the cluster with these brokers; None where there is none.

        client: whoever gets it; it is reached where it has reached the tap. before: how the cluster
        is dialled that named the new one.
        """
        if not (name := _own_name(client)):
            return None
        known = self._migrated.get((name[0], brokers))
        if known is not None:
            self._clusters[brokers].targets.name_service()
            return _as_called(known, client)
        full = MANY_CLUSTERS if len(self._migrated) >= LISTENERS_MOST else ""
        if (sock := self._socket(name, full, "for a migrated topic")) is None:
            return None
        if brokers not in self._clusters:
            targets = Targets(brokers, migrated_from=before.targets)
            self._clusters[brokers] = Dialler(targets, before.context)
        address = self._by_name(self._begin(self._clusters[brokers], HOME, sock))
        self._migrated[name[0], brokers] = address
        return _as_called(address, client)

    def stand_in(
        self, way: Way, client: asyncio.BaseTransport | None, dialler: Dialler
    ) -> Address | None:
        """The address of the tap that represents a broker; None where there is none.

        client: whoever gets it; it is reached where it has reached the tap.
        """
        if not (name := _own_name(client)):
            return None
        known = self._stand_ins.get((name[0], dialler, way))
        if known is not None:
            return self._called(known, way, client)
        full = MANY_BROKERS if len(self._stand_ins) >= STAND_INS_MOST else ""
        if (sock := self._socket(name, full, "in the place of a broker")) is None:
            return None
        address = self._by_name(self._begin(dialler, way, sock))
        self._stand_ins[name[0], dialler, way] = address
        return self._called(address, way, client)

    def _socket(self, name: tuple[Any, ...], full: str, what: str) -> socket.socket | None:
        """One that listens; None, and a sentence, where there are enough or none can be had."""
        why = full
        try:
            if not full:
                return _bound(name)
        except OSError as error:
            why = f"cannot listen {what}: {error.strerror}"
        self.connections.say(why)
        return None

    def _called(self, address: Address, way: Way, client: asyncio.BaseTransport | None) -> Address:
        called = _as_called(address, client)
        if called not in self._stand_for and len(self._stand_for) >= NAMES_MOST:
            called = address
        self._stand_for[called] = way
        return called

    def way_of(self, address: Address) -> Way | None:
        """The broker that this address represents."""
        return self._stand_for.get(address)

    def _begin(self, dialler: Dialler, home: Way, sock: socket.socket) -> Address:
        """Has it listen; where it does."""
        task = asyncio.get_running_loop().create_task(self._listening(dialler, home, sock))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)
        host, port = sock.getsockname()[:2]
        return str(host), int(port)

    async def _listening(self, dialler: Dialler, home: Way, sock: socket.socket) -> None:
        try:
            await self.listen(dialler, home, sock=sock)
        except OSError as error:
            sock.close()
            self.connections.say(f"cannot listen at another port: {error.strerror}")

    def close(self) -> None:
        """No more clients."""
        for task in self._starting:
            task.cancel()
        for server in self._servers:
            with contextlib.suppress(OSError):
                server.close()


def _as_called(address: Address, client: asyncio.BaseTransport | None) -> Address:
    """This address, by the host name that the client gave in TLS: the certificate is for that."""
    host = tls.requested_host(client)
    return (host, address[1]) if host else address


def _own_name(client: asyncio.BaseTransport | None) -> Any:
    """Where a client has reached the tap; None: it is gone."""
    return client.get_extra_info("sockname") if client is not None else None


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
