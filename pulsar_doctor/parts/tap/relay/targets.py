"""Which brokers and addresses the tap may connect to, whatever a client requests.

A client names the broker that it wants in CONNECT, so whoever reaches the tap could have it connect
anywhere; Pulsar's own proxy once did (CVE-2022-24280). Here a broker may be dialled when
- it is in the service URL or in --allow-broker, or
- the cluster named it, host and port, in an answer to a client of this tap.

What a name resolves to is checked, and exactly the checked addresses are dialled. The name of a
broker that the cluster named is resolved once, when it is named: a name that changes its answer
afterwards gets no connection. Named again, it is resolved again, since a restarted broker may have
moved. The names that whoever started the tap gave are resolved for each connection.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import NamedTuple

from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.tap.relay.addresses import NOT_NAMED, Address, Way
from pulsar_doctor.wording.addresses import shown

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

NAMED_MOST = 10_000
NAMED_AGAIN_SECONDS = 1.0  # a thousand lookups at once name the same few brokers
# Where clouds hand out credentials to whoever asks; none of these is ever a broker.
METADATA = frozenset(
    map(ip_address, ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "192.0.0.192"))
)
THIS_NETWORK = ip_network("0.0.0.0/8")  # its first address is this machine, on Linux
BROADCAST = ip_address("255.255.255.255")
NAT64 = ip_network("64:ff9b::/96")
OLD_MAPPED = ip_network("::/96")


class TargetRefused(DoctorError):
    """A broker that this tap does not connect to."""


class Route(NamedTuple):
    """One address of a broker."""

    host: str  # as it was named: the one that a certificate must be for
    address: str
    port: int


class _Pin:
    """What a name was resolved to when the cluster named it."""

    def __init__(self, at: float) -> None:
        self.at = at
        self.addresses: Sequence[str] = ()
        self.task: asyncio.Task[None] | None = None


class Targets:
    """The brokers of one cluster. To be used in a running event loop.

    allowed: what the user allows beside the service URL. migrated_from: those of the cluster with
    the TOPIC_MIGRATED that named this service: then the cluster has named it, and not the user.
    """

    def __init__(
        self,
        service: Iterable[Address],
        allowed: Iterable[Address] = (),
        *,
        resolve: Resolve | None = None,
        migrated_from: Targets | None = None,
    ) -> None:
        self.service = list(service)  # in the order in which they are tried
        self._resolve: Resolve = resolve or (migrated_from._resolve if migrated_from else resolved)
        self._given = frozenset() if migrated_from else frozenset((*self.service, *allowed))
        self._parent = migrated_from
        self._pins: dict[Address, _Pin] = {}
        self._behind: dict[Address, None] = {}
        self._loopback = False
        if migrated_from is not None:
            self.name_service()

    @property
    def loopback(self) -> bool:
        """Whether a broker of the user's own naming is on this machine: then others may be too."""
        return self._loopback or (self._parent is not None and self._parent.loopback)

    async def learn(self) -> None:
        """Resolves what the user named, to know whether brokers on this machine are meant."""
        for broker in self._given:
            await self._ask(broker)

    def name(self, broker: Address) -> None:
        """The cluster has named this broker: from now on it may be dialled where it is now."""
        self._behind.pop(broker, None)
        if broker in self._given:
            return
        loop = asyncio.get_running_loop()
        known = self._pins.pop(broker, None)
        pin = known
        if pin is None or loop.time() - pin.at >= NAMED_AGAIN_SECONDS:
            pin = _Pin(loop.time())
            pin.task = loop.create_task(self._pin(broker, pin, known))
        self._pins[broker] = pin
        if len(self._pins) > NAMED_MOST:
            del self._pins[next(iter(self._pins))]

    def name_behind(self, broker: Address) -> None:
        """The service URL is a proxy and has named this broker, which is behind it."""
        self._behind[broker] = None
        if len(self._behind) > NAMED_MOST:
            del self._behind[next(iter(self._behind))]

    def way_to(self, broker: Address) -> Way:
        """How a broker is reached, as the cluster has named it."""
        return Way(None, shown(broker)) if broker in self._behind else Way(broker)

    def name_service(self) -> None:
        """The cluster before has named this one, again perhaps."""
        for broker in self.service:
            self.name(broker)

    async def _pin(self, broker: Address, pin: _Pin, known: _Pin | None) -> None:
        if known is not None and known.task is not None:
            await known.task
        pin.addresses = await self._ask(broker) or (known.addresses if known else ())
        pin.task = None

    async def routes(self, wanted: Address | None) -> list[Route]:
        """How to get to a broker, None for one of the service URL's; the best first.

        Raises Refused where it may not be dialled, DoctorError where its name leads nowhere.
        """
        brokers = self.service if wanted is None else [wanted]
        found = [route for broker in brokers for route in await self._routes(broker)]
        routes = [route for route in found if may_be_dialled(route.address, loopback=self.loopback)]
        if routes:
            return routes
        names = ", ".join(map(shown, brokers))
        if found:
            raise TargetRefused(f"{names} is at {found[0].address}, where no broker can be")
        raise DoctorError(f"the broker {names} cannot be reached: its name is not known")

    def prefer(self, route: Route) -> None:
        """A broker of the service URL answered: the next client is taken there first."""
        broker = route.host, route.port
        if len(self.service) > 1 and broker in self.service:
            at = self.service.index(broker)
            self.service = self.service[at:] + self.service[:at]

    async def _routes(self, broker: Address) -> list[Route]:
        if broker in self._given:
            addresses = await self._ask(broker)
        else:
            pin = self._pins.get(broker)
            if pin is None:
                raise TargetRefused(NOT_NAMED)
            if pin.task is not None:
                await asyncio.shield(pin.task)
            addresses = pin.addresses
        return [Route(broker[0], address, broker[1]) for address in addresses]

    async def _ask(self, broker: Address) -> Sequence[str]:
        """What the name resolves to now; nothing where it does not. Literals are not looked up."""
        host, port = broker
        try:
            addresses: Sequence[str] = (str(ip_address(host)),)
        except ValueError:
            try:
                addresses = list(dict.fromkeys(await self._resolve(host, port)))
            except (OSError, UnicodeError):
                return ()
        if broker in self._given and any(_plain(address).is_loopback for address in addresses):
            self._loopback = True
        return addresses


def may_be_dialled(address: str, *, loopback: bool) -> bool:
    """Whether a broker can be at this IP address. loopback: on this machine, too."""
    plain = _plain(address)
    if plain.is_loopback:
        return loopback
    return not (
        plain.is_link_local
        or plain.is_multicast
        or plain.is_unspecified
        or plain == BROADCAST
        or plain in THIS_NETWORK
        or plain in METADATA
    )


def _plain(address: str) -> IPv4Address | IPv6Address:
    """An address without its zone, and the one of IPv4 where it only wraps that."""
    plain = ip_address(address.partition("%")[0])
    if isinstance(plain, IPv4Address):
        return plain
    wrapped = plain.ipv4_mapped or plain.sixtofour
    if wrapped is None and (plain in NAT64 or (plain in OLD_MAPPED and int(plain) > 1)):
        wrapped = IPv4Address(int(plain) & 0xFFFFFFFF)
    return wrapped or plain


async def resolved(host: str, port: int) -> Sequence[str]:
    """The addresses of a name, as the system's resolver gives them. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(name[4][0]) for name in found]
