"""The few commands that the tap changes so that a client stays on it.

- LOOKUP_RESPONSE: `proxy_through_service_url` is set. The client then connects to the tap again and
  names the broker it wants in CONNECT, as it does with Pulsar's own proxy (PIP-14 and the binary
  protocol, "Topic lookup"). The broker's URLs become an address of the tap that represents the
  broker, so that a client which does not know that field comes to the tap as well. Where there is
  no such address both URLs name the broker as the tap dials it.
- CONNECT: `proxy_to_broker_url` is taken off: no broker is meant to see it. Where the service URL
  is a proxy, as its own answers to lookups say, that proxy gets the broker.
- CLOSE_CONSUMER, CLOSE_PRODUCER: the broker that they point to is taken off (PIP-307): the client
  sends a lookup instead. Newer clients would come back to the tap with that URL, since they
  remember that the lookup required it (`useProxy`); older ones would dial it.
- TOPIC_MIGRATED: the other cluster becomes another address of the tap (PIP-188).

Fields that pulsar_wire.proto does not name (credentials, feature flags) stay as they were: protobuf
keeps what it does not know.
"""

from __future__ import annotations

from typing import Any

from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.tap.relay.addresses import Address, address_of, place_of
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.framing import Frame
from pulsar_doctor.wording.addresses import shown

CONNECT, CLOSE_PRODUCER, CLOSE_CONSUMER = 2, 15, 16
LOOKUP, LOOKUP_RESPONSE, AUTH_RESPONSE, TOPIC_MIGRATED = 23, 24, 37, 68
HELD_TO_BROKER = frozenset({CONNECT, LOOKUP, AUTH_RESPONSE})
HELD_TO_CLIENT = frozenset({LOOKUP_RESPONSE, CLOSE_CONSUMER, CLOSE_PRODUCER, TOPIC_MIGRATED})

REDIRECT, FAILED = 0, 2  # CommandLookupTopicResponse.LookupType
SERVICE_NOT_READY = 6  # ServerError: clients look up again, with their usual pauses
ASSIGNED = ("assigned_broker_service_url", "assigned_broker_service_url_tls")
CLOSING = {CLOSE_CONSUMER: "close_consumer", CLOSE_PRODUCER: "close_producer"}


class NotForTap(DoctorError):
    """An answer that would lead the client past the tap."""


def framed(command: bytes, behind: bytes = b"") -> bytes:
    """A command with its two sizes. behind: its payload part."""
    total = 4 + len(command) + len(behind)
    return b"".join((total.to_bytes(4, "big"), len(command).to_bytes(4, "big"), command, behind))


def reframed(command: Any, frame: Frame, original: bytes) -> bytes:
    """The frame of a changed command; what stood behind the original one stays there."""
    return framed(command.SerializeToString(), original[8 + len(frame.command) :])


def longest_message(connected: Frame) -> int:
    """Bytes of the longest message that a CONNECTED allows; 0 where it does not say."""
    try:
        return int(wire.BaseCommand.FromString(connected.command).connected.max_message_size)
    except Exception:  # upb's DecodeError
        return 0


def wanted_broker(command: bytes) -> str:
    """The broker that a CONNECT asks for; "" where it asks for none, or is no CONNECT."""
    try:
        return str(wire.BaseCommand.FromString(command).connect.proxy_to_broker_url)
    except Exception:  # upb's DecodeError
        return ""


def connect(frame: Frame, original: bytes, name: str = "") -> bytes:
    """A CONNECT. name: of the broker, for a proxy. May raise upb's DecodeError, like all here."""
    command = wire.BaseCommand.FromString(frame.command)
    if command.connect.proxy_to_broker_url == name and (
        name or not command.connect.HasField("proxy_to_broker_url")
    ):
        return original
    command.connect.ClearField("proxy_to_broker_url")
    if name:
        command.connect.proxy_to_broker_url = name
    return reframed(command, frame, original)


def is_redirect(answer: Any) -> bool:
    """Whether a LOOKUP_RESPONSE sends the client to ask another broker."""
    return bool(answer.HasField("response") and answer.response == REDIRECT)


def broker_of(answer: Any, *, tls: bool) -> Address | None:
    """The broker that a command names, as the tap dials it; None where it names none.

    answer: a command with broker_service_url and broker_service_url_tls.
    """
    return address_of(answer.broker_service_url_tls if tls else answer.broker_service_url)


def keep_on_tap(answer: Any, *, tls: bool) -> Address | None:
    """Changes a LOOKUP_RESPONSE so that the client comes back; the broker that it named.

    None where it names none: then it is left as it is. tls: whether brokers are dialled with TLS.
    Raises NotForTap where it only names the broker's other port: going there, the client would be
    past the tap, and perhaps past TLS.
    """
    broker = broker_of(answer, tls=tls)
    if broker is None:
        if broker_of(answer, tls=not tls) is None:
            return None
        which = "no TLS address" if tls else "no address without TLS"
        raise NotForTap(f"the broker that the lookup found reported {which}")
    place = place_of(answer.broker_service_url_tls if tls else answer.broker_service_url)
    if tls:
        answer.broker_service_url = f"pulsar://{place}"
    else:
        answer.broker_service_url_tls = f"pulsar+ssl://{place}"
    answer.proxy_through_service_url = True
    return broker


def behind_proxy(answer: Any) -> Address | None:
    """The broker that a proxy's LOOKUP_RESPONSE names; None where that is not what it is."""
    if not answer.proxy_through_service_url:
        return None
    return broker_of(answer, tls=False) or broker_of(answer, tls=True)


def stand_for(command: Any, stand_in: Address) -> None:
    """Has a LOOKUP_RESPONSE or TOPIC_MIGRATED name an address of the tap for the broker."""
    command.broker_service_url = f"pulsar://{shown(stand_in)}"
    command.broker_service_url_tls = f"pulsar+ssl://{shown(stand_in)}"


def not_ready(request_id: int, why: str) -> Any:
    """A LOOKUP_RESPONSE of our own: the client asks again a little later."""
    answer = wire.LookupResponse(
        response=FAILED, request_id=request_id, error=SERVICE_NOT_READY, message=why
    )
    return wire.BaseCommand(type=LOOKUP_RESPONSE, lookup_response=answer)


def without_broker(frame: Frame, original: bytes, *, tls: bool) -> tuple[bytes, Address | None]:
    """A CLOSE_CONSUMER or CLOSE_PRODUCER as the client gets it, and the broker that it named."""
    command = wire.BaseCommand.FromString(frame.command)
    closing = getattr(command, CLOSING[frame.code])
    named = [name for name in ASSIGNED if closing.HasField(name)]
    if not named:
        return original, None
    broker = address_of(getattr(closing, ASSIGNED[tls]))
    for name in named:
        closing.ClearField(name)
    return reframed(command, frame, original), broker
