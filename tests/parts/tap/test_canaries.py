"""Secrets that only a leak could bring to where they are looked for: trace, output, /proc."""

from __future__ import annotations

import base64
import contextlib
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest

from pulsar_doctor.parts.tap.upstream import PING
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wire.columns import values_of
from tests.made.frames import command_of, field
from tests.parts.tap.tap_process import running as running_tap
from tests.parts.tap.tapped import (
    CONNECTED,
    PONG,
    Peer,
    Tapped,
    be_looked_for,
    command_frame,
    frame,
    tapping,
)
from tests.support import eventually
from tests.support.command_line import environment, pulsar_doctor
from tests.support.processes import family, linux, told_to

pytestmark = linux

SECRETS = {
    "token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJlLW9mLWEtY2FuYXJ5",
    "basic": "canary-user:canary&password+of/basic=",
    "oauth2": "canary~client secret?of=oauth2",
    "key file": "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCanaryKeyFile",
    "payload": "canary payload: 4711 euros to joe",
    "property": "canary property #12",
    "property name": "canary-property-name",
    "message key": "canary:key/of a message",
}

STRANGE = ("AWS_SECRET_ACCESS_KEY", "MY_TOKEN", "PYTHON_KEYRING_PASSWORD", "JAVA_HOME")
NEEDED = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONUTF8": "1", "SSL_CERT_DIR": "/etc/ssl/certs"}


def forms(secret: str) -> Iterator[bytes]:
    """As it is, and as somebody may have encoded it, alone or within something longer."""
    raw = secret.encode()
    yield raw
    yield secret.encode("utf-16-le")
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    yield quote(secret, safe="").encode()
    for shift in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(bytes(shift) + raw)[4:-4]


def assert_no_secret(where: str, data: bytes) -> None:
    for name, secret in SECRETS.items():
        for form in forms(secret):
            assert form not in data, f"the {name} is in {where}, as {form!r}"


def assert_private(trace_dir: Path) -> None:
    modes = {}
    for path in (trace_dir, *trace_dir.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # sealed meanwhile
            modes[path.name] = stat.filemode(path.stat().st_mode)
    assert set(modes.values()) <= {"drwx------", "-rw-------"}, modes


def assert_trace_is_clean(trace_dir: Path) -> None:
    for path in trace_dir.rglob("*"):
        assert_no_secret(path.name, path.read_bytes())
    for row in open_trace(trace_dir).rows():  # what is compressed hides what it says
        told = b" ".join(
            value if isinstance(value, bytes) else str(value).encode() for value in values_of(row)
        )
        assert_no_secret(f"the row of {row.command}", told)


# All that client and broker say in which a secret may stand.


def said(code: int, *fields: bytes, metadata: bytes | None = None, payload: bytes = b"") -> bytes:
    """A frame of the whole protocol, the parts that our own subset leaves out included."""
    part = b"" if metadata is None else len(metadata).to_bytes(4, "big") + metadata + payload
    return frame(command_of(code, b"".join(fields)), part)


def property_of(number: int) -> bytes:
    return field(number, field(1, SECRETS["property name"]) + field(2, SECRETS["property"]))


CREDENTIALS = (
    SECRETS["token"],
    SECRETS["basic"],
    f'{{"client_id":"joe","client_secret":"{SECRETS["oauth2"]}"}}',
    SECRETS["key file"],
)
METADATA = (
    field(1, "producer") + b"\x10\x01\x18\x01" + property_of(4)
    + field(6, SECRETS["message key"]) + field(18, SECRETS["message key"])
    + field(13, field(1, "name") + field(2, SECRETS["key file"]))
)  # fmt: skip
PAYLOAD = SECRETS["payload"].encode() * 3
OFTEN = b"".join(  # commands of these kinds are masked together
    [
        said(6, b"\x08\x01\x10\x01", metadata=METADATA, payload=PAYLOAD),
        said(9, b"\x08\x01", field(2, b"\x08\x07\x10\x01"), metadata=METADATA, payload=PAYLOAD),
        said(10, b"\x08\x01\x10\x00", field(3, b"\x08\x07\x10\x01"), property_of(5)),
    ]
)  # fmt: skip
EVERYTHING = b"".join(
    [
        said(5, field(1, "t"), b"\x10\x01\x18\x01", property_of(6)),
        said(4, field(1, "t"), field(2, "s"), b"\x18\x01\x20\x01\x28\x01", property_of(10),
             property_of(17)),
        said(11, b"\x08\x01\x10\x64"),
        OFTEN,
        said(39, b"\x08\x01", field(2, "t"), field(3, field(1, "s") + property_of(4))),
        *(said(37, field(1, "c"), field(2, field(1, "token") + field(2, c))) for c in CREDENTIALS),
        *(said(36, field(1, "c"), field(2, field(1, "token") + field(2, c))) for c in CREDENTIALS),
        *(said(91, field(1, c), field(2, field(1, c))) for c in SECRETS.values()),
        said(11, b"\x08\x01\x10") + OFTEN,  # a broken one among them: masked one by one
    ]
)  # fmt: skip


def connect(credential: str) -> bytes:
    return said(2, field(1, "client"), field(3, credential), field(5, "token"), field(7, "joe"),
                field(8, credential))  # fmt: skip


def echoes() -> Iterator[str]:
    """What a broker, a proxy or a plug-in may answer when it refuses a credential."""
    bearer, basic, oauth2 = (quote(SECRETS[name], safe="") for name in ("token", "basic", "oauth2"))
    encoded = base64.b64encode(SECRETS["basic"].encode()).decode()
    yield f"Failed to authenticate token: {SECRETS['token']}"
    yield f"401 {SECRETS['token']} was refused"
    yield f"Authorization: Bearer {bearer}: expired"
    yield f"invalid bearer token {SECRETS['token'].encode().hex()}"
    yield f"Authorization: Basic {encoded}"
    yield f"wrong password for basic auth: {basic}"
    yield f"https://issuer/token?client_id=joe&client_secret={oauth2} gave 401"
    yield f'{{"client_secret": "{oauth2}"}}'
    yield f"bad secret key: {oauth2}"
    yield f"pulsar://{encoded}@host:6650 is not reachable"


def errors() -> bytes:
    return b"".join(
        command_frame(14, "error", request_id=1, error=3, message=echo)
        + command_frame(8, "send_error", producer_id=1, sequence_id=1, error=3, message=echo)
        + command_frame(24, "lookup_response", response=2, request_id=1, error=3, message=echo)
        for echo in echoes()
    )


# The relay.


def test_nothing_that_is_said_on_the_wire_brings_a_secret_into_the_trace(tmp_path, capfd):
    with tapping(tmp_path / "t") as tapped:
        for credential in CREDENTIALS:
            client = tapped.client().send(connect(credential))
            broker = tapped.accept()
            assert broker.read(len(connect(credential))) == connect(credential)
            for one, other in ((broker, client), (client, broker)):
                for everything in (CONNECTED, EVERYTHING, errors()):
                    one.send(everything)
                    assert other.read(len(everything)) == everything
            assert "CONNECT" in tapped.commands(client)
        assert_no_secret("the relay's arguments or environment", told_to(tapped.relay.pid))
        for path in (tmp_path / "t").iterdir():
            assert_no_secret(path.name, path.read_bytes())
    assert_trace_is_clean(tmp_path / "t")
    assert_no_secret("the output", "".join(capfd.readouterr()).encode())
    assert len(list(open_trace(tmp_path / "t").rows())) > 100


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tapped]:
    with tapping(tmp_path_factory.mktemp("relay") / "t") as tapped:
        yield tapped


@pytest.mark.parametrize("echo", list(echoes()))
def test_an_error_that_repeats_a_secret_is_kept_without_it(shared, echo):
    client, broker = shared.connected()
    broker.send(command_frame(14, "error", request_id=1, error=3, message=echo))
    row = shared.wait_for(client, "ERROR")
    assert row.error_code == "AuthenticationError"
    assert row.error_message
    assert_no_secret("the error", row.error_message.encode())


# The whole tap, as an operator runs it.

CLIENT = """
import socket, sys, urllib.parse
service_url, path = sys.argv[1:]
url = urllib.parse.urlsplit(service_url)
said = open(path, "rb").read()
with socket.create_connection((url.hostname, url.port)) as sock:
    sock.sendall(said)
    heard = 0
    while heard < int(sys.stdin.readline()):
        heard += len(sock.recv(65536))
    sys.stdin.readline()
"""


class Running(NamedTuple):
    process: subprocess.Popen[bytes]
    trace_dir: Path


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """`pulsar-doctor tap -- CLIENT`, while all has been said and the client still waits."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    script, said_by_client, key_file = (private / name for name in ("client.py", "said", "key"))
    script.write_text(CLIENT)
    said_by_client.write_bytes(connect(SECRETS["token"]) + EVERYTHING)
    key_file.write_text(SECRETS["key file"])
    (private / "client.conf").write_text(
        "authPlugin=org.apache.pulsar.client.impl.auth.AuthenticationToken\n"
        f"authParams=token:{SECRETS['token']}\n"
    )
    answer = CONNECTED + EVERYTHING + errors()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        answered = threading.Event()
        broker = threading.Thread(target=answer_once, args=(server, answer, answered), daemon=True)
        broker.start()
        env = {
            **environment(),
            "PULSAR_DOCTOR_SERVICE_URL": f"pulsar://127.0.0.1:{server.getsockname()[1]}",
            "PULSAR_DOCTOR_AUTH_PLUGIN": "token",
            "PULSAR_DOCTOR_AUTH_PARAMS": f"token:{SECRETS['token']}",
            "PULSAR_CLIENT_CONF": str(private / "client.conf"),
        }
        command = [sys.executable, "-m", "pulsar_doctor", "-v", "tap", "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(
            [*command, "--trace", str(tmp_path / "t"), "--seal-every", "1s", "--",
             sys.executable, str(script), "{service_url}", str(said_by_client)],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(f"{len(answer)}\n".encode())
        process.stdin.flush()
        try:
            assert answered.wait(20)
            yield Running(process, tmp_path / "t")
        finally:
            process.kill()
            process.communicate()


def answer_once(server: socket.socket, answer: bytes, answered: threading.Event) -> None:
    expected = len(connect(SECRETS["token"]) + EVERYTHING)
    while not answered.is_set():
        with server.accept()[0] as sock:  # or only somebody who looks whether there is a broker
            broker = Peer(sock)
            said = broker.read(len(PING))
            if said == PING:
                broker.send(PONG)
            elif len(said + broker.read(expected - len(said))) == expected:
                broker.send(answer)
                answered.set()
                with contextlib.suppress(OSError):
                    broker.rest()


def ours(pid: int) -> list[int]:
    """Its processes, but for the application and what that may start."""
    return [
        one for one in family(pid)
        if one != pid and b"client.py" not in Path(f"/proc/{one}/cmdline").read_bytes()
    ]  # fmt: skip


def test_the_processes_of_a_tap_are_told_no_secret_where_others_may_read_it(running):
    eventually(lambda: len(ours(running.process.pid)) >= 2)
    for pid in ours(running.process.pid):
        assert b"pulsar_doctor" in told_to(pid)
        assert_no_secret(f"the arguments or environment of process {pid}", told_to(pid))


def test_a_tap_writes_no_secret_and_lets_nobody_else_read(running):
    eventually(lambda: list(running.trace_dir.glob("seg-*.parquet")))
    assert_private(running.trace_dir)
    out, err = running.process.communicate(b"\n", timeout=30)
    assert running.process.returncode in (0, 1), err
    assert out.startswith(b"pulsar://127.0.0.1:")
    assert_no_secret("stdout", out)
    assert_no_secret("stderr", err)
    assert_private(running.trace_dir)
    assert_trace_is_clean(running.trace_dir)
    for told in ("show", "summary", "verify"):
        shown = pulsar_doctor("trace", told, str(running.trace_dir))
        assert_no_secret(f"trace {told}", (shown.stdout + shown.stderr).encode())


def test_relay_and_observer_inherit_what_they_need_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials of other programs stand in the environment of whoever starts a tap."""
    for name in (*STRANGE, *NEEDED):
        monkeypatch.setenv(name, NEEDED.get(name, SECRETS["token"]))
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"pulsar://127.0.0.1:{server.getsockname()[1]}"
        auth = {"auth_plugin": "token", "auth_params": f"token:{SECRETS['token']}"}
        with running_tap("--trace", str(tmp_path / "t"), service_url=url, **auth) as tap:
            be_looked_for(server)
            for pid in (
                tap.child(f"pulsar_doctor.parts.tap.{name}") for name in ("relay", "observer")
            ):
                lines = Path(f"/proc/{pid}/environ").read_text().split("\0")
                there = dict(line.split("=", 1) for line in lines if line)
                assert there.items() >= NEEDED.items()
                assert not {*STRANGE, "PULSAR_DOCTOR_AUTH_PARAMS"} & there.keys()
                assert SECRETS["token"] not in there.values()
            tap.end()
