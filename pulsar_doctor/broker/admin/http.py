"""Sends a limited number of REST requests at once, follows redirects, and reports failures.

A broker redirects to the one that owns a topic. Where the target is at another origin (scheme, host
and port) than those of the admin URL (several are written as Pulsar's tools do:
`http://a:8080,b:8080`), the cluster itself must name it: `GET /admin/v2/brokers`, read once for
each origin not seen before. Any other target, or one without TLS after one with TLS, is sent
nothing and gets nothing.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2

from pulsar_doctor import __version__
from pulsar_doctor.broker import bodies
from pulsar_doctor.broker.admin import refusals
from pulsar_doctor.broker.admin.cluster import (
    Members,
    ReadOnly,
    bases_of,
    target_of,
    tls_context,
    url_of,
)
from pulsar_doctor.broker.admin.refusals import AdminError, BrokerFailed, Refused
from pulsar_doctor.broker.credentials import credentials, expires_at
from pulsar_doctor.broker.patience import AnswerPatience, TooSlow
from pulsar_doctor.broker.proxies import proxy_for
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.broker.stats.fields import decoded
from pulsar_doctor.errors import InputError

ATTEMPTS = 3
BACKOFF_SECONDS = 0.2  # doubled after each attempt
REDIRECTS = 5
STREAMS = 8  # brokers that are read for their loaded topics at once
UNSET_BYTES = 64
UNSET = frozenset({b"", b"null"})  # how brokers answer for a policy that nobody has set

T = TypeVar("T")
LOG = logging.getLogger("pulsar_doctor.requests")
HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": bodies.ACCEPTED,
    "User-Agent": f"pulsar-doctor/{__version__}",
}


@dataclass(frozen=True, slots=True)
class RestAnswer:
    """A document and the broker's clock when it was written, epoch ms; None where not reported."""

    document: Any
    broker_clock_ms: int | None


@dataclass(frozen=True, slots=True)
class AnswerStream:
    """An answer that is read as it comes. Its steps raise AdminError."""

    response: httpx2.Response
    what: str
    _pieces: AsyncGenerator[bytes, None]

    def pieces(self) -> AsyncIterator[bytes]:
        """The body in pieces."""
        return self._steps(self._pieces)

    def lines(self) -> AsyncIterator[bytes]:
        """Whole lines, many at once, each behind its line feed."""
        return self._steps(bodies.lines_of(self._pieces))

    async def _steps(self, steps: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
        while step := await reading(anext(steps, b""), self.response.url, self.what):
            yield step


class Http:
    """Connections to the cluster, kept open; at most `concurrency` documents at once.

    Streams are counted apart, so that what a stream names can be requested while it is read.
    """

    def __init__(
        self, settings: Settings, *, concurrency: int, timeout_seconds: float, alone: bool = False
    ) -> None:
        """alone: no other address is read, whatever the cluster lists or a redirect names."""
        self._alone = alone
        self._bases = bases_of(settings.admin_url)
        self._timeout_seconds = timeout_seconds
        self._credentials = credentials(settings)
        self._slots = asyncio.Semaphore(concurrency)
        self._streams = asyncio.Semaphore(STREAMS)
        self._members = Members(self._bases, proven=not settings.tls_allow_insecure)
        self._strangers: dict[str, str] = {}  # its place -> why nothing is sent to it
        self._listing = asyncio.Lock()
        certificate = self._credentials.certificate or settings.certificate
        self._transport = ReadOnly(
            self._members,
            lambda: tls_context(settings, certificate),
            at_once=concurrency + STREAMS,
            direct=settings.no_proxy,
        )
        self._extensions = {"timeout": httpx2.Timeout(timeout_seconds).as_dict()}
        for base in self._bases:
            if proxy := proxy_for(base, direct=settings.no_proxy):
                LOG.debug("through the proxy %s of HTTPS_PROXY", refusals.place(proxy))
        for limits in (bodies.ANSWER, bodies.STREAM):
            LOG.debug("limits of %s", limits.sentence(timeout_seconds))

    async def close(self) -> None:
        """Closes the connections."""
        await self._transport.aclose()

    async def document(
        self, path: str, what: str, params: Mapping[str, str] | None = None, *, again: bool = True
    ) -> RestAnswer:
        """The JSON at this path; `what` names it in errors. Raises AdminError.

        An answer that is whole and empty is None: a policy that is not set. again: ask again where
        that may help.
        """
        async with self._slots:
            if not again:
                return await self._document(url_of(self._bases[0], path, params), what)
            return await self._again(
                lambda base: self._document(url_of(base, path, params), what), self._bases
            )

    async def text(self, path: str, what: str) -> str:
        """The text at this path, not JSON whatever its content type is. Raises AdminError."""

        async def read(base: httpx2.URL) -> str:
            _, body = await self._whole(url_of(base, path, None), what)
            return body.decode("utf-8", "replace")

        async with self._slots:
            return await self._again(read, self._bases)

    @asynccontextmanager
    async def stream(
        self, path: str, what: str, *, broker: str | None = None
    ) -> AsyncIterator[AnswerStream]:
        """An answer with its body still to be read; only its beginning is tried again.

        broker: `host:port` as the cluster lists it, None: the admin URL.
        """
        bases = [await self._broker(broker)] if broker else self._bases
        async with self._streams:
            stream = await self._again(
                lambda base: self._begun(url_of(base, path, None), what), bases
            )
            try:
                yield stream
            finally:
                await stream.response.aclose()

    async def brokers(self) -> list[str]:
        """`host:port` of each broker that the cluster lists (needs a superuser). AdminError."""
        async with self._slots:
            return await self._again(self._listed, self._bases)

    async def _again(self, ask: Callable[[httpx2.URL], Awaitable[T]], bases: list[httpx2.URL]) -> T:
        """Asks, and asks again after a while where that may help; the next address each time."""
        attempts = max(ATTEMPTS, len(bases))
        for attempt in range(attempts - 1):
            try:
                return await ask(bases[attempt % len(bases)])
            except AdminError as error:
                if not error.again:
                    raise
            await asyncio.sleep(BACKOFF_SECONDS * 2**attempt)
        return await ask(bases[(attempts - 1) % len(bases)])

    async def _document(self, url: httpx2.URL, what: str, *, follow: bool = True) -> RestAnswer:
        response, body = await self._whole(url, what, follow=follow)
        return RestAnswer(_parsed(response, body, what), clock_ms(response))

    async def _whole(
        self, url: httpx2.URL, what: str, *, follow: bool = True
    ) -> tuple[httpx2.Response, bytearray]:
        """The answer, and its body."""
        patience = AnswerPatience(bodies.ANSWER, self._timeout_seconds)
        response = await self._opened(url, what, patience, follow=follow)
        try:
            body = bodies.body_of(response, patience)
            return response, await reading(body, response.url, what)
        finally:
            await response.aclose()

    async def _begun(self, url: httpx2.URL, what: str) -> AnswerStream:
        patience = AnswerPatience(bodies.STREAM, self._timeout_seconds)
        response = await self._opened(url, what, patience)
        return AnswerStream(response, what, bodies.pieces_of(response, patience))

    async def _opened(
        self, url: httpx2.URL, what: str, patience: AnswerPatience, *, follow: bool = True
    ) -> httpx2.Response:
        """The answer with status 200 or 204, its body not yet read."""
        response = await (self._followed if follow else self._sent)(url, what, patience)
        if response.status_code in (200, 204):
            return response
        try:
            body = await reading(bodies.beginning_of(response, patience), response.url, what)
        finally:
            await response.aclose()
        raise refusals.of_status(response, body, what, expired_at=_expired(response))

    async def _followed(
        self, url: httpx2.URL, what: str, patience: AnswerPatience
    ) -> httpx2.Response:
        seen: list[httpx2.URL] = []
        while (response := await self._sent(url, what, patience)).has_redirect_location:
            await response.aclose()
            seen.append(url)
            url = target_of(url, response.headers["Location"])
            if url in seen or len(seen) > REDIRECTS:
                way = " to ".join(refusals.place(step) for step in [*seen, url])
                raise BrokerFailed(f"redirected in a circle for {what}: from {way}")
            if url.scheme != "https" and seen[-1].scheme == "https":
                raise Refused(f"redirected from TLS to {refusals.place(url)}: no request was sent")
            await self._require_member(url)
        return response

    async def _sent(self, url: httpx2.URL, what: str, patience: AnswerPatience) -> httpx2.Response:
        headers = HEADERS | await self._credentials.headers()
        request = httpx2.Request("GET", url, headers=headers, extensions=self._extensions)
        answer = patience.of(self._transport.handle_async_request(request))
        response = await reading(answer, url, what)
        response.request = request
        return response

    async def _broker(self, broker: str) -> httpx2.URL:
        try:
            base = httpx2.URL(f"{self._bases[0].scheme}://{broker}")
        except httpx2.InvalidURL:
            raise InputError(f"{broker!r} is not a broker; write host:port") from None
        await self._require_member(base)
        return base

    async def _require_member(self, url: httpx2.URL) -> None:
        """Raises Refused where this address is none of the cluster's."""
        if self._alone and not self._members.has(url):
            raise Refused(f"redirected to {refusals.place(url)}: no request was sent there")
        async with self._listing:
            known = self._members.has(url)
            why = None if known else self._strangers.get(refusals.place(url))
            why = why if known or why else await self._why_not(url)
        if why:
            raise Refused(
                f"{refusals.place(url)} was sent no request and no credentials: {why}; if it is "
                "a broker of this cluster, name it in --admin-url too (http://a:8080,b:8080)"
            )

    async def _why_not(self, url: httpx2.URL) -> str | None:
        """Reads the cluster's list of brokers: None where it names this one."""
        place = refusals.place(url)
        try:
            listed = await self._again(self._listed, self._bases)
        except AdminError as error:
            why = f"the cluster's list of brokers cannot be read ({error})"
            if isinstance(error, Refused):  # it will not be reported later either
                self._strangers[place] = why
            return why
        self._members.add(listed)
        if self._members.has(url):
            return None
        self._strangers[place] = "it is not in the cluster's list of brokers"
        return self._strangers[place]

    async def _listed(self, base: httpx2.URL) -> list[str]:
        """The active brokers as the admin URL itself lists them: no redirect is followed for it."""
        try:
            return await self._names(base, "brokers")
        except AdminError as error:
            if error.again or isinstance(error, Refused):
                raise
            first = error
        brokers: list[str] = []  # older brokers want the name of the cluster
        for cluster in await self._names(base, "clusters"):
            with suppress(AdminError):  # another cluster's brokers are not reported here
                brokers += await self._names(base, f"brokers/{quote(cluster, safe='')}")
        if not brokers:
            raise first
        return brokers

    async def _names(self, base: httpx2.URL, path: str) -> list[str]:
        what = f"the list of {path.partition('/')[0]}"
        answer = await self._document(url_of(base, path, None), what, follow=False)
        return names_in(answer.document, what)


async def reading(step: Awaitable[T], url: httpx2.URL, what: str) -> T:
    """One step on the network; its failures as AdminError."""
    try:
        return await step
    except bodies.TooLong as error:
        raise refusals.of_size(url, error.what + what, error.most) from None
    except bodies.TooMany as error:
        raise refusals.of_number(url, what, error) from None
    except TooSlow as error:
        raise refusals.of_time(url, what, error) from None
    except (httpx2.TransportError, httpx2.DecodingError, ssl.SSLError) as error:
        raise refusals.of_connection(error, url, what) from error


def names_in(names: Any, what: str) -> list[str]:
    """A list of names as it should be. Raises BrokerFailed."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BrokerFailed(f"{what} is not a list of names")
    return names


def _parsed(response: httpx2.Response, body: bytearray, what: str) -> Any:
    if bytes(body[:UNSET_BYTES]).strip() in UNSET and len(body) <= UNSET_BYTES:
        return None
    if not refusals.is_json(response):
        raise refusals.no_rest_api(response)
    try:
        bodies.require_few(body)
        return decoded(body)
    except bodies.TooMany as error:
        raise refusals.of_number(response.url, what, error) from None
    except (ValueError, RecursionError) as error:
        where = refusals.place(response.url)
        raise BrokerFailed(f"what {where} says of {what} is not JSON: {error}") from None


def clock_ms(response: httpx2.Response) -> int | None:
    """The broker's clock when it answered, epoch ms, to the second; None where not reported."""
    try:
        return int(parsedate_to_datetime(response.headers["Date"]).timestamp() * 1000)
    except (KeyError, ValueError, OverflowError):
        return None


def _expired(response: httpx2.Response) -> float | None:
    """When the token that was sent expired, by the broker's clock; None where it has not."""
    sent = {"Authorization": response.request.headers.get("Authorization", "")}
    expires, now_ms = expires_at(sent), clock_ms(response)
    return expires if expires and now_ms and expires * 1000 <= now_ms else None
