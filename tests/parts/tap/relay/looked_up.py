"""LOOKUPs and their answers, as clients and brokers put them on the wire."""

from __future__ import annotations

from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from tests.parts.tap.tapped import FUTURE, command_frame, frame

LISTENER = b"\x3a\x08internal"  # CommandLookupTopic.advertised_listener_name, not in our proto


def lookup(request_id: int, *, authoritative: bool = False) -> bytes:
    asked = wire.Lookup(topic="t", request_id=request_id, authoritative=authoritative)
    body = asked.SerializeToString() + LISTENER
    return frame(b"\x08\x17\xba\x01" + bytes([len(body)]) + body + FUTURE)


def answer(url: str, request_id: int, response: int = 1, **more: object) -> bytes:
    return command_frame(
        24, "lookup_response", broker_service_url=f"pulsar://{url}", response=response,
        request_id=request_id, **more,
    )  # fmt: skip


def stand_in(told: bytes, url: str, request_id: int, host: str = "127.0.0.1") -> str:
    """The address of the tap that stands for the broker `url` in this answer."""
    named = wire.BaseCommand.FromString(told[8:]).lookup_response.broker_service_url
    place = named.removeprefix("pulsar://")
    assert place.startswith(f"{host}:")
    assert place != url
    assert told == kept(place, request_id)
    return place


def redirect(url: str, request_id: int, *, authoritative: bool = True) -> bytes:
    return answer(url, request_id, response=0, authoritative=authoritative)


def kept(url: str, request_id: int) -> bytes:
    return answer(
        url, request_id, broker_service_url_tls=f"pulsar+ssl://{url}",
        proxy_through_service_url=True,
    )  # fmt: skip
