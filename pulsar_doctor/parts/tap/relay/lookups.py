"""The steps of following a redirected topic lookup for a client.

A broker that does not know who owns a topic answers LOOKUP with another broker to ask. A client
would connect to that one directly, past the tap; so the tap asks it, on a connection of its own
that lasts for the one question, with the client's own CONNECT and LOOKUP, and the client gets the
final answer. The connections are made in asking.py; no socket and no event loop are known here.
"""

from __future__ import annotations

from typing import Any

from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.tap.relay import rewrites
from pulsar_doctor.parts.tap.relay.addresses import Address
from pulsar_doctor.parts.tap.relay.rewrites import LOOKUP_RESPONSE, framed
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.framing import Cutter, Frame
from pulsar_doctor.wording.addresses import shown

HOPS_MOST = 20  # as the clients have it (maxLookupRedirects)
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

    def remember(self, lookup: bytes) -> None:
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


class Following:
    """One redirect on its way to an answer. question: the client's LOOKUP. redirect: its answer.

    greeting: the frame of the client's CONNECT.
    """

    def __init__(self, question: bytes, redirect: Any, greeting: bytes, *, tls: bool) -> None:
        self._question = wire.BaseCommand.FromString(question)
        self._redirect = redirect
        self._greeting = greeting
        self._tls = tls
        self._hops = 0
        self.where = "another broker"  # the broker that has the question, in words
        self.answer: Any = None  # the final one, a BaseCommand

    def next(self) -> tuple[Address, Inquiry]:
        """Whom to ask next, and what. Raises Unfollowed where nobody can be reached."""
        if self._hops >= HOPS_MOST:
            raise Unfollowed(f"this lookup was redirected more than {HOPS_MOST} times")
        self._hops += 1
        broker = rewrites.broker_of(self._redirect, tls=self._tls)
        if broker is None:
            raise Unfollowed("a redirect of this lookup names no broker to dial")
        self.where = f"the broker {shown(broker)}"
        self._question.lookup.authoritative = self._redirect.authoritative
        return broker, Inquiry(self._greeting, framed(self._question.SerializeToString()))

    def heard(self, inquiry: Inquiry) -> None:
        """Takes the broker's reply: the answer, or whom to ask next. Raises Unfollowed."""
        answer = inquiry.outcome
        if isinstance(answer, str):
            raise Unfollowed(f"{self.where} {answer}")
        if rewrites.is_redirect(answer.lookup_response):
            self._redirect = answer.lookup_response
        else:
            self.answer = answer

    def late(self) -> Unfollowed:
        """Why there is no answer where nobody wants to wait any longer."""
        return Unfollowed(f"{self.where} did not answer a redirected lookup in time")


class Inquiry:
    """A connection of the tap's own, for one LOOKUP. greeting and question: whole frames."""

    def __init__(self, greeting: bytes, question: bytes) -> None:
        self.greeting = greeting  # what is sent first
        self.outcome: Any = None  # LOOKUP_RESPONSE as BaseCommand, or what came instead, in words
        self._question = question
        self._cutter = Cutter()

    def receive(self, data: bytes) -> bytes:
        """What to send after this from the broker: the question, when it has let us in."""
        out = b""
        try:
            for frame in self._cutter.feed(data):
                out += self._heard(frame)
            if self._cutter.position > ANSWER_BYTES_MOST:
                self._over("talks without answering a redirected lookup")
        except Exception:  # FramingError, upb's DecodeError
            self._over("answers a redirected lookup with nonsense")
        return out

    def ended(self) -> None:
        """The broker has hung up: too early, where there is no answer yet."""
        self._over("closed the connection before it answered a redirected lookup")

    def _heard(self, frame: Frame) -> bytes:
        if frame.code == CONNECTED:
            return self._question
        if frame.code == PING:
            return PONG
        if frame.code == LOOKUP_RESPONSE:
            self._over(wire.BaseCommand.FromString(frame.command))
        elif frame.code == ERROR:
            self._over("refused the client when it was asked a redirected lookup")
        elif frame.code == AUTH_CHALLENGE:
            self._over("wants other credentials for a redirected lookup than the client first gave")
        return b""

    def _over(self, outcome: Any) -> None:
        if self.outcome is None:
            self.outcome = outcome
