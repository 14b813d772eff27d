"""Finds the proxy on the way to an https address: HTTPS_PROXY and NO_PROXY, as curl reads them.

A tunnel (CONNECT) shows the proxy no request and no token. So an http address is reached directly,
and this machine itself always.
"""

from __future__ import annotations

from contextlib import suppress
from ipaddress import ip_address, ip_network
from urllib import request

import httpx2

from pulsar_doctor.errors import InputError

VARIABLE = "HTTPS_PROXY"
LOOPBACK = ("127.0.0.0/8", "::1/128", "::ffff:127.0.0.0/104")


def proxy_for(url: httpx2.URL, *, direct: bool = False) -> httpx2.URL | None:
    """The proxy towards this address; None: none. direct: whoever runs this wants none.

    Raises InputError, never with the proxy's password in it.
    """
    if direct or url.scheme != "https" or _is_near(url.host):
        return None
    proxies = request.getproxies_environment()
    if not (written := proxies.get("https", "")):
        return None
    near = request.proxy_bypass(f"{url.host}:{url.port or 443}")
    if near or _is_within(url.host, *proxies.get("no", "").split(",")):
        return None
    try:
        proxy = httpx2.URL(written if "://" in written else f"http://{written}")
    except httpx2.InvalidURL:
        proxy = httpx2.URL()
    if proxy.scheme not in ("http", "https") or not proxy.host:
        raise InputError(f"{VARIABLE} is not the http:// address of a proxy; or use --no-proxy")
    return proxy


def _is_near(host: str) -> bool:
    name = host.rstrip(".")
    return name == "localhost" or name.endswith(".localhost") or _is_within(host, *LOOPBACK)


def _is_within(host: str, *listed: str) -> bool:
    """Whether one of them is a network, as 10.0.0.0/8, that has this address."""
    for network in listed:
        with suppress(ValueError):  # one of both is a name
            if "/" in network and ip_address(host) in ip_network(network.strip(), strict=False):
                return True
    return False
