"""Which frames are changed on their way (lookups, redirects), and which pass unchanged.

How a frame is changed is in rewrites.py. What else is to be done about one (a broker to be named, a
redirect to be followed) is added to the errands of its conversation. No socket, no event loop and
no clock are known here.

A client's CONNECT command is kept to follow redirects in its name: in memory only, for as long as
the connection is open, and in no repr, since it has credentials.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet

from pulsar_doctor.parts.tap.relay import rewrites
from pulsar_doctor.parts.tap.relay.addresses import Address, Way, addresses_of
from pulsar_doctor.parts.tap.relay.errands import Errand, Follow, Name, SayAloud
from pulsar_doctor.parts.tap.relay.lookups import Following, Questions, Unfollowed
from pulsar_doctor.parts.tap.relay.passage import TO_BROKER, TO_CLIENT
from pulsar_doctor.parts.tap.relay.rewrites import NotForTap, framed
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.framing import Frame, prefixed
from pulsar_doctor.wording.addresses import shown

# Where a client finds the cluster that its topic has moved to; None where the tap has no place.
Migrate = Callable[[tuple[Address, ...]], Address | None]
# An address of the tap that represents a broker; None where there is none.
StandIn = Callable[[Way], Address | None]
GREETING_BYTES_MOST = 64 * 1024
AUTH_DATA = b"\x1a"  # the tag of CommandConnect.auth_data, field 3
RESPONSE, AUTH_DATA_OF_RESPONSE = 2, 2  # fields of CommandAuthResponse and of AuthData


class Greeting:
    """The client's CONNECT, and the newer credentials of its last AUTH_RESPONSE, if any."""

    __slots__ = ("_connect", "_renewed")

    def __init__(self) -> None:
        self._connect = b""
        self._renewed = b""

    def remember(self, connect: bytes) -> None:
        """The CONNECT of this connection, a BaseCommand; too long a one is not kept."""
        if not self._connect and len(connect) <= GREETING_BYTES_MOST:
            self._connect = connect

    def renewed(self, auth_response: bytes) -> None:
        """Credentials that the broker requested again, when the first ones had expired (PIP-30).

        auth_response: the BaseCommand. May raise upb's DecodeError.
        """
        answer = wire.BaseCommand.FromString(auth_response).auth_response
        fresh = _field(_field(answer.SerializeToString(), RESPONSE), AUTH_DATA_OF_RESPONSE)
        if len(fresh) <= GREETING_BYTES_MOST:
            self._renewed = fresh

    def forget(self) -> None:
        """The connection is over."""
        self._connect = self._renewed = b""

    def frame(self) -> bytes:
        """A CONNECT for another broker; b"" where none was kept."""
        if not self._connect:
            return b""
        command = wire.BaseCommand.FromString(self._connect)
        command.connect.ClearField("proxy_to_broker_url")
        if self._renewed:  # of a field that is there twice the last one counts
            fresh = AUTH_DATA + prefixed(self._renewed)
            command.connect.MergeFromString(fresh)
        return framed(command.SerializeToString())


def _field(message: bytes, number: int) -> bytes:
    """The last bytes field of that number; b"" where there is none."""
    fields: Any = UnknownFieldSet(wire.Empty.FromString(message))
    found = [field.data for field in fields if (field.field_number, field.wire_type) == (number, 2)]
    return found[-1] if found else b""


class Decisions:
    """The decisions of one connection. tls: whether its brokers are dialled with TLS."""

    def __init__(
        self, errands: list[Errand], *, tls: bool, migrate: Migrate | None, stand_in: StandIn | None
    ) -> None:
        self.way = Way()  # to the broker, once it is known
        self._errands = errands
        self._stand_in = stand_in
        self._tls = tls
        self._migrate = migrate
        self._greeting = Greeting()
        self._questions = Questions()

    def decide(self, frame: Frame, original: bytes, direction: int) -> bytes:
        """What to pass on instead of a held frame. Never raises."""
        try:
            return DECISIONS[direction][frame.code](self, frame, original)
        except Exception:  # upb's DecodeError, and more: not ours to judge
            return original

    def forget(self) -> None:
        """The connection is over."""
        self._greeting.forget()

    def following(self, errand: Follow) -> Following:
        """How a redirect is followed, with the credentials of now. Raises Unfollowed."""
        greeting = self._greeting.frame()
        if errand.question is None or not greeting:
            raise Unfollowed("the tap cannot follow a redirect of a lookup it did not see")
        return Following(errand.question, errand.redirect, greeting, tls=self._tls)

    def followed(self, answer: Any) -> bytes:
        """The frame that a client gets for the answer to a redirected lookup."""
        kept = self._kept_on_tap(answer)
        return framed((answer if kept is None else kept).SerializeToString())

    def _connect(self, frame: Frame, original: bytes) -> bytes:
        self._greeting.remember(frame.command)
        return rewrites.connect(frame, original, self.way.name)

    def _lookup(self, frame: Frame, original: bytes) -> bytes:
        self._questions.remember(frame.command)
        return original

    def _auth_response(self, frame: Frame, original: bytes) -> bytes:
        self._greeting.renewed(frame.command)
        return original

    def _lookup_response(self, frame: Frame, original: bytes) -> bytes:
        command = wire.BaseCommand.FromString(frame.command)
        question = self._questions.answered(command.lookup_response.request_id)
        if rewrites.is_redirect(command.lookup_response):
            self._errands.append(Follow(question, command.lookup_response))
            return b""
        kept = self._kept_on_tap(command)
        return original if kept is None else rewrites.reframed(kept, frame, original)

    def _kept_on_tap(self, command: Any) -> Any:
        """A LOOKUP_RESPONSE that keeps the client here; None where it may pass as it is."""
        answer = command.lookup_response
        if (behind := rewrites.behind_proxy(answer)) is not None:
            self._errands.append(Name(behind, behind=True))
            return command if self._stood_for(answer, Way(None, shown(behind))) else None
        try:
            broker = rewrites.keep_on_tap(answer, tls=self._tls)
        except NotForTap as error:
            self._errands.append(SayAloud(str(error)))
            return rewrites.not_ready(answer.request_id, str(error))
        if broker is None:
            return None
        self._errands.append(Name(broker))
        self._stood_for(answer, Way(broker))
        return command

    def _stood_for(self, answer: Any, way: Way) -> bool:
        """Whether it now names an address of the tap."""
        stand_in = None if self._stand_in is None else self._stand_in(way)
        if stand_in is not None:
            rewrites.stand_for(answer, stand_in)
        return stand_in is not None

    def _closing(self, frame: Frame, original: bytes) -> bytes:
        instead, broker = rewrites.without_broker(frame, original, tls=self._tls)
        if broker is not None and not self.way.name:
            self._errands.append(Name(broker))
        return instead

    def _topic_migrated(self, frame: Frame, original: bytes) -> bytes:
        command = wire.BaseCommand.FromString(frame.command)
        migrated = command.topic_migrated
        url = migrated.broker_service_url_tls if self._tls else migrated.broker_service_url
        brokers = addresses_of(url)
        if not brokers or self._migrate is None:
            return original
        address = self._migrate(brokers)
        if address is None:
            return original
        rewrites.stand_for(migrated, address)
        return rewrites.reframed(command, frame, original)


DECISIONS: dict[int, dict[int, Callable[[Decisions, Frame, bytes], bytes]]] = {
    TO_BROKER: {
        rewrites.CONNECT: Decisions._connect,
        rewrites.LOOKUP: Decisions._lookup,
        rewrites.AUTH_RESPONSE: Decisions._auth_response,
    },
    TO_CLIENT: {
        rewrites.LOOKUP_RESPONSE: Decisions._lookup_response,
        rewrites.CLOSE_CONSUMER: Decisions._closing,
        rewrites.CLOSE_PRODUCER: Decisions._closing,
        rewrites.TOPIC_MIGRATED: Decisions._topic_migrated,
    },
}
