"""Sends GET requests only, and only to brokers of the cluster.

Scheme, host and port count: what listens at another port of a broker's host is somebody else. A
cluster lists one port where a broker has two, so that one with TLS counts as the broker's where its
certificate is held against the name of a host that the cluster lists.
Authorities are trusted as the system does, or by `tls_trust_certs` alone. A proxy (see proxies.py)
only carries what TLS hides from it.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import cycle

import httpx2

from pulsar_doctor.broker.admin import refusals
from pulsar_doctor.broker.admin.refusals import BrokerFailed, Refused
from pulsar_doctor.broker.credentials import Certificate
from pulsar_doctor.broker.proxies import proxy_for
from pulsar_doctor.broker.request_log import logged
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.broker.tls import towards_brokers
from pulsar_doctor.errors import InputError

POOL_CONNECTIONS = 4


class Members:
    """Who belongs to the cluster: the origins of the admin URL, and the brokers that it lists.

    proven: certificates are held against the names of hosts (not with `tls_allow_insecure`).
    """

    def __init__(self, bases: Iterable[httpx2.URL], *, proven: bool) -> None:
        self._origins = {origin_of(base) for base in bases}
        self._listed: set[tuple[str, int]] = set()
        self._proven = proven

    def add(self, brokers: Iterable[str]) -> None:
        """Brokers that the cluster lists as `host:port`; what is no such name is passed over."""
        self._listed.update(place for broker in brokers if (place := place_of(broker)))

    def has(self, url: httpx2.URL) -> bool:
        """Whether this address belongs to the cluster, as far as the cluster has named it."""
        scheme, host, port = origin_of(url)
        if (scheme, host, port) in self._origins or (host, port) in self._listed:
            return True
        return scheme == "https" and self._proven and host in {listed for listed, _ in self._listed}


class ReadOnly(httpx2.AsyncBaseTransport):
    """Where requests are sent. members: the cluster's, may grow. at_once: requests, about.

    httpx2 searches all connections of a pool for each request, so there are several small
    pools, taken in turn. tls is called at the first https request: loading authorities is slow.
    """

    def __init__(
        self,
        members: Members,
        tls: Callable[[], ssl.SSLContext],
        *,
        at_once: int,
        direct: bool = False,
    ) -> None:
        self._members = members
        self._tls = tls
        self._pools = -(-at_once // POOL_CONNECTIONS)
        self._direct = direct
        self._turns: dict[tuple[str, httpx2.URL | None], Iterator[httpx2.AsyncHTTPTransport]] = {}
        self._open: list[httpx2.AsyncHTTPTransport] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Sends a GET to the cluster; raises Refused for anything else, and nothing is sent."""
        if request.method != "GET":
            raise Refused(f"pulsar-doctor only reads: it sends no {request.method} to a broker")
        if not self._members.has(request.url):
            raise Refused(
                f"{refusals.place(request.url)} is not a broker of the cluster: no request was sent"
            )
        proxy = proxy_for(request.url, direct=self._direct)
        way = (request.url.scheme, proxy)
        if way not in self._turns:
            self._turns[way] = self._pools_for(*way)
        pool = next(self._turns[way])
        try:
            return await logged(pool.handle_async_request(request), request)
        except (httpx2.ConnectError, httpx2.ProxyError) as error:
            if proxy is not None:
                raise refusals.of_proxy(error, request.url, proxy) from error
            raise

    async def aclose(self) -> None:
        """Closes all connections."""
        for pool in self._open:
            await pool.aclose()

    def _pools_for(
        self, scheme: str, proxy: httpx2.URL | None
    ) -> Iterator[httpx2.AsyncHTTPTransport]:
        # Without https the context is not used; this one would trust nobody.
        context = self._tls() if scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=POOL_CONNECTIONS)
        pools = [
            httpx2.AsyncHTTPTransport(
                verify=context,
                limits=limits,
                trust_env=False,
                proxy=httpx2.Proxy(proxy) if proxy else None,
            )
            for _ in range(self._pools)
        ]
        self._open += pools
        return cycle(pools)


def places_of(admin_url: str) -> str:
    """Where a cluster is, for a person: without anything secret. Raises as `bases_of` does."""
    return ", ".join(refusals.place(base) for base in bases_of(admin_url))


def bases_of(admin_url: str) -> list[httpx2.URL]:
    """The addresses of the admin URL. Raises InputError, never with credentials in it."""
    scheme, separator, rest = admin_url.partition("://")
    addresses = [f"{scheme}://{address}" for address in rest.split(",") if address]
    try:
        bases = [httpx2.URL(address) for address in addresses] if separator else []
    except httpx2.InvalidURL:
        bases = []
    if not bases or scheme not in ("http", "https") or not all(base.host for base in bases):
        raise InputError("the admin URL is not an http:// or https:// address; see --admin-url")
    if any(base.userinfo for base in bases):
        raise InputError("no credentials in the admin URL: use --auth-plugin and --auth-params")
    return bases


def url_of(base: httpx2.URL, path: str, params: Mapping[str, str] | None) -> httpx2.URL:
    """The address of a path of the REST API, behind whatever path the admin URL has.

    A path that begins with a slash, as /metrics/, is beside the REST API.
    """
    root = base.raw_path.decode().partition("?")[0].rstrip("/")
    below = path if path.startswith("/") else f"/admin/v2/{path}"
    return httpx2.URL(f"{refusals.place(base)}{root}{below}", params=params)


def target_of(url: httpx2.URL, location: str) -> httpx2.URL:
    """Where a redirect leads. Raises BrokerFailed."""
    try:
        target = url.join(location)
    except httpx2.InvalidURL:
        target = httpx2.URL()
    if target.scheme not in ("http", "https") or not target.host or target.userinfo:
        raise BrokerFailed(
            f"{refusals.place(url)} redirects to something that is not a broker's address"
        )
    return target


def tls_context(settings: Settings, certificate: Certificate | None) -> ssl.SSLContext:
    """Whom we trust, and our own certificate. Raises InputError."""
    trust, insecure = settings.tls_trust_certs, settings.tls_allow_insecure
    return towards_brokers(trust, certificate, insecure=insecure, system=_system_trust)


def _system_trust() -> ssl.SSLContext:
    context = httpx2.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


def origin_of(url: httpx2.URL) -> tuple[str, str, int]:
    """Scheme, host and port, also where the port is the scheme's own."""
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)


def place_of(broker: str) -> tuple[str, int] | None:
    """Host and port of `host:port`; None where there is no host."""
    try:
        _, host, port = origin_of(httpx2.URL(f"http://{broker}"))
    except httpx2.InvalidURL:
        return None
    return (host, port) if host else None
