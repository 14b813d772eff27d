"""What goes wrong while a broker is examined: one sentence, the right code, the rest is kept."""

from __future__ import annotations

import base64
import gzip
import json
import resource
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.broker.admin import Admin
from pulsar_doctor.report.stall_check.formats import FORMATS
from tests.broker.http_broker import DATE_MS, Asked, Reply, serving
from tests.broker.replayed import GONE, HEALTHY, HOME, MOVING, STUCK, cluster, states, stuck
from tests.cli.checked import QUICK, SECRET, TOKEN, Check, check
from tests.support.command_line import environment

__all__ = ["check"]  # a fixture

BAD = f"{HOME}bad"
HEALTHY_SUBSCRIPTION = '"never":{'
CUT = Reply(body=b"{}", cut=True)


def with_field(**fields: Any) -> Reply:
    """Stats of a subscription with these fields, as no broker writes them."""
    return Reply(document={"subscriptions": {"s": {"type": "Shared", **fields}}})


# What the broker answers for the stats of one topic, and what the sentence says of it.
FAULTS = {
    "a web page": (
        Reply(404, body=b"<html>no</html>", content_type="text/html"),
        "a web page answers at {url} (404), not the REST API of a broker, or of one too old for "
        "this; see --admin-url",
    ),
    "a web page with 200": (
        Reply(body=b"<html>hello</html>", content_type="text/html"),
        "a web page answers at {url} (200)",
    ),
    "401": (
        Reply(401, {"reason": f"Bearer {SECRET} is wrong"}),
        "{url} does not accept these credentials (401); see --auth-params",
    ),
    "403": (
        Reply(403, {"reason": f"no right for {SECRET}"}),
        "these credentials may not read the stats of {bad} (no right for ***); ask for a role",
    ),
    "404": (GONE, "{url} does not have the stats of {bad} (Topic not found)"),
    "500 always": (
        Reply(500, {"reason": "\n --- An unexpected error occurred ---\n\nMessage: no bookie\n"}),
        "{url} failed with 500 when asked for the stats of {bad} (",
    ),
    "garbage": (
        Reply(body=b'{"subscriptions": {'),
        "what {url} says of the stats of {bad} is not JSON: ",
    ),
    "no text at all": (Reply(body=b"\xff\xfe\x00"), "says of the stats of {bad} is not JSON: "),
    "a list": (Reply(document=[1]), "the stats of {bad} is not an object"),
    "nothing": (Reply(document=None), "the stats of {bad} is not an object"),
    "text for a number": (with_field(msgBacklog="many"), "{bad}: subscriptions.s.msgBacklog"),
    "a number for a list": (with_field(consumers=3), "{bad}: subscriptions.s.consumers"),
    "an answer that is cut off": (CUT, "closed the connection while asked for the stats of {bad}"),
}


@pytest.fixture(params=FAULTS)
def fault(request: pytest.FixtureRequest) -> tuple[Reply, str]:
    return FAULTS[request.param]


def expected(sentence: str, url: str) -> str:
    return sentence.format(url=url, bad=BAD)


def test_a_topic_that_cannot_be_read_is_one_sentence(
    check: Check, fault: tuple[Reply, str]
) -> None:
    reply, sentence = fault
    with cluster({"bad": [reply]}) as broker:
        told = check(broker, "bad")
        assert (told.code, told.out) == (3, "")
        assert expected(sentence, broker.url) in told.sentence()
        told = check(broker, "bad", "-o", "json")
        assert told.code == 3
        assert told.document["subscriptions"] == []
        assert told.document["unreachable"][0]["topic"] == BAD
        assert expected(sentence, broker.url) in told.sentence()
        assert told.unreachable["bad"] in told.sentence()


def test_one_bad_topic_does_not_stop_the_good_ones_and_a_stall_still_exits_with_1(
    check: Check, fault: tuple[Reply, str]
) -> None:
    reply, sentence = fault
    with cluster({"good": states(HEALTHY), "bad": [reply], "held": stuck()}) as broker:
        told = check(broker, "good", "bad", "-o", "json")
        assert (told.code, told.statuses) == (3, {"good": "healthy"})
        assert expected(sentence, broker.url) in told.sentence()
        told = check(broker, "good", "bad", "held", "-o", "json")
        assert (told.code, told.statuses) == (1, {"good": "healthy", "held": "stalled"})
        assert list(told.unreachable) == ["bad"]


def test_one_bad_topic_of_a_fleet_does_not_stop_the_others(
    check: Check, fault: tuple[Reply, str]
) -> None:
    reply, sentence = fault
    # Every reading of it fails; what the broker tells of all its topics together is sound.
    topics = {"good": states(HEALTHY), "held": stuck(), "bad": [*[reply] * 99, *states(STUCK)]}
    with cluster(topics) as broker:
        told = check(broker, "--namespace", "public/default", "-o", "json")
        assert (told.code, told.statuses) == (1, {"good": "healthy", "held": "stalled"})
        assert list(told.unreachable) == ["bad"]
        assert expected(sentence, broker.url) in told.sentence()


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_tells_the_good_ones_and_the_bad_one(check: Check, form: str) -> None:
    with cluster({"bad": [Reply(403, {"reason": "no"})], "held": stuck()}) as broker:
        told = check(broker, "bad", "held", "-o", form)
    assert told.code == (2 if form == "nagios" else 1)
    if form != "prometheus":
        assert "may not read the stats of" in told.out
    assert "billing" in told.out
    assert told.err == "" if form == "table" else told.sentence()


# Nothing answers, or something that is no broker


@contextmanager
def closed_port() -> Iterator[str]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@contextmanager
def binary_port() -> Iterator[str]:
    """Says what a broker's binary port says to HTTP: nothing, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def closing() -> None:
            while True:
                try:
                    taken, _ = listening.accept()
                except OSError:
                    return
                with taken:
                    taken.recv(1)

        thread = threading.Thread(target=closing, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


@contextmanager
def web_server() -> Iterator[str]:
    page = Reply(404, body=b"<html>Not Found</html>", content_type="text/html")
    with serving(lambda asked: page) as server:
        yield server.url


WRONG_PLACES = [
    (closed_port, "nothing listens at {url}; is the broker up? See --admin-url"),
    (binary_port, "{url}"),
    (web_server, "a web page answers at {url} (404), not the REST API of a broker"),
]
NAMED = ("orders",)
FLEET = ("--namespace", "public/default")


@pytest.mark.parametrize("which", [NAMED, FLEET, ("--all",)])
@pytest.mark.parametrize(("place", "sentence"), WRONG_PLACES)
def test_where_no_broker_is_the_place_is_named_once(
    check: Check, place: Any, sentence: str, which: tuple[str, ...]
) -> None:
    with place() as url:
        told = check(url, *which)
        assert (told.code, told.out) == (3, "")
        assert sentence.format(url=url) in told.sentence()
        told = check(url, *which, "-o", "json")
        assert told.code == 3
        assert sentence.format(url=url) in told.sentence()
        assert told.out == "" or told.document["subscriptions"] == []


@pytest.mark.parametrize("form", ["table", "json"])
def test_many_topics_of_a_broker_that_is_down_are_one_sentence(check: Check, form: str) -> None:
    with closed_port() as url:
        told = check(url, "a", "b", "c", "-o", form)
        assert told.code == 3
        assert told.sentence() == (
            "persistent://public/default/a, persistent://public/default/b and 1 more could not be "
            f"read: nothing listens at {url}; is the broker up? See --admin-url"
        )
    if form == "json":
        assert list(told.unreachable) == ["a", "b", "c"]
    else:
        assert told.out == ""


def test_sentences_that_differ_are_told_up_to_a_few(check: Check) -> None:
    with cluster({"good": states(HEALTHY)}) as broker:
        told = check(broker, "good", *(f"bad-{n}" for n in range(9)), "-o", "json")
    lines = told.err.splitlines()
    assert len(lines) == 6
    assert lines[-1] == "pulsar-doctor: and 4 more: see -o json"
    assert len(told.unreachable) == 9


@pytest.mark.parametrize("which", [NAMED, FLEET])
def test_a_monitor_gets_a_status_line_also_when_the_broker_is_down(
    check: Check, which: tuple[str, ...]
) -> None:
    with closed_port() as url:
        told = check(url, *which, "-o", "nagios")
        assert told.code == 3
        line = told.out.splitlines()[0]
        assert line.startswith("PULSAR STALL-CHECK UNKNOWN - ")
        assert f"nothing listens at {url}" in line.partition("|")[0]


def test_a_slow_answer_is_a_time_out(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Admin.__init__.__kwdefaults__, "timeout_seconds", 0.2)
    good = states(HEALTHY)

    def slowly(asked: Asked) -> Reply:
        if "/bad/stats" in asked.path:
            time.sleep(0.5)
        return answer(asked)

    with cluster({"good": good, "bad": good, "held": stuck()}) as broker:
        answer, broker.answer = broker.answer, slowly
        told = check(broker, "good", "bad", "held", "-o", "json")
        assert (told.code, told.statuses) == (1, {"good": "healthy", "held": "stalled"})
        assert told.sentence() == f"{broker.url} did not answer for the stats of {BAD} within 0.2s"
        assert check(broker, "good", "bad", "-o", "json").code == 3


# TLS


# Where the server speaks TLS, which scheme is asked for, and what is said then.
TLS = [
    (False, "https", ("does not speak TLS", "use http:// or its TLS port")),
    (True, "http", ("https://",)),
    (True, "https", ("the certificate of {url} is not trusted", "--tls-trust-certs")),
]


@pytest.mark.parametrize("which", [NAMED, FLEET])
@pytest.mark.parametrize(("tls", "scheme", "said"), TLS, ids=["no TLS", "TLS", "not trusted"])
def test_where_tls_fails_it_is_said_and_nothing_is_asked(
    check: Check, server_side: ssl.SSLContext, tls: bool, scheme: str, said: Any, which: Any
) -> None:
    with serving(lambda asked: GONE, tls=server_side if tls else None) as broker:
        url = f"{scheme}://{broker.url.partition('://')[2]}"
        told = check(url, *which)
        assert (told.code, told.out) == (3, "")
        for words in said:
            assert words.format(url=url) in told.sentence()
        assert broker.asked == []


# Credentials


def jwt(expires: int) -> str:
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, {"exp": expires}))
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + ".s"


@pytest.mark.parametrize("which", [NAMED, FLEET])
def test_an_expired_token_is_told_by_the_brokers_clock(
    check: Check, which: tuple[str, ...]
) -> None:
    token = jwt(DATE_MS // 1000 - 60)
    credentials = ("--auth-plugin", "token", "--auth-params", token)
    with serving(lambda asked: Reply(401, {"reason": f"{token} expired"})) as broker:
        told = check(broker, *which, credentials=credentials)
        assert (told.code, told.out) == (3, "")
        assert "the token expired at 2026-11-21 11:55:01 UTC; give " in told.sentence()
        assert token not in told.err


@pytest.mark.parametrize(
    "credentials",
    [
        TOKEN,
        ("--auth-plugin", "basic", "--auth-params", f"ops:{SECRET}"),
        ("--auth-plugin", "org.apache.pulsar.client.impl.auth.AuthenticationToken",
         "--auth-params", f"token:{SECRET}"),
        ("--auth-plugin", "no-such", "--auth-params", SECRET),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["table", "json", "nagios"])
def test_no_credential_is_ever_printed_or_saved(
    check: Check, tmp_path: Path, credentials: tuple[str, ...], form: str
) -> None:
    saved = tmp_path / "samples.gz"

    def repeats(asked: Asked) -> Reply:
        refusal = Reply(403, {"reason": f"not with {asked.headers.get('authorization')}"})
        return refusal if "/bad/" in asked.path else answer(asked)

    with cluster({"good": states(HEALTHY)}) as broker:
        answer, broker.answer = broker.answer, repeats
        more = ("-v", "--save", str(saved), "-o", form)
        told = check(broker, "good", "bad", *more, credentials=credentials)
        assert told.code in (2, 3)
        basic = base64.b64encode(f"ops:{SECRET}".encode()).decode()
        assert basic not in told.out + told.err
    if saved.exists():
        kept = gzip.decompress(saved.read_bytes()).decode()
        assert HEALTHY_SUBSCRIPTION in kept
        assert SECRET not in kept
        assert basic not in kept


def test_a_password_in_the_address_is_not_repeated(check: Check) -> None:
    with closed_port() as url:
        told = check(url.replace("//", "//ops:hunter2@"), "orders", "-o", "json")
    assert told.code in (2, 3)
    assert told.sentence()
    assert "hunter2" not in told.err + told.out


# What happens during the window


def test_a_topic_that_is_deleted_during_the_window(check: Check) -> None:
    held = stuck()
    with cluster({"gone": [held[0], held[0], GONE], "good": states(HEALTHY)}) as broker:
        told = check(broker, "gone", "good", "-o", "json")
    assert (told.code, told.statuses) == (3, {"good": "healthy"})
    assert "was deleted or unloaded during the window" in told.unreachable["gone"]
    assert told.err.splitlines()[-1].startswith(
        f"pulsar-doctor: {HOME}gone: was deleted or unloaded during the window ("
    )


def test_a_broker_that_does_not_come_back_leaves_nothing_healthy(check: Check) -> None:
    with cluster({"orders": [states(HEALTHY)[0], CUT]}) as broker:
        told = check(broker, "orders")
        assert (told.code, told.out) == (3, "")
        assert f"{broker.url} closed the connection" in told.sentence()


def test_a_field_that_turns_wrong_during_the_window(check: Check) -> None:
    with cluster({"orders": [*states(HEALTHY), with_field(msgBacklog="many")]}) as broker:
        told = check(broker, "orders", "-o", "json")
    assert (told.code, told.statuses) == (3, {})
    assert told.sentence().startswith(f"{HOME}orders: subscriptions.s.msgBacklog")


@pytest.mark.parametrize("form", ["json", "table", "nagios"])
def test_a_disk_that_is_full_in_the_middle_of_a_fleet_leaves_a_whole_report(
    tmp_path: Path, form: str
) -> None:
    topics = {f"quiet-{number:02}": states(HEALTHY) for number in range(400)}
    saved = tmp_path / "samples"
    with cluster({**topics, "held": stuck()}) as broker:
        ran = subprocess.run(
            [sys.executable, "-m", "pulsar_doctor", "stall-check", "--all", "-o", form,
             "--admin-url", broker.url, "--save", saved, *QUICK],
            env=environment(), capture_output=True, text=True, timeout=60, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000)),
        )  # fmt: skip
    assert ran.returncode == 3
    assert "cannot write" in (ran.stderr if form == "json" else ran.stdout)
    assert "Traceback" not in ran.stderr
    if form == "json":
        found = json.loads(ran.stdout)
        assert 0 < len(found["subscriptions"]) < 400
        assert [each["topic"] for each in found["unreachable"]] == ["(the rest)"]
        assert "cannot write" in found["unreachable"][0]["reason"]


@pytest.mark.parametrize(
    "wrong",
    [["no//topic"], ["orders", "--auth-plugin", "no-such"], ["--all", "--auth-plugin", "x"]],
)
def test_wrong_usage_does_not_replace_a_file_of_samples(
    check: Check, tmp_path: Path, wrong: list[str]
) -> None:
    saved = tmp_path / "incident.gz"
    with cluster({"good": states(HEALTHY)}) as broker:
        assert check(broker, "good", "--save", str(saved)).code == 0
        before = saved.read_bytes()
        told = check(broker, *wrong, "--save", str(saved))
    assert (told.code, told.out) == (2, "")
    assert told.sentence()
    assert saved.read_bytes() == before


def test_a_disk_that_is_full_at_once_is_one_sentence(check: Check) -> None:
    with cluster({"good": states(HEALTHY)}) as broker:
        told = check(broker, "good", "--save", "/dev/full", "-o", "json")
        assert broker.asked == []
    assert (told.code, told.out) == (3, "")
    assert told.sentence().startswith("cannot write /dev/full: No space left on device; ")


def test_a_broker_that_cannot_be_asked_in_the_middle_of_a_fleet(check: Check) -> None:
    with cluster({"good": states(HEALTHY), "busy": states(MOVING)}, stored=["asleep"]) as broker:
        host = broker.url.removeprefix("http://")
        lists = {"brokers": Reply(document=[host, "127.0.0.1:1"])}
        broker.answer.replies = lists  # type: ignore[attr-defined]
        told = check(broker, "--all", "-o", "json")
    assert told.code == 3
    assert set(told.statuses) == {"good", "busy"}
    assert "may be loaded by a broker that could not be read" in told.unreachable["asleep"]


# The real broker


@pytest.mark.parametrize(
    ("place", "which"),
    [
        ("admin", ("no-such-topic",)),
        ("admin", ("--namespace", "public/nowhere")),
        *((place, which) for place in ("binary", "tls") for which in (NAMED, FLEET)),
    ],
)
def test_a_real_broker_asked_at_the_wrong_place(
    check: Check, broker: Any, place: str, which: tuple[str, ...]
) -> None:
    url = {
        "admin": broker.admin_url,
        "binary": broker.service_url.replace("pulsar:", "http:"),
        "tls": broker.admin_url.replace("http:", "https:"),
    }[place]
    told = check(url, *which, credentials=())
    assert (told.code, told.out) == (3, "")
    assert url in told.sentence()
