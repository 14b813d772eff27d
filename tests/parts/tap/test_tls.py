"""The tap in front of a real broker that wants TLS and tokens; no credential leaves its way."""

from __future__ import annotations

import base64
import hmac
import json
import os
import secrets
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.parts.tap.options import RelayOptions
from pulsar_doctor.parts.tap.relaying import Relay, relaying
from tests.clients import LANGUAGES, starting
from tests.parts.tap.talking import REDIRECT, connecting, looked_up
from tests.parts.tap.tapped import CONNECT, rows_in
from tests.support import eventually
from tests.support.certificates import certified
from tests.support.cluster import (
    HOST,
    MODULAR,
    Broker,
    cluster,
    free_ports,
    leader,
    new_namespace,
    standalone,
)
from tests.support.command_line import pulsar_doctor

pytestmark = pytest.mark.broker

TOKEN_AUTH = "org.apache.pulsar.broker.authentication.AuthenticationProviderToken"
TOKEN_CLIENT = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
CHECK_SECONDS = 1
TOKEN_SECONDS = 4


def token(key: bytes, role: str, seconds: float | None = None) -> str:
    """A JSON web token with HS256, as `bin/pulsar tokens create` makes it. seconds: it is good."""
    claims: dict[str, Any] = {"sub": role}
    if seconds is not None:
        claims["exp"] = int(time.time() + seconds)
    parts = [encoded(json.dumps(part).encode()) for part in ({"alg": "HS256"}, claims)]
    signed = ".".join(parts)
    return f"{signed}.{encoded(hmac.digest(key, signed.encode(), 'sha256'))}"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@dataclass(frozen=True)
class Secured:
    """A broker that wants TLS for `localhost` and a token."""

    broker: Broker
    tls_port: int
    folder: Path  # ca.pem, cert.pem, key.pem
    key: bytes

    @property
    def service_url(self) -> str:
        return f"pulsar+ssl://localhost:{self.tls_port}"

    @property
    def trust(self) -> Path:
        return self.folder / "ca.pem"

    def settings(self) -> Settings:
        return Settings(service_url=self.service_url, tls_trust_certs=self.trust)


@pytest.fixture(scope="module")
def localhost_pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority and a certificate of it for the name localhost alone."""
    return certified(tmp_path_factory.mktemp("pem"), "localhost")


@pytest.fixture(scope="module")
def secured(localhost_pem: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    key = secrets.token_bytes(32)
    (folder / "secret.key").write_bytes(key)
    ours = token(key, "admin")
    (tls_port,) = free_ports(1)
    conf = securing(localhost_pem, folder / "secret.key", ours, tls_port)
    with standalone(folder / "standalone", conf=conf, token=ours) as broker:
        yield Secured(broker, tls_port, localhost_pem, key)


def securing(pem: Path, key_file: Path, admin_token: str, tls_port: int) -> dict[str, str]:
    """The settings of a broker that wants TLS and tokens."""
    return {
        "advertisedAddress": "localhost",
        "brokerServicePortTls": str(tls_port),
        "tlsCertificateFilePath": str(pem / "cert.pem"),
        "tlsKeyFilePath": str(pem / "key.pem"),
        "tlsTrustCertsFilePath": str(pem / "ca.pem"),
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "authenticationProviders": TOKEN_AUTH,
        "authenticationRefreshCheckSeconds": str(CHECK_SECONDS),
        "superUserRoles": "admin",
        "tokenSecretKey": f"file://{key_file}",
        "brokerClientAuthenticationPlugin": TOKEN_CLIENT,
        "brokerClientAuthenticationParameters": f"token:{admin_token}",
        "brokerClientTrustCertsFilePath": str(pem / "ca.pem"),
    }


@pytest.fixture
def tapped(secured: Secured, tmp_path: Path) -> Iterator[Relay]:
    settings = secured.settings()
    with relaying(
        secured.service_url, tmp_path / "t.ptrace", RelayOptions(settings=settings)
    ) as relay:
        yield relay


@pytest.fixture
def canary(secured: Secured, tmp_path: Path) -> str:
    """A token that is good for long, in a file of its owner's."""
    text = token(secured.key, "admin", 3600)
    (tmp_path / "token").write_text(text)
    return text


SCRIPT = """
import os, pathlib, pulsar, sys
token = pathlib.Path(sys.argv[2]).read_text()
client = pulsar.Client(sys.argv[1], authentication=pulsar.AuthenticationToken(token))
consumer = client.subscribe(sys.argv[3], "s")
producer = client.create_producer(sys.argv[3])
for number in range(20):
    producer.send(b"%d" % number, properties={"token": token})
for number in range(20):
    message = consumer.receive(timeout_millis=10_000)
    assert message.data() == b"%d" % number
    consumer.acknowledge(message)
print("all 20 came", flush=True)
sys.stdin.read() if sys.argv[4:] else None
client.close()
"""


def test_a_client_with_a_token_works_through_the_tap_and_its_token_is_found_nowhere(
    secured, canary, topic, tmp_path
):
    trace = tmp_path / "t.ptrace"
    command = [
        *(sys.executable, "-m", "pulsar_doctor", "--service-url", secured.service_url),
        *("--tls-trust-certs", str(secured.trust), "tap", "--listen", "127.0.0.1:0"),
        *("--trace", str(trace), "--seal-every", "1s", "--"),
        *(sys.executable, "-c", SCRIPT, "{service_url}", str(tmp_path / "token"), topic, "wait"),
    ]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environment(), start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    first = b""
    while b"all 20 came" not in first:
        line = process.stdout.readline()
        assert line, process.communicate()[1].decode()[-3000:]
        first += line
    arguments = arguments_of_all()
    files = {path: path.read_bytes() for path in trace.rglob("*") if path.is_file()}
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err.decode()[-3000:]
    assert SCRIPT.encode() in arguments
    files |= {path: path.read_bytes() for path in trace.rglob("*") if path.is_file()}
    for form in forms_of(canary):
        assert form not in arguments
        assert form not in first + out + err
        for path, data in files.items():
            assert form not in data, f"in {path.name}"
    assert {row.command for row in open_rows(trace)} >= {"CONNECT", "CONNECTED", "MESSAGE", "ACK"}


def environment() -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if not name.startswith("PULSAR_DOCTOR_S")
    }


def arguments_of_all() -> bytes:
    """The command lines of all processes of this machine."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes())
        except OSError:  # it has ended
            continue
    return b"\n".join(lines)


def forms_of(secret: str) -> Iterator[bytes]:
    """The parts of a token as they are, in base64 at each of its three cuts, and in hex."""
    for part in secret.split(".")[1:]:
        data = part.encode()
        yield data
        yield data.hex().encode()
        for cut in range(3):
            yield base64.b64encode(data[cut : cut + 3 * ((len(data) - cut) // 3)])


def open_rows(trace: Path) -> list[Any]:
    from pulsar_doctor.trace.sealing import open_trace

    return list(open_trace(trace).rows())


def test_without_the_trust_file_there_is_one_clear_sentence(secured):
    run = pulsar_doctor(
        "--service-url", secured.service_url, "tap", "--listen", "127.0.0.1:0", "--",
        sys.executable, "-c", "print('it ran')",
    )  # fmt: skip
    assert run.returncode == 3
    assert run.stdout == ""
    (sentence,) = run.stderr.splitlines()
    assert f"localhost:{secured.tls_port} is not trusted" in sentence
    assert "--tls-trust-certs" in sentence


def test_a_certificate_for_another_host_ends_it_before_a_credential_is_sent(
    localhost_pem, tmp_path
):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(localhost_pem / "cert.pem", localhost_pem / "key.pem")
    settings = Settings(tls_trust_certs=localhost_pem / "ca.pem")
    with socket.create_server((HOST, 0)) as server:
        heard = Heard(server, context)
        for host, right in ((HOST, False), ("localhost", True)):
            url = f"pulsar+ssl://{host}:{server.getsockname()[1]}"
            with relaying(url, tmp_path / host, RelayOptions(settings=settings)) as relay:
                address = relay.service_url.removeprefix("pulsar://").split(":")
                with socket.create_connection((address[0], int(address[1])), 20) as client:
                    client.sendall(CONNECT)  # with a token in it
                    client.recv(1)  # nothing: whoever is behind the tap hangs up
                relay.flush()
                reasons = " ".join(row.error_message or "" for row in rows_in(relay.trace_dir))
            assert heard.handshakes == 1 + right
            assert ("another host name" in reasons) is not right
            assert heard.said == (CONNECT if right else b"")


class Heard(threading.Thread):
    """A TLS peer: what clients say once the handshake is through."""

    def __init__(self, server: socket.socket, context: ssl.SSLContext) -> None:
        super().__init__(daemon=True)
        self._server, self._context = server, context
        self.handshakes, self.said = 0, b""
        self.start()

    def run(self) -> None:
        while True:
            try:
                sock, _ = self._server.accept()
            except OSError:
                return
            self.handshakes += 1
            try:
                with self._context.wrap_socket(sock, server_side=True) as secure:
                    secure.settimeout(5)
                    self.said += secure.recv(65536)
            except OSError:
                continue


def test_the_tap_speaks_tls_to_its_clients_too(secured, canary, topic, tmp_path):
    pem = secured.folder
    with relaying(
        secured.service_url, tmp_path / "t.ptrace",
        RelayOptions(
            settings=secured.settings(), listen="localhost:0",
            listen_tls_cert=pem / "cert.pem", listen_tls_key=pem / "key.pem",
        ),
    ) as relay:  # fmt: skip
        url = relay.service_url  # the certificate is good for this name only
        assert url.startswith("pulsar+ssl://localhost:")
        hello = {"trust": str(secured.trust), "token_file": str(tmp_path / "token")}
        with starting("python", tmp_path, url, **hello) as client:
            client.subscribe(topic)
            sent = client.produce(topic, 100)
            assert client.receive(100).sha256 == sent
            client.close()


@contextmanager
def renewed(key: bytes, file: Path) -> Iterator[Path]:
    """A file with a token that is good for a few seconds, and always a newer one."""
    over = threading.Event()

    def renew() -> None:
        while True:
            # In one step: nobody reads half a token.
            beside = file.with_suffix(".new")
            beside.write_text(token(key, "admin", TOKEN_SECONDS))
            beside.replace(file)
            if over.wait(1):
                return

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    eventually(file.exists)
    try:
        yield file
    finally:
        over.set()
        thread.join()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("language", LANGUAGES)
def test_an_auth_challenge_is_answered_through_the_tap(secured, tapped, topic, tmp_path, language):
    """Each token is good for a few seconds: the connection lives on from challenge to challenge."""
    with (
        renewed(secured.key, tmp_path / "token") as file,
        starting(language, tmp_path, tapped.service_url, token_file=str(file)) as client,
    ):
        client.subscribe(topic, type="Shared")
        began, first = time.monotonic(), 0
        while time.monotonic() - began < 4 * TOKEN_SECONDS:
            client.produce(topic, 10, first=first)
            client.receive(10, every_from=first)
            first += 10
            time.sleep(0.2)
        client.close()
        assert not client.complaints()
    tapped.flush()
    rows = rows_in(tapped.trace_dir)
    of_consumer = next(row.conn_id for row in rows if row.command == "SUBSCRIBE")
    commands = [row.command for row in rows if row.conn_id == of_consumer]
    assert commands.count("AUTH_CHALLENGE") >= 2
    assert commands.count("AUTH_RESPONSE") >= 2
    assert commands.count("SUBSCRIBE") == 1


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_redirect_is_followed_with_the_credentials_that_the_client_has_now(
    localhost_pem, tmp_path
):
    """Two brokers with TLS and tokens; those that the clients began with have long expired."""
    key = secrets.token_bytes(32)
    (tmp_path / "secret.key").write_bytes(key)
    admin = token(key, "admin")
    ports = free_ports(2)

    def conf(number: int) -> dict[str, str]:
        return securing(localhost_pem, tmp_path / "secret.key", admin, ports[number])

    settings = Settings(tls_trust_certs=localhost_pem / "ca.pem")
    tls = ssl.create_default_context(cafile=str(localhost_pem / "ca.pem"))
    with cluster(tmp_path / "c", load_manager=MODULAR, conf=conf, token=admin) as brokers:
        head = eventually(lambda: leader(brokers), 30)
        follower = 1 - brokers.brokers.index(head)
        url = f"pulsar+ssl://localhost:{ports[follower]}"
        namespace = new_namespace(brokers)
        topics = iter(f"persistent://{namespace}/t{number}" for number in range(100))

        def redirected_topic() -> str:
            connect = connecting(token=token(key, "admin", 60))
            for topic in topics:
                answer = looked_up(url, topic, connect, tls)
                if answer.response == REDIRECT:
                    return topic
            raise AssertionError("no lookup was redirected")

        with (
            relaying(url, tmp_path / "t.ptrace", RelayOptions(settings=settings)) as relay,
            renewed(key, tmp_path / "token") as file,
            ExitStack() as stack,
        ):
            clients = [
                stack.enter_context(
                    starting(language, tmp_path, relay.service_url, token_file=str(file))
                )
                for language in LANGUAGES
            ]
            for client in clients:
                client.subscribe(f"persistent://public/default/{client.language}")
            time.sleep(2 * TOKEN_SECONDS + CHECK_SECONDS)
            for client in clients:
                topic = redirected_topic()
                client.subscribe(topic, name="new", type="Shared")
                client.produce(topic, 50)
                client.receive(50, name="new")
                client.close()
                assert not client.complaints()
            assert relay.counters()["redirects_followed"] >= len(clients)
