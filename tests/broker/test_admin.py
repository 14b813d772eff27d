"""The broker's REST API, read only: a real broker, and servers that misbehave."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import socket
import ssl
import sys
import threading
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from importlib.abc import MetaPathFinder
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_doctor.broker.admin import (
    Admin,
    AdminError,
    BrokerFailed,
    NotFound,
    Refused,
    Unreachable,
    topic_name,
)
from pulsar_doctor.broker.admin.cluster import Members
from pulsar_doctor.broker.admin.streaming import NestedReader
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.errors import DoctorError, InputError
from tests.broker.http_broker import DATE_MS, Asked, HttpBroker, Reply, serving
from tests.support.cluster import free_ports

T = TypeVar("T")
SECRET = "eyJhbGciOiJub25lIn0.s3cr3t-part.sig"
TOKEN = {"auth_plugin": "token", "auth_params": SECRET}
STATS = {"msgInCounter": 7, "subscriptions": {}}
STATS_PATH = "/admin/v2/persistent/public/default/orders/stats"
HTML = Reply(404, body=b"<html>Not Found</html>", content_type="text/html")


def ask(url: str, question: Callable[[Admin], Awaitable[T]], *, concurrency: int = 32,
        timeout_seconds: float = 5.0, **settings: Any) -> T:  # fmt: skip
    async def asking() -> T:
        told = Settings(admin_url=url, **settings)
        async with Admin(told, concurrency=concurrency, timeout_seconds=timeout_seconds) as admin:
            return await question(admin)

    return asyncio.run(asking())


def stats(admin: Admin) -> Awaitable[Any]:
    return admin.topic_stats("orders")


def refusal(kind: type[DoctorError], url: str, question: Any = stats, **more: Any) -> str:
    with pytest.raises(kind) as caught:
        ask(url, question, **more)
    assert type(caught.value) is kind
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert SECRET not in f"{sentence}{caught.value!r}{caught.value.__cause__!r}"
    return sentence


@contextmanager
def always(reply: Reply, **more: Any) -> Iterator[HttpBroker]:
    with serving(lambda asked: reply, **more) as broker:
        yield broker


def jwt(expires: int) -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
             for part in ({"alg": "none"}, {"sub": "me", "exp": expires})]  # fmt: skip
    return ".".join([*parts, "signature"])


# Names


@pytest.mark.parametrize(
    ("text", "full", "path"),
    [
        ("orders", "persistent://public/default/orders", "persistent/public/default/orders"),
        ("t/ns/orders", "persistent://t/ns/orders", "persistent/t/ns/orders"),
        ("non-persistent://t/ns/o", "non-persistent://t/ns/o", "non-persistent/t/ns/o"),
        ("o-partition-3", "persistent://public/default/o-partition-3",
         "persistent/public/default/o-partition-3"),
        ("persistent://t/ns/a/b", "persistent://t/ns/a/b", "persistent/t/ns/a%2Fb"),
        (f"o-partition-{'9' * 20}", f"persistent://public/default/o-partition-{'9' * 20}",
         f"persistent/public/default/o-partition-{'9' * 20}"),
        ("a b", "persistent://public/default/a b", "persistent/public/default/a%20b"),
        ("größe", "persistent://public/default/größe",
         "persistent/public/default/gr%C3%B6%C3%9Fe"),
        ("a%2Fb", "persistent://public/default/a%2Fb", "persistent/public/default/a%252Fb"),
        ("a+b?c#d", "persistent://public/default/a+b?c#d",
         "persistent/public/default/a%2Bb%3Fc%23d"),
    ],
)  # fmt: skip
def test_a_topic_is_named_as_people_write_it_and_asked_as_the_broker_reads_it(text, full, path):
    assert (str(topic_name(text)), topic_name(text).path) == (full, path)


@pytest.mark.parametrize(
    "text", ["", "a/b", "kafka://t/ns/x", "persistent://t/ns", "persistent://t//x", "t/ns/"]
)
def test_what_is_no_topic_is_wrong_usage(text):
    with pytest.raises(InputError, match="is not a topic"):
        topic_name(text)


def test_a_name_that_is_a_step_in_a_path_is_wrong_usage():
    with pytest.raises(InputError, match="cannot be asked for"):
        _ = topic_name("persistent://t/ns/..").path


def test_an_odd_name_arrives_as_it_was_encoded():
    with always(Reply(document=STATS)) as broker:
        ask(broker.url, lambda admin: admin.topic_stats("persistent://t/ns/a/ö %2F+?#"))
    assert broker.asked[0].path.startswith(
        "/admin/v2/persistent/t/ns/a%2F%C3%B6%20%252F%2B%3F%23/stats?"
    )


# What is asked, and how


def test_an_answer_carries_the_brokers_clock():
    with always(Reply(document=STATS)) as broker:
        answer = ask(broker.url, stats)
    assert (answer.document, answer.broker_clock_ms) == (STATS, DATE_MS)


@pytest.mark.parametrize("date", ["", "yesterday", f"1 Jan {'9' * 20} 00:00:00 GMT"])
def test_a_clock_that_is_not_told_is_none(date):
    with always(Reply(document=STATS, headers={"Date": date})) as broker:
        assert ask(broker.url, stats).broker_clock_ms is None


def test_stats_ask_for_nothing_that_costs_unless_told_to():
    with always(Reply(document=STATS)) as broker:
        ask(broker.url, stats)
        ask(broker.url, lambda admin: admin.topic_stats("orders", precise_backlog=True))
        ask(broker.url, lambda admin: admin.partitioned_stats("orders"))
    cheap = "getPreciseBacklog=false&subscriptionBacklogSize=false&getEarliestTimeInBacklog=false"
    assert broker.asked[0].path == f"{STATS_PATH}?{cheap}"
    dear = cheap.replace("Backlog=false", "Backlog=true", 1)
    assert broker.asked[1].path == f"{STATS_PATH}?{dear}"
    assert broker.asked[2].path.endswith(f"/orders/partitioned-stats?{cheap}&perPartition=true")


def test_the_admin_url_may_have_a_path_of_its_own():
    with always(Reply(document=STATS)) as broker:
        ask(f"{broker.url}/pulsar/", stats)
    assert broker.asked[0].path.startswith("/pulsar/admin/v2/persistent/")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "HEAD"])
def test_nothing_but_get_can_be_sent(method):
    def write(admin: Admin) -> Awaitable[Any]:
        request = httpx2.Request(method, f"{broker.url}{STATS_PATH}")
        return admin._http._transport.handle_async_request(request)

    with always(Reply(document=STATS)) as broker:
        assert "only reads" in refusal(Refused, broker.url, write)
    assert broker.asked == []


def test_nothing_can_be_sent_to_a_host_that_is_not_the_clusters():
    def elsewhere(admin: Admin) -> Awaitable[Any]:
        request = httpx2.Request("GET", broker.url.replace("127.0.0.1", "localhost"))
        return admin._http._transport.handle_async_request(request)

    with always(Reply(document=STATS)) as broker:
        assert "not a broker of the cluster" in refusal(Refused, broker.url, elsewhere)
    assert broker.asked == []


def test_the_environments_proxy_and_netrc_are_not_used(monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_ports(1)[0]}")
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_ports(1)[0]}")
    with always(Reply(document=STATS)) as broker:
        ask(broker.url, stats)
    assert "authorization" not in broker.asked[0].headers


def test_no_more_than_the_told_number_is_asked_at_once_and_connections_are_reused():
    def slowly(asked: Asked) -> Reply:
        time.sleep(0.02)
        return Reply(document=STATS)

    async def many(admin: Admin) -> list[Any]:
        return await asyncio.gather(*(admin.topic_stats(f"t{n}") for n in range(60)))

    with serving(slowly) as broker:
        assert len(ask(broker.url, many, concurrency=5)) == 60
    assert broker.most_at_once == 5
    assert len({asked.client_port for asked in broker.asked}) <= 16  # 4 pools of 4


class Searches(MetaPathFinder):
    """Notes every module that is searched for, and finds none."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        self.names.append(name)


def test_a_request_searches_the_disk_for_no_module(monkeypatch):
    searches = Searches()

    async def question(admin: Admin) -> None:
        await admin.topic_stats("orders")
        monkeypatch.setattr(sys, "meta_path", [searches, *sys.meta_path])
        await admin.topic_stats("invoices")

    with always(Reply(document=STATS)) as broker:
        ask(broker.url, question)
    assert (len(broker.asked), searches.names) == (2, [])


# Failures, one sentence each


def test_nothing_listens_there():
    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    assert refusal(Unreachable, url) == (
        f"nothing listens at {url}; is the broker up? See --admin-url"
    )


@pytest.mark.usefixtures("outside")
def test_there_is_no_such_host():
    assert refusal(Unreachable, "http://broker.invalid:8080").startswith(
        "there is no host broker.invalid ("
    )


def test_a_web_page_answers():
    page = Reply(body=b"<html>Hello</html>", content_type="text/html; charset=utf-8")
    for reply in (page, HTML):
        with always(reply) as broker:
            assert refusal(Unreachable, broker.url).startswith(
                f"a web page answers at {broker.url} ({reply.status}), not the REST API"
            )
        assert len(broker.asked) == 1


def test_the_binary_port_answers():
    def greet(listener: socket.socket) -> None:
        with listener.accept()[0] as connection:
            connection.recv(65536)
            connection.sendall(b"\x00\x00\x00\x10\x00\x00\x00\x0c\x08\x02")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=greet, args=(listener,))
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert "does not speak HTTP; is it the broker's binary port" in refusal(Unreachable, url)
        thread.join()


@pytest.mark.parametrize(
    ("reply", "kind", "sentence", "times"),
    [
        (Reply(401, body=b"Authentication required", content_type="text/html"), Refused,
         "{url} does not accept these credentials (401); see --auth-params", 1),
        (Reply(403, {"reason": f"no permission with {SECRET}"}), Refused,
         "these credentials may not read the stats of {topic} (no permission with ***); "
         "ask for a role that may", 1),
        (Reply(404, {"reason": "Topic orders not found"}), NotFound,
         "{url} does not have the stats of {topic} (Topic orders not found)", 1),
        (Reply(404, {"reason": "Namespace not found"}), NotFound,
         "{url} does not have the stats of {topic} (Namespace not found)", 1),
        (Reply(403, {"reason": "ldap bind failed, pwd=hunter2"}), Refused,
         "these credentials may not read the stats of {topic} (ldap bind failed, [redacted]); "
         "ask for a role that may", 1),
        (Reply(404, {"reason": "p\x1bwd=hunter2"}), NotFound,
         "{url} does not have the stats of {topic} ([redacted])", 1),
        (Reply(409, {"reason": "jdbc://me:hunter2@db is away"}), BrokerFailed,
         "{url} failed with 409 when asked for the stats of {topic} (jdbc://[redacted]@db is away)",
         1),
        (Reply(412, {"reason": "bad\x1b[31m name"}), BrokerFailed,
         "{url} failed with 412 when asked for the stats of {topic} (bad[31m name)", 1),
        (Reply(500, {"reason": "\n --- An unexpected error occurred in the server ---\n\n"
                     "Message: disk full\n\nStacktrace:\n\n java.lang"}), BrokerFailed,
         "{url} failed with 500 when asked for the stats of {topic} (disk full)", 3),
        (Reply(503, body=b"busy", content_type="text/html"), BrokerFailed,
         "{url} failed with 503 when asked for the stats of {topic}", 3),
        (Reply(body=b'{"a": '), BrokerFailed,
         "what {url} says of the stats of {topic} is not JSON: "
         "Expecting value: line 1 column 7 (char 6)", 1),
        (Reply(document=[1]), BrokerFailed, "the stats of {topic} is not an object", 1),
        (Reply(document=STATS, headers={"Content-Encoding": "gzip"}), BrokerFailed,
         "what {url} says of the stats of {topic} cannot be unpacked: incorrect header check", 1),
        (Reply(document=STATS, cut=True), Unreachable,
         "{url} closed the connection while asked for the stats of {topic}; "
         "does it want https://, or is it the broker's binary port? See --admin-url", 3),
    ],
)  # fmt: skip
def test_a_refusal_is_one_sentence_and_is_repeated_only_where_that_may_help(
    reply, kind, sentence, times
):
    with always(reply) as broker:
        told = refusal(kind, broker.url, **TOKEN)
    topic = "persistent://public/default/orders"
    assert told == sentence.format(url=broker.url, topic=topic)
    assert len(broker.asked) == times
    assert {asked.headers["authorization"] for asked in broker.asked} == {f"Bearer {SECRET}"}


def test_without_credentials_a_401_says_that_some_are_wanted():
    with always(Reply(401, {"reason": "Authentication required"})) as broker:
        assert "wants credentials (401)" in refusal(Refused, broker.url)


@pytest.mark.parametrize(("after_ms", "says"), [(-1000, "expired at"), (1000, "does not accept")])
def test_an_expired_token_is_named_by_the_brokers_clock(after_ms, says):
    token = jwt((DATE_MS + after_ms) // 1000)
    with always(Reply(401, {"reason": "Authentication required"})) as broker:
        told = refusal(Refused, broker.url, auth_plugin="token", auth_params=token)
    assert says in told
    assert token not in told


def test_a_failure_that_passes_is_not_told():
    left = [Reply(503, {"reason": "starting"}), Reply(document=STATS, cut=True)]
    began = time.monotonic()
    with serving(lambda asked: left.pop(0) if left else Reply(document=STATS)) as broker:
        assert ask(broker.url, stats).document == STATS
    assert len(broker.asked) == 3
    assert time.monotonic() - began >= 0.6  # 0.2 s, then 0.4 s


def test_a_slow_answer_is_a_time_out_and_is_not_asked_for_again():
    def slowly(asked: Asked) -> Reply:
        time.sleep(0.5)
        return Reply(document=STATS)

    with serving(slowly) as broker:
        assert refusal(Unreachable, broker.url, timeout_seconds=0.2) == (
            f"{broker.url} did not answer for the stats of persistent://public/default/orders "
            "within 0.2s"
        )
    assert len(broker.asked) == 1


def test_an_answer_that_drips_is_a_time_out_too():
    def drip() -> Iterator[bytes]:
        for _ in range(10):
            time.sleep(0.1)
            yield b" "

    with always(Reply(pieces=drip())) as broker:
        sentence = refusal(Unreachable, broker.url, timeout_seconds=0.3)
    assert re.search(r"sent \d bytes of the stats of .* in 0.\ds, and no end", sentence)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("localhost:8080", "is not an http:// or https://"),
        ("pulsar://localhost:6650", "is not an http:// or https://"),
        ("http://", "is not an http:// or https://"),
        ("http://me:s3cr3t@localhost:8080", "no credentials in the admin URL"),
    ],
)
def test_an_admin_url_that_cannot_be_meant_is_wrong_usage(url, says):
    told = refusal(InputError, url)
    assert says in told
    assert "s3cr3t" not in told


def test_of_several_admin_urls_the_next_is_asked_when_one_is_down():
    with always(Reply(document=STATS)) as broker:
        address = broker.url.removeprefix("http://")
        assert ask(f"http://127.0.0.1:{free_ports(1)[0]},{address}", stats).document == STATS


# Redirects


def redirecting(to: Callable[[], str], brokers: Any) -> Callable[[Asked], Reply]:
    """Sends questions for a topic on to `to`; lists `brokers`, or answers with that Reply."""

    def answer(asked: Asked) -> Reply:
        if asked.path == "/admin/v2/brokers":
            return brokers if isinstance(brokers, Reply) else Reply(document=brokers)
        if asked.path.startswith("/admin/v2/persistent"):
            return Reply(307, headers={"Location": f"{to()}{asked.path}"})
        return HTML

    return answer


def by_name(url: str) -> str:
    """The same server under a name that is another host to us."""
    return url.replace("127.0.0.1", "localhost")


def owner_of(broker: HttpBroker) -> str:
    """As a cluster would list it."""
    return by_name(broker.url).removeprefix("http://")


def test_a_redirect_to_a_broker_that_the_cluster_lists_is_followed_with_credentials():
    with always(Reply(document=STATS)) as owner:
        first = redirecting(lambda: by_name(owner.url), ["127.0.0.1:1", owner_of(owner)])

        async def two(admin: Admin) -> list[Any]:
            return await asyncio.gather(admin.topic_stats("a"), admin.topic_stats("b"))

        with serving(first) as broker:
            assert [answer.document for answer in ask(broker.url, two, **TOKEN)] == [STATS, STATS]
    assert {asked.headers["authorization"] for asked in owner.asked} == {f"Bearer {SECRET}"}
    assert [asked.path for asked in broker.asked].count("/admin/v2/brokers") == 1


@pytest.mark.parametrize("listed", [[], ["127.0.0.1:1", "localhost:8080"]])
def test_another_port_of_a_known_host_is_a_stranger(listed):
    with (
        always(Reply(document=STATS)) as neighbour,
        serving(redirecting(lambda: neighbour.url, listed)) as broker,
    ):
        told = refusal(Refused, f"{broker.url},localhost:1", **TOKEN)
    assert told.startswith(f"{neighbour.url} was sent no request and no credentials: it is not in")
    assert neighbour.asked == []


@pytest.mark.parametrize(
    ("url", "belongs", "unproven"),
    [
        ("http://a:8080/x", True, True),
        ("http://A:8080", True, True),
        ("http://a:8081", False, False),
        ("http://a", False, False),
        ("https://a:8080", False, False),  # an origin has a scheme; the list does not name it
        ("https://a:8443", False, False),
        ("http://b:8080", True, True),
        ("http://b:9090", False, False),
        ("https://b:8080", True, True),
        ("https://b:8443", True, False),  # its certificate proves the host, where that is asked for
        ("http://b.evil:8080", False, False),
        ("http://c", True, True),
        ("http://c:80", True, True),
        ("https://secure", True, True),
        ("https://secure:443/x", True, True),
        ("http://secure:443", False, False),
        ("http://[::1]:8080", True, True),
        ("http://[::1]:8081", False, False),
    ],
)
def test_who_belongs_to_a_cluster(url, belongs, unproven):
    bases = [httpx2.URL("http://a:8080/pulsar"), httpx2.URL("https://secure")]
    for proven, expected in ((True, belongs), (False, unproven)):
        members = Members(bases, proven=proven)
        members.add(["b:8080", "c", "[::1]:8080", "[::", "", "x/b"])
        assert members.has(httpx2.URL(url)) is expected


def test_a_redirect_within_the_admin_urls_hosts_needs_no_list():
    with (
        always(Reply(document=STATS)) as owner,
        serving(redirecting(lambda: by_name(owner.url), HTML)) as broker,
    ):
        assert ask(f"{broker.url},{owner_of(owner)}", stats, **TOKEN).document == STATS
    assert [asked.path for asked in broker.asked if "brokers" in asked.path] == []


@pytest.mark.parametrize(
    ("brokers", "why"),
    [
        (["127.0.0.1:8080"], "it is not in the cluster's list of brokers"),
        (["localhost.evil:8080", "x/localhost", "[::"], "not in the cluster's list of brokers"),
        (Reply(403, {"reason": "no superuser"}), "list of brokers cannot be read (these cred"),
        (Reply(307, headers={"Location": "http://localhost:1/"}), "list of brokers cannot be read"),
        (Reply(document={"localhost": 1}), "cannot be read"),
    ],
)  # fmt: skip
def test_a_redirect_to_a_stranger_is_told_and_the_stranger_gets_nothing(brokers, why):
    with (
        always(Reply(document=STATS)) as hostile,
        serving(redirecting(lambda: by_name(hostile.url), brokers)) as broker,
    ):
        told = refusal(Refused, broker.url, **TOKEN)
    assert told.startswith(f"{by_name(hostile.url)} was sent no request and no credentials: ")
    assert why in told
    assert hostile.asked == []


def test_for_a_stranger_the_cluster_is_asked_once():
    async def many(admin: Admin) -> list[Any]:
        questions = (admin.topic_stats(f"t{n}") for n in range(20))
        return await asyncio.gather(*questions, return_exceptions=True)

    with serving(redirecting(lambda: "http://stranger.invalid", ["127.0.0.1:1"])) as broker:
        told = ask(broker.url, many, **TOKEN)
    assert {type(error) for error in told} == {Refused}
    assert [asked.path for asked in broker.asked].count("/admin/v2/brokers") == 1


def test_brokers_that_want_the_clusters_name_are_asked_with_it():
    with always(Reply(document=STATS)) as owner:

        def older(asked: Asked) -> Reply:
            lists = {"/admin/v2/clusters": ["c 1"], "/admin/v2/brokers/c%201": [owner_of(owner)]}
            if asked.path in lists:
                return Reply(document=lists[asked.path])
            return redirecting(lambda: by_name(owner.url), HTML)(asked)

        with serving(older) as broker:
            assert ask(broker.url, stats).document == STATS
            assert ask(broker.url, lambda admin: admin.brokers()) == [owner_of(owner)]


def test_a_redirect_in_a_circle_is_told():
    with serving(redirecting(lambda: broker.url, [])) as broker:
        assert refusal(BrokerFailed, broker.url).startswith("redirected in a circle for the stats")
    assert len(broker.asked) == 1


def test_a_redirect_that_never_ends_is_told():
    steps = iter(range(100))
    with serving(
        lambda asked: Reply(307, headers={"Location": f"{broker.url}/{next(steps)}"})
    ) as broker:
        assert "redirected in a circle" in refusal(BrokerFailed, broker.url)
    assert len(broker.asked) == 6


@pytest.mark.parametrize(
    "location", ["ftp://x/", "http://me:pw@127.0.0.1/", "http://[::", ":a::..:"]
)
def test_a_redirect_to_no_address_of_a_broker_is_told(location):
    with always(Reply(307, headers={"Location": location})) as broker:
        assert "redirects to something that is not" in refusal(BrokerFailed, broker.url)


# TLS, with certificates made for the moment


def test_a_certificate_that_is_trusted_by_file_or_by_nobody(server_side, pem):
    with always(Reply(document=STATS), tls=server_side) as broker:
        assert refusal(Unreachable, broker.url, **TOKEN) == (
            f"the certificate of {broker.url} is not trusted (self-signed certificate in "
            "certificate chain); "
            "give its authority with --tls-trust-certs, or --tls-allow-insecure"
        )
        assert broker.asked == []
        assert ask(broker.url, stats, tls_trust_certs=pem / "cert.pem").document == STATS
        assert ask(broker.url, stats, tls_allow_insecure=True).document == STATS


def test_a_certificate_for_another_host_is_not_trusted(server_side, pem):
    with always(Reply(document=STATS), tls=server_side) as broker:
        told = refusal(Unreachable, by_name(broker.url), tls_trust_certs=pem / "cert.pem")
    assert "is not trusted (Hostname mismatch" in told


def test_a_client_certificate_is_shown_where_it_is_wanted(server_side, pem):
    server_side.verify_mode = ssl.CERT_REQUIRED
    server_side.load_verify_locations(pem / "cert.pem")
    trust: dict[str, Any] = {"tls_trust_certs": pem / "cert.pem"}
    params = f"tlsCertFile:{pem}/cert.pem,tlsKeyFile:file://{pem}/key.pem"
    java = "org.apache.pulsar.client.impl.auth.AuthenticationTls"
    with always(Reply(document=STATS), tls=server_side) as broker:
        answer = ask(broker.url, stats, auth_plugin=java, auth_params=params, **trust)
        assert answer.document == STATS
        of_client_conf = {"tls_certificate": pem / "cert.pem", "tls_key": pem / "key.pem"}
        assert ask(broker.url, stats, **of_client_conf, **trust).document == STATS
        with pytest.raises(
            AdminError, match=r"wants? a client certificate"
        ):  # TLS 1.3: may be late
            ask(broker.url, stats, **trust)
    server_side.maximum_version = ssl.TLSVersion.TLSv1_2
    with always(Reply(document=STATS), tls=server_side) as broker:
        assert "wants a client certificate" in refusal(Refused, broker.url, **trust)


@pytest.mark.parametrize("key", ["locked.pem", "nothing.pem"])
def test_a_client_key_that_cannot_be_used_is_wrong_usage(pem, key):
    params = json.dumps({"tlsCertFile": f"{pem}/cert.pem", "tlsKeyFile": f"{pem}/{key}"})
    more = {"auth_plugin": "tls", "auth_params": params}
    assert "cannot use the client certificate" in refusal(InputError, "https://x", **more)


def test_a_trust_file_that_cannot_be_read_is_wrong_usage(tmp_path):
    (tmp_path / "empty.pem").write_text("")
    for name in ("empty.pem", "nothing.pem"):
        told = refusal(InputError, "https://x", tls_trust_certs=tmp_path / name)
        assert told.startswith("cannot read certificates from")


def test_a_redirect_from_tls_to_none_is_not_followed(server_side, pem):
    with always(Reply(document=STATS)) as plain:
        reply = Reply(307, headers={"Location": f"{plain.url}{STATS_PATH}"})
        with always(reply, tls=server_side) as broker:
            trust: dict[str, Any] = {"tls_trust_certs": pem / "cert.pem"}
            assert "redirected from TLS" in refusal(Refused, broker.url, **trust, **TOKEN)
    assert plain.asked == []


# Loaded topics, as a stream


def broker_stats(topics: int) -> Iterator[bytes]:
    filler = json.dumps({"consumers": [{"address": "x" * 2000}], "msgBacklog": 1}).encode()
    for number in range(topics):
        if number % 100 == 0:
            head = b"}}},\n" if number else b"{"
            yield head + b'"public/ns%d": {"0x0_0x4": {"persistent": {' % number
        comma = b"," if number % 100 else b""
        yield b'%s"persistent://public/ns/t-%d":%s' % (comma, number, filler)
    yield b"}}}}" if topics else b"{}"


async def count(admin: Admin) -> tuple[int, int]:
    """Topics, and the peak of memory while they were read."""
    tracemalloc.start()
    topics = 0
    async with aclosing(admin.loaded_topics()) as loaded:
        async for _ in loaded:
            topics += 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return topics, peak


def test_memory_does_not_grow_with_the_number_of_loaded_topics():
    peaks = {}
    for topics in (10, 1_000, 10_000):
        with serving(lambda asked, n=topics: Reply(pieces=broker_stats(n))) as broker:
            told, peaks[topics] = ask(broker.url, count)
            assert told == topics
    assert peaks[10_000] < 2 * peaks[1_000]  # ten times the topics
    assert peaks[10_000] < 4_000_000  # 20 MB went by


def test_a_loaded_topic_says_where_it_is():
    stats = {"subscriptions": {"s": {"msgBacklog": 1}}}
    tree = {"t/n": {"0x0_0x4": {"persistent": {"persistent://t/n/x": stats}, "non-persistent": {}},
                    "0x4_0x8": {}},
            "u/n": {"0x0_0x4": {"non-persistent": {"non-persistent://u/n/y": {}}}}}  # fmt: skip
    with always(Reply(document=tree)) as broker:

        async def all_of(admin: Admin) -> list[Any]:
            return [topic async for topic in admin.loaded_topics()]

        first, second = ask(broker.url, all_of)
    assert (first.namespace, first.bundle, first.kind) == ("t/n", "0x0_0x4", "persistent")
    assert (first.topic, first.stats, first.broker_clock_ms) == (
        "persistent://t/n/x", stats, DATE_MS,
    )  # fmt: skip
    assert (second.namespace, second.kind, second.stats) == ("u/n", "non-persistent", {})


@pytest.mark.parametrize(
    ("reply", "kind", "says"),
    [
        (Reply(body=b'{"a":{"b":{"c":{"d":{}'), BrokerFailed, "is not what it should be: cut off"),
        (Reply(body=b'{"a":{"b":{"c":{"d":{}}}}} x'), BrokerFailed, "'x' after the end"),
        (Reply(body=b'{"a": 1}'), BrokerFailed, "unexpected '1'"),
        (Reply(body=b"\xff"), BrokerFailed, "is not what it should be"),
        (Reply(pieces=iter([b'{"a":'] ), cut=True), Unreachable, "closed the connection"),
        (Reply(403, {"reason": "no superuser"}), Refused, "may not read broker-stats/topics"),
        (Reply(body=b"<html>", content_type="text/html"), Unreachable, "a web page answers"),
    ],
)  # fmt: skip
def test_a_broken_list_of_loaded_topics_is_told(reply, kind, says):
    with always(reply) as broker:
        assert says in refusal(kind, broker.url, count)
    tracemalloc.stop()


def test_topics_can_be_asked_for_while_the_loaded_ones_are_read():
    def answer(asked: Asked) -> Reply:
        return (
            Reply(pieces=broker_stats(300))
            if "broker-stats" in asked.path
            else Reply(document=STATS)
        )

    async def both(admin: Admin) -> int:
        async with aclosing(admin.loaded_topics()) as loaded:
            async for _ in loaded:
                return len((await admin.topic_stats("x")).document)  # ends early, too
        return 0

    with serving(answer) as broker:
        assert ask(broker.url, both, concurrency=1) == 2


async def of_each_broker(admin: Admin) -> list[str]:
    return [
        loaded.topic
        for broker in await admin.brokers()
        async for loaded in admin.loaded_topics(broker)
    ]


async def of_a_stranger(admin: Admin) -> None:
    await anext(aiter(admin.loaded_topics("stranger.invalid:8080")))


def test_another_brokers_loaded_topics_are_asked_where_the_cluster_lists_it():
    with (
        serving(lambda asked: Reply(pieces=broker_stats(5))) as other,
        always(Reply(document=[by_name(other.url).removeprefix("http://")])) as first,
    ):
        assert len(ask(first.url, of_each_broker, **TOKEN)) == 5
        assert "no request and no credentials" in refusal(
            Refused, first.url, of_a_stranger, **TOKEN
        )


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
LEVEL = [st.dictionaries(st.text(max_size=4), VALUES, max_size=2)]
for _ in range(4):
    LEVEL.append(st.dictionaries(st.text(max_size=4), LEVEL[-1], max_size=2))


@given(LEVEL[-1], st.data())
def test_any_cut_of_the_stream_gives_the_same_entries(tree, data):
    whole = json.dumps(tree, ensure_ascii=False, indent=data.draw(st.sampled_from([None, 1])))
    text = whole.encode()
    size = data.draw(st.integers(1, max(1, len(text))))
    reader, told = NestedReader(), []
    for at in range(0, len(text), size):
        told += reader.feed(text[at : at + size])
    told += reader.end()
    assert told == [
        ((a, b, c, d), value)
        for a, bundles in tree.items()
        for b, kinds in bundles.items()
        for c, topics in kinds.items()
        for d, value in topics.items()
    ]


# Credentials


@pytest.mark.parametrize(
    ("plugin", "params", "sent"),
    [
        ("token", SECRET, f"Bearer {SECRET}"),
        ("token", f"token:{SECRET}", f"Bearer {SECRET}"),
        ("token", json.dumps({"token": SECRET}), f"Bearer {SECRET}"),
        ("token", "env:MY_TOKEN", f"Bearer {SECRET}"),
        ("org.apache.pulsar.client.impl.auth.AuthenticationToken", SECRET, f"Bearer {SECRET}"),
        ("basic", "me:a:b", "Basic bWU6YTpi"),
        ("basic", '{"userId": "me", "password": "a:b"}', "Basic bWU6YTpi"),
        ("org.apache.pulsar.client.impl.auth.AuthenticationBasic", "me:ä", "Basic bWU6w6Q="),
        ("org.apache.pulsar.client.impl.auth.AuthenticationDisabled", None, None),
        (None, SECRET, None),
        ("token", f"exec:printf %s {SECRET}", f"Bearer {SECRET}"),
        ("token", f"exec:{sys.executable} -c 'print(\"{SECRET}\")'", f"Bearer {SECRET}"),
    ],
)
def test_credentials_go_where_the_broker_looks_for_them(plugin, params, sent, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", f"{SECRET}\n")
    with always(Reply(document=STATS)) as broker:
        ask(broker.url, stats, auth_plugin=plugin, auth_params=params)
    assert broker.asked[0].headers.get("authorization") == sent
    method = broker.asked[0].headers.get("x-pulsar-auth-method-name")
    assert method == (sent.split()[0].lower().replace("bearer", "token") if sent else None)


def test_a_tokens_file_is_read_again_for_each_request(tmp_path):
    path = tmp_path / "a token"
    path.write_text("first\n")

    async def twice(admin: Admin) -> None:
        await stats(admin)
        path.write_text("second\n")
        await stats(admin)

    with always(Reply(document=STATS)) as broker:
        ask(broker.url, twice, auth_plugin="token", auth_params=f"file://{quote(str(path))}")
    assert [asked.headers["authorization"] for asked in broker.asked] == [
        "Bearer first", "Bearer second",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("plugin", "params", "says"),
    [
        ("ntlm", SECRET, "is not supported; basic, disabled, header, oauth2, tls, token are"),
        ("kerberos", SECRET, "Kerberos tickets cannot be used: take a token, a client certificate"),
        ("org.apache.pulsar.client.impl.auth.AuthenticationSasl", "", "Kerberos tickets cannot be"),
        ("org.apache.pulsar.client.impl.auth.AuthenticationAthenz", "", "Athenz-Role-Auth=exec:"),
        ("token", "exec:", "exec: names no command"),
        ("token", "exec:printf 'x", "an open quote"),
        ("header", "X-Role", "a header takes --auth-params header:NAME=file:PATH"),
        ("header", "header:X Role=env:X", "a header takes --auth-params header:NAME=file:PATH"),
        ("token", "", "the token is empty"),
        ("token", f"{SECRET}\nX: y", "characters that no token has"),
        ("token", "file:///nothing/here", "cannot read the token file /nothing/here"),
        ("token", "env:NOT_SET_ANYWHERE", "token in the environment's NOT_SET_ANYWHERE is empty"),
        ("token", '{"token":', "the parameters of token are no JSON"),
        ("basic", SECRET, "takes --auth-params user:password"),
        ("tls", "tlsCertFile:/x", "tls needs tlsKeyFile"),
        ("oauth2", "{}", "oauth2 needs privateKey"),
        ("oauth2", '{"privateKey": "data:,{}"}', "oauth2 needs issuer_url"),
        ("oauth2", f'{{"privateKey": "data:;base64,{SECRET}"}}', "not a readable data: URL"),
        ("oauth2", '{"privateKey": "/nothing"}', "cannot read the key file of oauth2 /nothing"),
    ],
)
def test_credentials_that_cannot_be_meant_are_wrong_usage_and_not_repeated(plugin, params, says):
    more = {"auth_plugin": plugin, "auth_params": params}
    assert says in refusal(InputError, "http://localhost:1", **more)


def issuer(lives_seconds: float, status: int = 200) -> Callable[[Asked], Reply]:
    def answer(asked: Asked) -> Reply:
        if asked.path == "/.well-known/openid-configuration":
            host = asked.headers["host"]
            return Reply(document={"token_endpoint": f"http://{host}/oauth/token"})
        return Reply(status, {"access_token": SECRET, "expires_in": lives_seconds})

    return answer


@pytest.mark.parametrize(("lives_seconds", "bought"), [(3600, 1), (10, 3)])
def test_oauth2_buys_a_token_and_keeps_it_until_it_is_about_to_expire(lives_seconds, bought):
    key = {"client_id": "me", "client_secret": "s3cr3t"}
    data = "data:application/json;base64," + base64.b64encode(json.dumps(key).encode()).decode()

    async def thrice(admin: Admin) -> None:
        for _ in range(3):
            await stats(admin)

    with serving(issuer(lives_seconds)) as shop, always(Reply(document=STATS)) as broker:
        params = {"issuerUrl": shop.url, "privateKey": data, "audience": "urn:p", "scope": "a b"}
        ask(broker.url, thrice, auth_plugin="oauth2", auth_params=json.dumps(params))
    posts = [asked for asked in shop.asked if asked.method == "POST"]
    assert len(posts) == bought
    assert posts[0].body == (
        b"grant_type=client_credentials&client_id=me&client_secret=s3cr3t"
        b"&audience=urn%3Ap&scope=a+b"
    )
    assert {asked.headers["authorization"] for asked in broker.asked} == {f"Bearer {SECRET}"}


def test_a_password_that_a_broker_says_again_is_taken_out() -> None:
    said = [Reply(403, {"reason": f"no {word}"}) for word in ("hunter-2", "me:hunter-2")]
    with serving(lambda asked: said.pop()) as broker:
        more = {"auth_plugin": "basic", "auth_params": "me:hunter-2"}
        for _ in range(2):
            assert "hunter-2" not in refusal(Refused, broker.url, **more)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (issuer(60, 401), "refuses these client credentials (401)"),
        (lambda asked: HTML, "gives no token (JSONDecodeError)"),
        (issuer(10**400), "gives no token (OverflowError)"),
        (lambda asked: Reply(body=b"[" * 100_000), "gives no token (RecursionError)"),
    ],
)
def test_an_issuer_that_gives_no_token_is_told_without_the_secret(tmp_path, answer, says):
    key = tmp_path / "key.json"
    key.write_text(json.dumps({"client_id": "me", "client_secret": SECRET}))
    with serving(answer) as shop:
        params = f"issuerUrl:{shop.url},privateKey:file://{key}"
        more = {"auth_plugin": "oauth2", "auth_params": params}
        assert says in refusal(DoctorError, "http://localhost:1", **more)


# Limits


@pytest.mark.parametrize(
    ("lists", "limit"),
    [
        ({"t-topic": Reply(document=20)}, 20),
        ({"t-topic": Reply(405, {"reason": "disabled"}), "ns": Reply(document=30)}, 30),
        ({"t-topic": HTML, "ns": Reply(204, body=b""),
          "runtime": Reply(document={"maxUnackedMessagesPerConsumer": "50000"})}, 50000),
        ({"t-topic": Reply(body=b"", headers={"Content-Type": ""}), "ns": Reply(body=b""),
          "runtime": Reply(403, {"reason": "no superuser"})}, None),
    ],
)  # fmt: skip
def test_the_unacked_limit_that_holds_is_the_topics_the_namespaces_or_the_brokers(lists, limit):
    names = {
        "/admin/v2/persistent/t/n/x/maxUnackedMessagesOnConsumer?applied=true": "t-topic",
        "/admin/v2/namespaces/t/n/maxUnackedMessagesPerConsumer": "ns",
        "/admin/v2/brokers/configuration/runtime": "runtime",
    }
    with serving(lambda asked: lists[names[asked.path]]) as broker:
        assert limit == ask(
            broker.url, lambda admin: admin.unacked_limit("t/n/x-partition-3", "consumer")
        )


def test_the_limit_of_a_topic_that_is_not_there_is_not_guessed():
    with always(Reply(404, {"reason": "Topic not found"})) as broker:
        refusal(NotFound, broker.url, lambda admin: admin.unacked_limit("x", "subscription"))


def test_how_many_ranges_survive_is_the_brokers_and_is_asked_once():
    async def thrice(admin: Admin) -> list[int | None]:
        return [await admin.unacked_ranges_limit() for _ in range(3)]

    runtime = {"managedLedgerMaxUnackedRangesToPersist": "10000", "brokerId": "x"}
    with always(Reply(document=runtime)) as broker:
        assert ask(broker.url, thrice) == [10000] * 3
    assert [asked.path for asked in broker.asked] == ["/admin/v2/brokers/configuration/runtime"]


@pytest.mark.parametrize(
    "reply", [Reply(403, {"reason": "no superuser"}), Reply(404, {}), Reply(document={}),
              Reply(document=[1]), Reply(document={"managedLedgerMaxUnackedRangesToPersist": ""})]
)  # fmt: skip
def test_how_many_ranges_survive_is_not_guessed(reply):
    with always(reply) as broker:
        assert ask(broker.url, lambda admin: admin.unacked_ranges_limit()) is None


def test_a_broker_that_fails_to_tell_its_configuration_is_asked_again():
    async def twice(admin: Admin) -> int | None:
        with pytest.raises(BrokerFailed):
            await admin.unacked_ranges_limit()
        return await admin.unacked_ranges_limit()

    runtime = Reply(document={"managedLedgerMaxUnackedRangesToPersist": 7})
    left = [Reply(500, {"reason": "busy"})] * 3
    with serving(lambda asked: left.pop() if left else runtime) as broker:
        assert ask(broker.url, twice) == 7


def test_a_number_of_partitions_below_0_is_refused():
    with always(Reply(document={"partitions": -5})) as broker:
        why = "the partitions of persistent://t/n/x: -5 are reported, which is impossible"
        with pytest.raises(DoctorError, match=why):
            ask(broker.url, lambda admin: admin.partitions("t/n/x"))


def test_ledgers_of_all_partitions_come_in_one_answer():
    told = {"partitions": {"persistent://t/n/x-partition-0": {}}}
    with always(Reply(document=told)) as broker:
        answer = ask(broker.url, lambda admin: admin.partitioned_internal_stats("t/n/x"))
    assert answer.document == told
    assert [asked.path for asked in broker.asked] == [
        "/admin/v2/persistent/t/n/x/partitioned-internalStats"
    ]


# The real broker


@pytest.mark.parametrize(
    "odd", ["", " with space", "-größe", "%2F", "+plus", "/slash", "?a=b&c#d;"]
)
def test_a_real_topic_is_read_whatever_its_name(broker, client, topic, odd):
    name = topic + odd
    producer = client.create_producer(name)
    producer.send(b"one")

    async def read(admin: Admin) -> tuple[Any, Any, int | None]:
        return (
            await admin.topic_stats(name, precise_backlog=True),
            await admin.internal_stats(name),
            await admin.partitions(name),
        )

    told, internal, partitions = ask(broker.admin_url, read)
    producer.close()
    assert told.document["msgInCounter"] == 1
    assert abs(told.broker_clock_ms - time.time() * 1000) < 5000
    assert internal.document["entriesAddedCounter"] == 1
    assert partitions is None


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
def test_a_real_topic_with_partitions_is_read_whole_and_in_parts(
    broker, admin, client, topic, domain
):
    name = f"{domain}{topic.removeprefix('persistent')}"
    admin.put(f"/admin/v2/{topic_name(name).path}/partitions", json=3).raise_for_status()
    producer = client.create_producer(name)

    async def read(admin: Admin) -> tuple[Any, ...]:
        return (
            await admin.partitions(name),
            await admin.partitioned_stats(name),
            await admin.topic_stats(f"{name}-partition-2"),
            await admin.topics("public/default"),
            await admin.unacked_limit(f"{name}-partition-2", "consumer"),
            await admin.partitioned_internal_stats(name),
            await admin.unacked_ranges_limit(),
        )

    count, whole, part, topics, limit, ledgers, ranges = ask(broker.admin_url, read)
    producer.close()
    assert count == 3
    assert sorted(whole.document["partitions"]) == [f"{name}-partition-{n}" for n in range(3)]
    assert "subscriptions" in part.document
    assert f"{name}-partition-2" in topics.topics
    assert name in topics.partitioned
    assert (limit, ranges) == (50000, 10000)
    assert ledgers.document["partitions"].keys() == whole.document["partitions"].keys()

    with pytest.raises(NotFound, match="does not have the stats of"):
        ask(broker.admin_url, lambda admin: admin.topic_stats(name))


def test_a_real_cluster_lists_its_tenants_namespaces_and_brokers(broker):
    async def read(admin: Admin) -> tuple[Any, ...]:
        return await admin.tenants(), await admin.namespaces("public"), await admin.brokers()

    tenants, namespaces, brokers = ask(broker.admin_url, read)
    assert "public" in tenants
    assert "public/default" in namespaces
    assert brokers == [broker.admin_url.removeprefix("http://")]


@pytest.mark.parametrize(
    "question",
    [
        lambda admin: admin.topic_stats("nobody-made-this"),
        lambda admin: admin.topic_stats("public/nowhere/x"),
        lambda admin: admin.partitions("nobody-made-this"),
        lambda admin: admin.partitioned_stats("nobody-made-this"),
        lambda admin: admin.topics("public/nowhere"),
        lambda admin: admin.namespaces("nobody"),
        lambda admin: admin.unacked_limit("nobody-made-this", "consumer"),
    ],
)
def test_what_a_real_broker_does_not_have_is_not_found(broker, question):
    assert " does not have " in refusal(NotFound, broker.admin_url, question)


def test_a_real_brokers_binary_port_is_told_from_its_rest_api(broker):
    url = broker.service_url.replace("pulsar:", "http:")
    with pytest.raises(AdminError, match=r"does not speak HTTP|closed the connection"):
        ask(url, stats)


def test_a_real_brokers_limits_are_its_policies(broker, admin, client, topic):
    client.create_producer(topic).close()

    async def limit(admin: Admin) -> int | None:
        return await admin.unacked_limit(topic, "consumer")

    assert ask(broker.admin_url, limit) == 50000
    path = f"/admin/v2/{topic_name(topic).path}/maxUnackedMessagesOnConsumer"
    admin.post(path, json=21).raise_for_status()
    for _ in range(50):  # a policy goes by way of a topic of its own
        if ask(broker.admin_url, limit) == 21:
            return
        time.sleep(0.1)
    pytest.fail("the policy did not come")


def test_a_real_brokers_loaded_topics_are_read(broker):
    async def read(admin: Admin) -> list[Any]:
        return [topic async for topic in admin.loaded_topics()]

    for loaded in ask(broker.admin_url, read):  # none in its first minute
        assert loaded.topic.startswith(f"{loaded.kind}://{loaded.namespace}/")
        assert "subscriptions" in loaded.stats


@pytest.mark.slow
def test_a_real_topic_is_among_the_loaded_ones_within_its_minute(broker, client, topic):
    producer = client.create_producer(topic)

    async def read(admin: Admin) -> set[str]:
        return {loaded.topic async for loaded in admin.loaded_topics()}

    until = time.monotonic() + 75
    while topic not in ask(broker.admin_url, read):
        assert time.monotonic() < until
        time.sleep(1)
    producer.close()
