"""A client's CONNECT command, kept in memory to follow redirects in its name.

In memory only, for as long as the connection is open, and in no repr: these are credentials.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet

from pulsar_doctor.parts.tap.relay.rewrites import framed
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.framing import prefixed

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
