"""Follows the redirects of topic lookups in the client's place.

A broker that does not know who owns a topic answers LOOKUP with another broker to ask. A client
would connect to that one directly, past the tap; so the tap asks it, on a connection of its own
that lasts for the one question, with the client's own CONNECT and LOOKUP, and the client gets the
final answer.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from pulsar_doctor import pulsar_wire_pb2 as wire
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.framing import Cutter, Frame
from pulsar_doctor.relay import rewrites
from pulsar_doctor.relay.addresses import Address, shown
from pulsar_doctor.relay.dialling import Dialler
from pulsar_doctor.relay.rewrites import LOOKUP_RESPONSE, framed

HOPS_MOST = 20  # as the clients have it (maxLookupRedirects)
FOLLOW_SECONDS = 10.0
QUESTIONS_BYTES_MOST = 1024 * 1024  # of one connection
ANSWER_BYTES_MOST = 1024 * 1024
CONNECTED, ERROR, PING, AUTH_CHALLENGE = 3, 14, 18, 36
PONG = framed(wire.BaseCommand(type=19, pong=wire.Empty()).SerializeToString())


class Unfollowed(DoctorError):
    """A redirect that led to no answer."""


class Questions:
    """The LOOKUPs of one connection that have no answer yet, by request id."""

    __slots__ = ("_bytes", "_open")

    def __init__(self) -> None:
        self._open: dict[int, bytes] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._open)

    def asked(self, lookup: bytes) -> None:
        """A LOOKUP, a BaseCommand, has passed; the oldest are forgotten where they are too many."""
        request_id = wire.BaseCommand.FromString(lookup).lookup.request_id
        self.answered(request_id)
        self._open[request_id] = lookup
        self._bytes += len(lookup)
        while self._bytes > QUESTIONS_BYTES_MOST:
            self.answered(next(iter(self._open)))

    def answered(self, request_id: int) -> bytes | None:
        """The LOOKUP that this answers, forgotten by now; None where it is not known."""
        lookup = self._open.pop(request_id, None)
        self._bytes -= len(lookup or b"")
        return lookup


async def follow(question: bytes, redirect: Any, greeting: bytes, dialler: Dialler) -> Any:
    """The final LOOKUP_RESPONSE, a BaseCommand, to a question that was answered with a redirect.

    question: the client's LOOKUP. greeting: the frame of its CONNECT. Raises Unfollowed.
    """
    asked = wire.BaseCommand.FromString(question)
    tls = dialler.context is not None
    where = "another broker"
    try:
        async with asyncio.timeout(FOLLOW_SECONDS):
            for _ in range(HOPS_MOST):
                broker = rewrites.broker_of(redirect, tls=tls)
                if broker is None:
                    raise Unfollowed("a redirect of this lookup names no broker to dial")
                where = f"the broker {shown(broker)}"
                dialler.targets.name(broker)
                asked.lookup.authoritative = redirect.authoritative
                answer = await _answer(broker, greeting, framed(asked.SerializeToString()), dialler)
                if not rewrites.is_redirect(answer.lookup_response):
                    return answer
                redirect = answer.lookup_response
    except TimeoutError:
        raise Unfollowed(f"{where} did not answer a redirected lookup in time") from None
    raise Unfollowed(f"this lookup was redirected more than {HOPS_MOST} times")


async def _answer(broker: Address, greeting: bytes, question: bytes, dialler: Dialler) -> Any:
    asking = LookupConnection(greeting, question)
    await dialler.connect(broker, lambda: asking)
    return await asking.outcome(f"the broker {shown(broker)}")


class LookupConnection(asyncio.Protocol):
    """A connection of the tap's own, for one LOOKUP. greeting and question: whole frames."""

    def __init__(self, greeting: bytes, question: bytes) -> None:
        self._greeting = greeting
        self._question = question
        self._cutter = Cutter()
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def outcome(self, where: str) -> Any:
        """The LOOKUP_RESPONSE, a BaseCommand. Raises Unfollowed with what happened instead."""
        try:
            answer = await self._answer
        finally:
            if self._transport is not None:
                self._transport.close()
        if isinstance(answer, str):
            raise Unfollowed(f"{where} {answer}")
        return answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """First the client's CONNECT; the question when the broker has let us in."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        self._transport.write(self._greeting)

    def data_received(self, data: bytes) -> None:
        """Until the answer is here."""
        try:
            for frame in self._cutter.feed(data):
                self._heard(frame)
            if self._cutter.position > ANSWER_BYTES_MOST:
                self._over("talks without answering a redirected lookup")
        except Exception:  # FramingError, upb's DecodeError
            self._over("answers a redirected lookup with nonsense")

    def connection_lost(self, exc: Exception | None) -> None:
        """Too early, where there is no answer yet."""
        self._over("closed the connection before it answered a redirected lookup")

    def _heard(self, frame: Frame) -> None:
        if frame.code == CONNECTED:
            self._write(self._question)
        elif frame.code == LOOKUP_RESPONSE:
            self._over(wire.BaseCommand.FromString(frame.command))
        elif frame.code == PING:
            self._write(PONG)
        elif frame.code == ERROR:
            self._over("refused the client when it was asked a redirected lookup")
        elif frame.code == AUTH_CHALLENGE:
            self._over("wants other credentials for a redirected lookup than the client first gave")

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _over(self, answer: Any) -> None:
        if not self._answer.done():
            self._answer.set_result(answer)
