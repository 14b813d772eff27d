"""Connects to a broker: tries its addresses, then TLS and the host name.

No name is resolved here: the addresses are those that targets.py has checked.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Sequence

from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.tap.relay import tls
from pulsar_doctor.parts.tap.relay.addresses import Address
from pulsar_doctor.parts.tap.relay.targets import Route, Targets
from pulsar_doctor.wording.addresses import shown

DIAL_SECONDS = 10.0
ATTEMPT_SECONDS_LEAST = 1.0
SHUTDOWN_SECONDS = 5.0  # for the other end's goodbye of TLS


class TargetUnreachable(DoctorError):
    """No address of a broker took the connection."""

    def __init__(self, why: str, *, of_tls: bool = False) -> None:
        super().__init__(why)
        self.of_tls = of_tls  # one did, and TLS failed


class Dialler:
    """Dials the brokers of a cluster."""

    def __init__(self, targets: Targets, context: ssl.SSLContext | None) -> None:
        self.targets = targets
        self.context = context  # how TLS is spoken; None: no TLS

    async def connect(
        self, wanted: Address | None, protocol: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        """Connects protocol to a broker, None for the first of the service URL's that answers.

        Raises Refused or Unreachable, both with the sentence to be shown.
        """
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                routes = await self.targets.routes(wanted)
                route = await self._first(routes, protocol)
        except TimeoutError:
            brokers = self.targets.service if wanted is None else [wanted]
            raise _unreachable(brokers, "no answer") from None
        if wanted is None:
            self.targets.prefer(route)

    async def _first(
        self, routes: Sequence[Route], protocol: Callable[[], asyncio.BaseProtocol]
    ) -> Route:
        loop = asyncio.get_running_loop()
        until = loop.time() + DIAL_SECONDS
        failed: list[Exception] = []
        for number, route in enumerate(routes):
            share = (until - loop.time()) / (len(routes) - number)
            try:
                async with asyncio.timeout(max(share, ATTEMPT_SECONDS_LEAST)):
                    await self._attempt(route, protocol)
                return route
            except Exception as error:  # OSError, SSLError, CertificateError, TimeoutError
                failed.append(error)
        raise _why(routes, failed, with_tls=self.context is not None)

    async def _attempt(self, route: Route, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        loop = asyncio.get_running_loop()
        if self.context is None:
            await loop.create_connection(protocol, route.address, route.port)
            return
        await loop.create_connection(
            protocol,
            route.address,
            route.port,
            ssl=self.context,
            server_hostname=route.host.partition("%")[0],
            ssl_shutdown_timeout=SHUTDOWN_SECONDS,
        )


def _why(
    routes: Sequence[Route], failed: Sequence[Exception], *, with_tls: bool
) -> TargetUnreachable:
    for route, error in zip(routes, failed, strict=True):
        if (of_tls := tls.why_not(error, (route.host, route.port))) is not None:
            return TargetUnreachable(of_tls, of_tls=True)
    error = failed[-1]
    brokers = [(route.host, route.port) for route in routes]
    if with_tls and isinstance(error, ConnectionResetError | ConnectionAbortedError):
        return _unreachable(brokers, "it broke off the TLS handshake; does it speak TLS there?")
    number = getattr(error, "errno", None)
    why = os.strerror(number) if number and number > 0 else str(error) or "no answer"
    return _unreachable(brokers, why)


def _unreachable(brokers: Sequence[Address], why: str) -> TargetUnreachable:
    names = list(dict.fromkeys(map(shown, brokers)))
    what = f"the broker {names[0]}" if len(names) == 1 else f"none of {', '.join(names)}"
    return TargetUnreachable(f"{what} {'cannot' if len(names) == 1 else 'can'} be reached: {why}")
