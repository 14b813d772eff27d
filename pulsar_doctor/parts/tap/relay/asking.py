"""Follows redirects of topic lookups, on a connection for each request.

Messages there is in lookups.py.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from pulsar_doctor.parts.tap.relay.addresses import Address
from pulsar_doctor.parts.tap.relay.dialling import Dialler
from pulsar_doctor.parts.tap.relay.lookups import Following, Inquiry

FOLLOW_SECONDS = 10.0


async def follow(following: Following, dialler: Dialler) -> Any:
    """The final LOOKUP_RESPONSE, a BaseCommand. Raises Unfollowed, Refused or Unreachable."""
    try:
        async with asyncio.timeout(FOLLOW_SECONDS):
            while following.answer is None:
                broker, inquiry = following.next()
                dialler.targets.name(broker)
                await _ask(broker, inquiry, dialler)
                following.heard(inquiry)
    except TimeoutError:
        raise following.late() from None
    return following.answer


async def _ask(broker: Address, inquiry: Inquiry, dialler: Dialler) -> None:
    asking = LookupAsking(inquiry)
    await dialler.connect(broker, lambda: asking)
    await asking.over()


class LookupAsking(asyncio.Protocol):
    """The connection of one inquiry."""

    def __init__(self, inquiry: Inquiry) -> None:
        self._inquiry = inquiry
        self._transport: asyncio.Transport | None = None
        self._over = asyncio.Event()

    async def over(self) -> None:
        """Waits for its outcome, and hangs up."""
        try:
            await self._over.wait()
        finally:
            if self._transport is not None:
                self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """First the client's CONNECT."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        self._transport.write(self._inquiry.greeting)

    def data_received(self, data: bytes) -> None:
        """Until the answer is here."""
        out = self._inquiry.receive(data)
        if out and self._transport is not None:
            self._transport.write(out)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Too early, where there is no answer yet."""
        self._inquiry.ended()
        self._look()

    def _look(self) -> None:
        if self._inquiry.outcome is not None:
            self._over.set()
