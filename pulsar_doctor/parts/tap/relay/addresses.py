"""Host and port of a broker, as people and brokers write them.

Read strictly: what is no plain host and port is no address, whatever a URL parser might find in it.
One spelling for each address, so that two can be compared; nothing is resolved here.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

Address = tuple[str, int]  # host and port, the host as `normalised` gives it


class Way(NamedTuple):
    """How the tap gets to a broker."""

    dial: Address | None = None  # None: one of the service URL's, which is a proxy
    name: str = ""  # the broker for CONNECT to that proxy; "": no proxy


# Why a broker that a client requests is not dialled. The request is not repeated: it may not
# be an address at all, and `proxy_to_broker_url` may hold a password.
NOT_NAMED = "no lookup of this cluster named the broker that the client asks for"

PORTS = {"pulsar": 6650, "pulsar+ssl": 6651}
_NAMED = re.compile(
    r"(?:pulsar(?:\+ssl)?://)?(\[[0-9A-Za-z:.%_-]+\]|[0-9A-Za-z._-]+):([0-9]{1,5})/?", re.ASCII
)


def address_of(url: str) -> Address | None:
    """Host and port of `pulsar://host:port` or `host:port`; None where it is neither."""
    found = _NAMED.fullmatch(url)
    if found is None or not 0 < int(found[2]) < 65536:
        return None
    host = normalised(found[1])
    if found[1].startswith("[") and not is_ipv6(host):
        return None
    return (host, int(found[2])) if host else None


def addresses_of(url: str) -> tuple[Address, ...]:
    """The addresses of `pulsar://a:6650,b:6650`, all that can be read."""
    scheme, _, rest = url.rpartition("://")
    if scheme not in ("", *PORTS):
        return ()
    found = (address_of(part) for part in rest.rstrip("/").split(","))
    return tuple(address for address in found if address is not None)


def place_of(url: str) -> str:
    """`host:port` of a URL that address_of can read, as it is written there."""
    return url.rpartition("://")[2].rstrip("/")


def service_addresses(scheme: str, rest: str) -> tuple[Address, ...]:
    """The brokers of a service URL that a person wrote; the port may be missing.

    rest: what follows `://`; a user and a path in it are passed over.
    """
    found = []
    for part in rest.split(","):
        try:
            address = urlsplit(f"//{part.strip()}")
            if address.hostname:
                found.append((normalised(address.hostname), address.port or PORTS[scheme]))
        except ValueError:  # a port that is none
            continue
    return tuple(found)


def normalised(host: str) -> str:
    """One spelling for a host: no brackets, small letters, no dot at the end, IPv6 shortened."""
    host = host.strip("[]").lower()
    if is_ipv6(host):
        return str(ip_address(host))
    return host.removesuffix(".")


def is_ipv6(host: str) -> bool:
    """Whether this is an address of IPv6, without brackets."""
    try:
        IPv6Address(host)
    except ValueError:
        return False
    return True


def is_name(host: str) -> bool:
    """Whether this is a name, and no address."""
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return bool(host)
    return False
