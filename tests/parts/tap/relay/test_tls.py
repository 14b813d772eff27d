"""TLS on either side of the relay: what passes, what is refused and in which words."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import os
import random
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.parts.tap.upstream import PING, require_reachable
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from tests.parts.tap.tapped import (
    CONNECT,
    CONNECTED,
    LOOPS,
    PONG,
    SECRET,
    Peer,
    Tapped,
    be_looked_for,
    command_frame,
    flow,
    message,
    on_loop,
    rows_in,
    tapping,
)
from tests.support import eventually
from tests.support.certificates import certified
from tests.support.processes import resident_bytes

MIB = 1024 * 1024


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """The event loop of the relay that a test starts."""
    with on_loop(request.param, tmp_path):
        yield


@pytest.fixture
def trusting(pem: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(pem / "cert.pem"))


@contextlib.contextmanager
def secured(
    folder: Path, pem: Path, server_side: ssl.SSLContext, sides: str = "broker", **options: Any
) -> Iterator[Tapped]:
    """A relay with TLS on the sides that are named: `broker`, `client` or both."""
    options.setdefault("settings", Settings(tls_trust_certs=pem / "cert.pem"))
    if "broker" in sides:
        options["broker_tls"] = server_side
    if "client" in sides:
        options["client_tls"] = ssl.create_default_context(cafile=str(pem / "cert.pem"))
        options |= {"listen_tls_cert": pem / "cert.pem", "listen_tls_key": pem / "key.pem"}
    with tapping(folder / "t", **options) as tapped:
        yield tapped


# What passes.


@pytest.mark.parametrize("sides", ["broker", "client", "broker client"])
def test_bytes_pass_unchanged_and_are_written_down_with_tls(
    tmp_path, pem, server_side, sides, loop
):
    draw = random.Random(3)
    up = b"".join(message(1, draw.randbytes(draw.randrange(100_000))) for _ in range(80))
    down = b"".join(flow(n) + message(1, draw.randbytes(draw.randrange(60_000))) for n in range(99))
    with secured(tmp_path, pem, server_side, sides) as tapped:
        scheme = tapped.relay.service_url.partition("://")[0]
        assert scheme == ("pulsar+ssl" if "client" in sides else "pulsar")
        client, broker = tapped.connected()
        # One way after the other: a socket of Python's ssl is for one thread at a time.
        for here, there, said in ((client, broker, up), (broker, client, down)):
            sender = threading.Thread(target=here.send, args=(said,))
            sender.start()
            assert hashlib.sha256(there.read(len(said))).digest() == hashlib.sha256(said).digest()
            sender.join(10)
        commands = tapped.commands(client)
        assert (commands.count("MESSAGE"), commands.count("FLOW")) == (80 + 99, 99)
        counted = tapped.relay.counters()
        assert counted["bytes_to_broker"] == len(up) + len(CONNECT)
        assert counted["bytes_to_client"] == len(down) + len(CONNECTED)


@pytest.mark.parametrize("sides", ["broker", "client", "broker client"])
@pytest.mark.parametrize("first", ["client", "broker"])
def test_the_end_of_either_side_reaches_the_other_after_all_that_was_said(
    tmp_path, pem, server_side, sides, first, capfd, loop
):
    said = message(1, bytes(2 * MIB))
    with secured(tmp_path, pem, server_side, sides) as tapped:
        client, broker = tapped.connected()
        here, there = (client, broker) if first == "client" else (broker, client)

        def say_and_go() -> None:
            here.send(said)
            with contextlib.suppress(OSError):
                here.sock.unwrap() if isinstance(here.sock, ssl.SSLSocket) else None
            here.sock.close()

        threading.Thread(target=say_and_go).start()
        assert there.read(len(said)) == said
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            assert there.rest() == b""
        there.sock.close()
        eventually(lambda: tapped.relay.counters()["connections_open"] == 0)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("who", ["client", "broker"])
def test_a_reset_is_carried_over_with_tls(tmp_path, pem, server_side, who, capfd, loop):
    with secured(tmp_path, pem, server_side, "broker client") as tapped:
        client, broker = tapped.connected()
        here, there = (client, broker) if who == "client" else (broker, client)
        here.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        here.sock.close()
        with pytest.raises(ConnectionResetError):
            read_beneath(there)
        eventually(lambda: tapped.relay.counters()["connections_open"] == 0)
    assert capfd.readouterr() == ("", "")


def test_a_client_that_reads_nothing_stops_the_broker_and_not_the_relay(
    tmp_path, pem, server_side, loop
):
    with secured(tmp_path, pem, server_side, "broker client") as tapped:
        _, broker = tapped.connected()
        broker.sock.settimeout(0.5)
        sent = 0
        pushed = message(1, bytes(MIB))
        with contextlib.suppress(TimeoutError):
            while sent < 300:
                broker.sock.sendall(pushed)
                sent += 1
        assert sent < 64, "the relay swallows whatever comes"
        assert resident_bytes(tapped.relay.pid) < 120_000_000


def read_beneath(peer: Peer) -> bytes:
    """Reads beneath TLS, which takes a reset for an end like any other."""
    peer.sock.setblocking(True)
    return os.read(peer.sock.fileno(), 4096)


# Whom the relay trusts.


def unserved(tapped: Tapped) -> str:
    """Why a client was not served: no byte of it had reached the broker before."""
    client = tapped.client().send(CONNECT)
    heard = b""
    with contextlib.suppress(OSError):  # our handshake fails, too
        heard = tapped.accept().rest()
    assert heard == b""
    assert client.rest() == b""
    tapped.relay.flush()
    assert tapped.relay.counters()["tls_failed"] >= 1
    told = [row for row in rows_in(tapped.relay.trace_dir) if row.command == "CLOSE"]
    assert told[-1].error_message is not None
    return told[-1].error_message


def test_a_broker_that_is_not_trusted_gets_nothing(tmp_path, pem, server_side, capfd, loop):
    with secured(tmp_path, pem, server_side, settings=Settings()) as tapped:
        assert "is not trusted" in unserved(tapped)
        assert "is not trusted" in unserved(tapped)
        where = tapped.broker_url
    said = capfd.readouterr().err.splitlines()  # once, not for each client
    assert len(said) == 1
    assert said[0].startswith(f"pulsar-doctor: the certificate of the broker {where} is not truste")
    assert said[0].endswith("give its authority with --tls-trust-certs")


def test_a_certificate_for_another_name_opens_nothing(tmp_path, pem, server_side, capfd, loop):
    with secured(tmp_path, pem, server_side, service_url="pulsar+ssl://localhost:{}") as tapped:
        assert "is for another host name" in unserved(tapped)
    assert "--service-url" in capfd.readouterr().err


def test_what_speaks_no_tls_is_said_to(tmp_path, pem, server_side, capfd, loop):
    with secured(tmp_path, pem, server_side) as tapped:
        client = tapped.client().send(CONNECT)
        broker = tapped.accept_plain()
        assert SECRET not in broker.recv(10_000)
        broker.sendall(CONNECTED * 3)
        assert client.rest() == b""
    assert "does not speak TLS here" in capfd.readouterr().err


def test_a_broker_that_hangs_up_in_the_handshake(tmp_path, pem, server_side, loop):
    with secured(tmp_path, pem, server_side) as tapped:
        client = tapped.client().send(CONNECT)
        tapped.accept_plain().close()
        assert client.rest() == b""
        tapped.relay.flush()
        (told,) = [r for r in rows_in(tapped.relay.trace_dir) if r.command == "CLOSE"]
        assert told.error_message.endswith("does it speak TLS there?")


def test_any_certificate_will_do_where_the_user_says_so(tmp_path, pem, server_side, loop):
    insecure = Settings(tls_allow_insecure=True)
    url = "pulsar+ssl://localhost:{}"
    with secured(tmp_path, pem, server_side, settings=insecure, service_url=url) as tapped:
        client, broker = tapped.connected()
        client.send(flow(1))
        assert broker.read(len(flow(1))) == flow(1)


def mutual(server_side: ssl.SSLContext, pem: Path) -> ssl.SSLContext:
    server_side.load_verify_locations(pem / "cert.pem")
    server_side.verify_mode = ssl.CERT_REQUIRED
    return server_side


def with_certificate(pem: Path, how: str) -> Settings:
    trust, cert, key = pem / "cert.pem", pem / "cert.pem", pem / "key.pem"
    if how == "client.conf":
        return Settings(tls_trust_certs=trust, tls_certificate=cert, tls_key=key)
    return Settings(
        tls_trust_certs=trust,
        auth_plugin="org.apache.pulsar.client.impl.auth.AuthenticationTls",
        auth_params=f"tlsCertFile:{cert},tlsKeyFile:{key}",
    )


@pytest.mark.parametrize("how", ["client.conf", "plugin"])
def test_the_taps_own_certificate_is_shown(tmp_path, pem, server_side, how):
    settings = with_certificate(pem, how)
    with secured(tmp_path, pem, mutual(server_side, pem), settings=settings) as tapped:
        client, _ = tapped.connected()
        assert tapped.commands(client)[-1] == "CONNECTED"


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (
            "distrusts",
            "a client does not accept the certificate of the tap (tlsv1 alert unknown ca)",
        ),
        ("plain", "a client does not speak TLS to the tap"),
    ],
)
def test_a_client_that_does_not_get_through_the_handshake_is_counted_and_said(
    tmp_path, pem, loop, how, said, capfd
):
    own = {"listen_tls_cert": pem / "cert.pem", "listen_tls_key": pem / "key.pem"}
    with tapping(tmp_path / "t", **own) as tapped:
        client = tapped.client()
        if how == "plain":
            client.send(CONNECT)
        else:
            with pytest.raises(ssl.SSLCertVerificationError):
                ssl.create_default_context().wrap_socket(client.sock, server_hostname="127.0.0.1")
        eventually(lambda: tapped.relay.counters()["client_tls_failed"] == 1)
        tapped.relay.flush()
        opened, closed = rows_in(tmp_path / "t")
        assert (opened.command, closed.command) == ("OPEN", "CLOSE")
        assert closed.error_message.startswith(said)
    assert said in capfd.readouterr().err


@pytest.mark.parametrize("most", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_broker_that_wants_a_certificate_is_said_to(
    tmp_path, pem, server_side, capfd, most, loop
):
    server_side.maximum_version = most
    with secured(tmp_path, pem, mutual(server_side, pem)) as tapped:
        client = tapped.client().send(CONNECT)
        with pytest.raises(ssl.SSLError):
            tapped.accept()
        with contextlib.suppress(ConnectionError):
            assert client.rest() == b""
        eventually(lambda: tapped.relay.counters()["tls_failed"] == 1)
    assert "wants a client certificate" in capfd.readouterr().err


# Files that cannot be used.


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"tls_trust_certs": "missing.pem"},
            "cannot read certificates from .*missing.pem: No such",
        ),
        ({"tls_trust_certs": "key.pem"}, "cannot read certificates from .*key.pem"),
        ({"tls_certificate": "cert.pem", "tls_key": "locked.pem"}, "cannot use the client cert"),
        ({"tls_certificate": "cert.pem", "tls_key": "missing.pem"}, "cannot use the client cert"),
    ],
)
def test_files_that_cannot_be_used_are_said_before_anything_starts(tmp_path, pem, settings, said):
    paths = {name: pem / file for name, file in settings.items()}
    with (
        pytest.raises(InputError, match=said),
        tapping(tmp_path / "t", service_url="pulsar+ssl://a:1", settings=Settings(**paths)),
    ):
        pass
    assert not (tmp_path / "t").exists()


def test_a_key_of_the_taps_own_that_is_locked_is_said_to_be(tmp_path, pem):
    own = {"listen_tls_cert": pem / "cert.pem", "listen_tls_key": pem / "locked.pem"}
    with (
        pytest.raises(InputError, match="cannot use the certificate of the tap"),
        tapping(tmp_path / "t", **own),
    ):
        pass


# Before anything starts.


@contextlib.contextmanager
def answering(context: ssl.SSLContext | None) -> Iterator[int]:
    """A broker that shakes hands and answers whoever looks for it; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)

        def shake() -> None:
            with contextlib.suppress(OSError):
                be_looked_for(server, context)

        thread = threading.Thread(target=shake)
        thread.start()
        yield server.getsockname()[1]
        server.close()
        thread.join(10)


def test_a_cluster_is_tried_before_the_tap_starts(pem, server_side):
    trust = Settings(tls_trust_certs=pem / "cert.pem")
    with answering(server_side) as port:
        require_reachable(f"pulsar+ssl://127.0.0.1:{port}", trust)
    with answering(server_side) as port:
        require_reachable(f"pulsar+ssl://127.0.0.1:1,127.0.0.1:{port}", trust)
    with answering(None) as port:
        require_reachable(f"pulsar://127.0.0.1:{port}", Settings())


def test_a_cluster_that_is_not_trusted_is_said_not_to_be(server_side):
    said = r"^the certificate of the broker 127.0.0.1:\d+ is not trusted"
    with answering(server_side) as port, pytest.raises(DoctorError, match=said) as told:
        require_reachable(f"pulsar+ssl://127.0.0.1:{port}", Settings())
    assert told.value.exit_code == 3


def test_a_cluster_that_wants_a_certificate_is_said_to(pem, server_side):
    trust = Settings(tls_trust_certs=pem / "cert.pem")
    with (
        answering(mutual(server_side, pem)) as port,
        pytest.raises(DoctorError, match="wants a client certificate"),
    ):
        require_reachable(f"pulsar+ssl://127.0.0.1:{port}", trust)


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize(
    ("url", "said"),
    [
        (
            "pulsar+ssl://127.0.0.1:1",
            "^the broker 127.0.0.1:1 cannot be reached: Connection refuse",
        ),
        (
            "pulsar://127.0.0.1:1",
            "^the broker 127.0.0.1:1 cannot be reached: Connection refused; give --service-url",
        ),
        ("pulsar://no.such.host.invalid:1", "^the broker no.such.host.invalid:1 cannot be reached"),
    ],
)
def test_a_cluster_that_cannot_be_reached_is_said_not_to_be(url, said):
    with pytest.raises(DoctorError, match=said):
        require_reachable(url, Settings())


@contextlib.contextmanager
def saying(answer: bytes | None) -> Iterator[int]:
    """A server that answers a look with this, or hangs up at once where it is None; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def speak() -> None:
            sock, _ = server.accept()
            with sock:
                if answer is not None:
                    Peer(sock).read(len(PING))
                    sock.sendall(answer)

        thread = threading.Thread(target=speak)
        thread.start()
        yield server.getsockname()[1]
        thread.join(10)


BINARY = "is an HTTP port; the service URL is the broker's binary port, usually 6650"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 400 Illegal character CNTL=0x0\r\n\r\n", f"^127.0.0.1:\\d+ {BINARY}$"),
        (b"<!DOCTYPE HTML>\n<html>", f"^127.0.0.1:\\d+ {BINARY}$"),
        (b"SSH-2.0-OpenSSH\r\n", "^what listens at 127.0.0.1:\\d+ is not a Pulsar broker"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "speaks TLS here; use pulsar\\+ssl://"),
        (b"", "hangs up at once; is it the broker's binary port"),
        (None, "hangs up at once; is it the broker's binary port|cannot be reached: Connection re"),
    ],
    ids=["http", "html", "ssh", "tls", "nothing", "closed"],
)
def test_what_answers_and_is_no_broker_is_said_to_be_none(answer, said):
    with saying(answer) as port, pytest.raises(DoctorError, match=said) as told:
        require_reachable(f"pulsar://127.0.0.1:{port}", Settings())
    assert told.value.exit_code == 3


@pytest.mark.parametrize(
    "answer",
    [
        PONG,
        CONNECTED,
        command_frame(14, "error", request_id=1, error=3, message="no"),
        command_frame(18, "ping"),
    ],
    ids=["pong", "connected", "refused", "asked back"],
)
def test_whatever_a_broker_answers_it_is_one(answer):
    with saying(answer) as port:
        require_reachable(f"pulsar://127.0.0.1:{port}", Settings())


def test_a_web_server_that_waits_for_lines_answers_too():
    class Web(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Web) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(DoctorError, match=BINARY):
            require_reachable(f"pulsar://127.0.0.1:{server.server_port}", Settings())
        thread.join(10)


# What a client is told of other brokers.


def lookup_answer(response: int = 1, **urls: str) -> bytes:
    return command_frame(24, "lookup_response", response=response, request_id=5, **urls)


def both(place: str) -> bytes:
    return lookup_answer(
        broker_service_url=f"pulsar://{place}",
        broker_service_url_tls=f"pulsar+ssl://{place}",
        proxy_through_service_url=True,
    )


@pytest.fixture
def tls(tmp_path: Path, pem: Path, server_side: ssl.SSLContext) -> Iterator[Tapped]:
    with secured(tmp_path, pem, server_side) as tapped:
        yield tapped


def test_a_redirect_is_followed_with_tls(tls):
    client, broker = tls.connected()
    url, server = tls.another_broker()
    asked = command_frame(23, "lookup", topic="t", request_id=5)
    client.send(asked)
    broker.read(len(asked))
    broker.send(lookup_answer(0, broker_service_url_tls=f"pulsar+ssl://{url}", authoritative=True))
    aside = tls.accept(server)
    assert aside.read(len(CONNECT)) == CONNECT
    aside.send(CONNECTED)
    aside.read_frame()
    aside.send(lookup_answer(broker_service_url_tls=f"pulsar+ssl://{url}"))
    told = wire.BaseCommand.FromString(client.read_frame()[8:]).lookup_response
    place = told.broker_service_url_tls.removeprefix("pulsar+ssl://")
    assert place != url
    assert told == wire.BaseCommand.FromString(both(place)[8:]).lookup_response


def test_a_redirect_to_a_broker_that_is_not_trusted_gives_it_nothing(tls, pem):
    client, broker = tls.connected()
    port = tls.another_broker()[1]
    url = f"localhost:{port.getsockname()[1]}"  # not the name in the certificate
    asked = command_frame(23, "lookup", topic="t", request_id=5)
    client.send(asked)
    broker.read(len(asked))
    broker.send(lookup_answer(0, broker_service_url_tls=f"pulsar+ssl://{url}"))
    heard = b""
    with contextlib.suppress(OSError):
        heard = tls.accept(port).rest()
    assert heard == b""
    told = wire.BaseCommand.FromString(client.read_frame()[8:]).lookup_response
    assert told.error == 6
    assert "is for another host name" in told.message


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_the_address_for_a_broker_has_the_name_that_the_client_used(tmp_path, host, loop):
    own = certified(tmp_path, host)
    trust = ssl.create_default_context(cafile=own / "ca.pem")
    with (
        contextlib.ExitStack() as stack,
        tapping(
            tmp_path / "t", listen_tls_cert=own / "cert.pem", listen_tls_key=own / "key.pem"
        ) as tapped,
    ):

        def client(place: str | None = None) -> Peer:
            sock = trust.wrap_socket(tapped.client(place).sock, server_hostname=host)
            return Peer(stack.enter_context(sock)).send(CONNECT)

        came = client()
        broker = tapped.accept()
        broker.read(len(CONNECT))
        broker.send(CONNECTED)
        came.read(len(CONNECTED))
        url, server = tapped.another_broker()
        asked = command_frame(23, "lookup", topic="t", request_id=5)
        came.send(asked)
        broker.read(len(asked))
        broker.send(lookup_answer(broker_service_url=f"pulsar://{url}"))
        told = wire.BaseCommand.FromString(came.read_frame()[8:]).lookup_response
        place = told.broker_service_url_tls.removeprefix("pulsar+ssl://")
        assert place.startswith(f"{host}:")
        client(place.replace(host, "127.0.0.1"))  # its handshake checks the name
        assert tapped.accept(server).read(len(CONNECT)) == CONNECT
