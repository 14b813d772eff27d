"""Which requests take the way through a proxy, and what is said of one that does not help."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import httpx2
import pytest

from pulsar_doctor.broker.admin import Unreachable
from pulsar_doctor.broker.proxies import proxy_for
from pulsar_doctor.errors import InputError
from tests.broker.http_broker import Reply, serving
from tests.broker.test_admin import STATS, ask, refusal, stats

PROXY = "http://proxy.example:3128"
HOST = "pulsar.example"  # resolved by nobody but the proxy of the test


@pytest.mark.parametrize(
    ("url", "variables", "goes"),
    [
        ("https://pulsar.example", {"HTTPS_PROXY": PROXY}, PROXY),
        ("https://pulsar.example", {"https_proxy": "proxy.example:3128"}, PROXY),
        ("https://pulsar.example", {"HTTPS_PROXY": PROXY, "NO_PROXY": "other.example"}, PROXY),
        ("https://pulsar.example", {"HTTPS_PROXY": PROXY, "NO_PROXY": ".example"}, None),
        ("https://pulsar.example:8443", {"HTTPS_PROXY": PROXY, "no_proxy": "*"}, None),
        ("https://10.1.2.3:8443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "x, 10.0.0.0/8"}, None),
        ("https://11.1.2.3:8443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "x, 10.0.0.0/8"}, PROXY),
        ("https://pulsar.example", {}, None),
        ("https://pulsar.example", {"HTTP_PROXY": PROXY, "ALL_PROXY": PROXY}, None),
        ("http://pulsar.example", {"HTTPS_PROXY": PROXY, "HTTP_PROXY": PROXY}, None),
        ("https://localhost:8443", {"HTTPS_PROXY": PROXY}, None),
        ("https://127.1.2.3:8443", {"HTTPS_PROXY": PROXY}, None),
        ("https://[::1]:8443", {"HTTPS_PROXY": PROXY}, None),
        ("https://[::ffff:127.0.0.1]:8443", {"HTTPS_PROXY": PROXY}, None),
    ],
)
def test_a_proxy_is_for_https_to_others_than_this_machine(
    environment_without_proxies: Callable[[str, str], None],
    url: str, variables: dict[str, str], goes: str | None,
) -> None:  # fmt: skip
    for name, value in variables.items():
        environment_without_proxies(name, value)
    assert proxy_for(httpx2.URL(url)) == (httpx2.URL(goes) if goes else None)
    assert proxy_for(httpx2.URL(url), direct=True) is None


@pytest.mark.parametrize("written", ["socks5://me:pw@proxy.example", "http://", "http://[::"])
def test_what_is_no_proxy_is_wrong_usage_and_not_repeated(
    environment_without_proxies: Callable[[str, str], None], written: str
) -> None:
    environment_without_proxies("HTTPS_PROXY", written)
    with pytest.raises(InputError, match="HTTPS_PROXY is not the http:// address of") as error:
        proxy_for(httpx2.URL("https://pulsar.example"))
    assert "pw" not in str(error.value)


def test_the_broker_is_asked_through_the_proxy_which_sees_no_token(
    environment_without_proxies: Callable[[str, str], None], server_side: ssl.SSLContext
) -> None:
    with (
        serving(lambda _: Reply(document=STATS), tls=server_side) as broker,
        tunnelling(int(broker.url.rpartition(":")[2])) as proxy,
    ):
        environment_without_proxies("HTTPS_PROXY", f"http://me:pw@127.0.0.1:{proxy.port}")
        login = {"auth_plugin": "token", "auth_params": "s3cr3t"}
        url = f"https://{HOST}:8443"
        assert ask(url, stats, tls_allow_insecure=True, **login).document == STATS
    assert broker.asked[0].headers["authorization"] == "Bearer s3cr3t"
    assert proxy.heard.startswith(f"CONNECT {HOST}:8443 HTTP/1.1".encode())
    assert b"Proxy-Authorization: Basic" in proxy.heard
    assert b"s3cr3t" not in proxy.heard


def test_a_proxy_that_refuses_is_named_without_its_password(
    environment_without_proxies: Callable[[str, str], None],
) -> None:
    with tunnelling(0, answer=b"HTTP/1.1 403 Forbidden\r\n\r\n") as proxy:
        environment_without_proxies("HTTPS_PROXY", f"http://me:pw@127.0.0.1:{proxy.port}")
        told = refusal(Unreachable, f"https://{HOST}:8443")
    assert "refuses to connect (403 Forbidden), for https://pulsar.example:8443" in told
    assert "pw" not in told


def test_a_proxy_that_is_not_there_is_named(
    outside: None,
    environment_without_proxies: Callable[[str, str], None],
) -> None:
    environment_without_proxies("HTTPS_PROXY", "http://me:pw@127.0.0.1:1")
    told = refusal(Unreachable, f"https://{HOST}:8443")
    assert told.startswith("the proxy http://127.0.0.1:1 of HTTPS_PROXY cannot be reached (")
    assert "--no-proxy uses none" in told


@pytest.fixture
def environment_without_proxies(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return monkeypatch.setenv


class Tunnelling:
    """A forward proxy of one connection, which knows one place, whatever it is called."""

    def __init__(self, port: int, answer: bytes | None) -> None:
        self.heard = b""
        self._behind, self._answer = port, answer
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]

    def serve(self) -> None:
        client, _ = self._server.accept()
        with client:
            while not self.heard.endswith(b"\r\n\r\n"):
                self.heard += client.recv(1 << 16)
            if self._answer is not None:
                client.sendall(self._answer)
                return
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            with socket.create_connection(("127.0.0.1", self._behind)) as broker:
                back = threading.Thread(target=self._carry, args=(broker, client), daemon=True)
                back.start()
                self._carry(client, broker)
                back.join(10)

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):  # either may end first
            while data := one.recv(1 << 16):
                self.heard += data
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._server.close()


@contextmanager
def tunnelling(port: int, *, answer: bytes | None = None) -> Iterator[Tunnelling]:
    proxy = Tunnelling(port, answer)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        thread.join(10)
        proxy.close()
