"""A broker of ours on loopback that says what a test likes, and keeps what it was told."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from google_crc32c import value as crc32c

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.parts.consume.engines import Plan
from pulsar_doctor.parts.consume.receiver import BlockingConsumer, Receiver, connected
from pulsar_doctor.parts.consume.receiver.spoken_pb2 import MessageMetadata
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.commands import CODES, COMMANDS, SERVER_ERRORS
from tests.conformance.raw_producer import batch_payload
from tests.made.frames import command_frame, frame, frames_from
from tests.support import eventually

PLAN = Plan("c", "t", "s", receiver_queue_size=10, nack_delay_seconds=0)
ZERO = replace(PLAN, receiver_queue_size=0)
TOPIC = "persistent://public/default/t"
SECOND = 1.0
SOON = 0.2
CONNECT_TO = 1  # CommandLookupTopicResponse.LookupType


def said(name: str, **fields: Any) -> bytes:
    """A frame with that command of the protocol."""
    return command_frame(CODES[name], COMMANDS[CODES[name]].field, **fields)


def message(
    entry_id: int,
    payload: bytes = b"payload",
    *,
    consumer_id: int = 0,
    spoil: int = 0,
    metadata: MessageMetadata | None = None,
    **fields: Any,
) -> bytes:
    """A MESSAGE; spoil: makes its checksum wrong."""
    inner = wire.Message(
        consumer_id=consumer_id, message_id=wire.MessageId(ledger_id=7, entry_id=entry_id), **fields
    )
    command = wire.BaseCommand(type=CODES["MESSAGE"], message=inner).SerializeToString()
    described = (metadata or MessageMetadata(publish_time=1_790_000_000_000)).SerializeToString()
    summed = struct.pack(">I", len(described)) + described + payload
    return frame(command, struct.pack(">HI", 0x0E01, crc32c(summed) ^ spoil) + summed)


class Talk:
    """One connection of a client."""

    def __init__(self, sock: socket.socket, broker: ScriptedBroker) -> None:
        self.sock = sock
        self.broker = broker
        self.permits: dict[int, int] = {}  # consumer -> permits granted

    def say(self, *frames: bytes) -> None:
        with contextlib.suppress(OSError):
            self.sock.sendall(b"".join(frames))

    def tell(self, name: str, **fields: Any) -> None:
        self.say(said(name, **fields))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)


# What is done about a command instead of the usual answer.
Answer = Callable[[Talk, Any], None]


class ScriptedBroker:
    """answers: by the name of the command in the protocol. partitions: of every topic.

    heard: every command of all connections, with the bytes of CONNECT and AUTH_RESPONSE beside
    what our copy of the protocol knows of them.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.url = f"pulsar{'+ssl' * bool(tls)}://127.0.0.1:{self.port}"
        self.partitions = 0
        self.answers: dict[str, Answer] = {}
        self.heard: list[wire.BaseCommand] = []
        self.raw: list[bytes] = []
        self.talks: list[Talk] = []
        self._tls = tls
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for talk in self.talks:
            talk.close()
        for thread in self._threads:
            thread.join(10)

    def all_of(self, name: str) -> list[Any]:
        """What was heard of one command."""
        known = COMMANDS[CODES[name]]
        return [getattr(c, known.field) for c in self.heard if c.type == CODES[name]]

    def hears(self, name: str, times: int = 1) -> list[Any]:
        """Waits until it has been said so often."""
        return eventually(lambda: found if len(found := self.all_of(name)) >= times else [])

    @property
    def flows(self) -> list[int]:
        return [flow.message_permits for flow in self.all_of("FLOW")]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._server.accept()
                thread = threading.Thread(target=self._talk, args=(sock,))
                self._threads.append(thread)
                thread.start()

    def _talk(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.enter_context(sock)
            if self._tls is not None:
                sock = stack.enter_context(self._tls.wrap_socket(sock, server_side=True))
            talk = Talk(sock, self)
            self.talks.append(talk)
            for frame, command in frames_from(sock):
                self.raw.append(frame[8 : 8 + int.from_bytes(frame[4:8], "big")])
                self.heard.append(command)
                self._answer(talk, command)

    def _answer(self, talk: Talk, command: wire.BaseCommand) -> None:
        known = COMMANDS[command.type]
        answer = self.answers.get(known.name) or USUAL.get(known.name)
        if answer is not None:
            answer(talk, getattr(command, known.field))


def _success(talk: Talk, command: Any) -> None:
    talk.tell("SUCCESS", request_id=command.request_id)


def _lookup(talk: Talk, command: Any) -> None:
    url = talk.broker.url
    talk.tell(
        "LOOKUP_RESPONSE", request_id=command.request_id, response=CONNECT_TO,
        broker_service_url=url, broker_service_url_tls=url,
    )  # fmt: skip


def _partitions(talk: Talk, command: Any) -> None:
    talk.tell(
        "PARTITIONED_METADATA_RESPONSE",
        request_id=command.request_id,
        partitions=talk.broker.partitions,
    )


USUAL: dict[str, Answer] = {
    "CONNECT": lambda talk, _: talk.tell(
        "CONNECTED", server_version="scripted", protocol_version=21, max_message_size=100_000
    ),
    "PARTITIONED_METADATA": _partitions,
    "LOOKUP": _lookup,
    "SUBSCRIBE": _success,
    "UNSUBSCRIBE": _success,
    "CLOSE_CONSUMER": _success,
    "ACK": lambda talk, ack: talk.tell("ACK_RESPONSE", request_id=ack.request_id),
    "PING": lambda talk, _: talk.tell("PONG"),
}


def refusing(error: int, message: str = "no") -> Answer:
    """Answers a request with an error."""
    return lambda talk, command: talk.tell(
        "ERROR", request_id=command.request_id, error=error, message=message
    )


@contextlib.contextmanager
def scripted(tls: ssl.SSLContext | None = None) -> Iterator[ScriptedBroker]:
    """A broker that answers as a healthy one until it is told otherwise."""
    broker = ScriptedBroker(tls)
    try:
        yield broker
    finally:
        broker.close()


@pytest.fixture
def peer() -> Iterator[ScriptedBroker]:
    with scripted() as peer:
        yield peer


@contextlib.contextmanager
def engine(peer: ScriptedBroker, settings: Settings = Settings()) -> Iterator[Receiver]:  # noqa: B008
    with connected(peer.url, settings, patience_seconds=SECOND) as engine:
        yield engine


@contextlib.contextmanager
def attached(peer: ScriptedBroker, plan: Plan = PLAN) -> Iterator[tuple[BlockingConsumer, Talk]]:
    with engine(peer) as running:
        yield running.subscribe(plan), peer.talks[-1]


def batch(size: int) -> tuple[bytes, MessageMetadata]:
    return batch_payload(*[b"x"] * size), MessageMetadata(num_messages_in_batch=size)


def code(name: str) -> int:
    return SERVER_ERRORS.index(name)


def chunk(number: int, of: int) -> MessageMetadata:
    return MessageMetadata(uuid="u", chunk_id=number, num_chunks_from_msg=of, publish_time=1)
