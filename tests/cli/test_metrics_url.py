"""stall-check --metrics: one broker's metrics, and nothing else of the cluster."""

from __future__ import annotations

import gzip
import json
from contextlib import AbstractContextManager
from pathlib import Path
from shlex import quote

import pytest

from pulsar_doctor.broker.scraping import BUFFERED
from tests.broker.http_broker import Asked, HttpBroker, Reply, serving
from tests.cli.checked import QUICK, SECRET, Check, check

__all__ = ["check"]  # a fixture

FOLDER = Path(__file__).parents[1] / "broker" / "metrics"
FIRST, SECOND = (gzip.decompress((FOLDER / f"scrape-{n}.txt.gz").read_bytes()) for n in (0, 1))
TEXT = "text/plain"


def answering(*bodies: bytes) -> AbstractContextManager[HttpBroker]:
    """Each in turn, the last again and again."""
    left = list(bodies)
    return serving(
        lambda _: Reply(body=left.pop(0) if len(left) > 1 else left[0], content_type=TEXT)
    )


def test_only_the_metrics_are_read_and_three_times(check: Check) -> None:
    with answering(FIRST, SECOND, SECOND + b"\n") as broker:
        found = check(broker, "--metrics", f"{broker.url}/metrics/", *QUICK, "-o", "json")
        assert [each.path for each in broker.asked] == ["/metrics/"] * 3
    statuses = found.statuses
    assert (found.code, statuses["logs-healthy-idle"]) == (3, "healthy")
    assert statuses["logs-permits-exhausted-shared-hung"] == "unknown"
    assert found.document["source"] == "files"


def test_metrics_that_are_the_same_each_time_are_buffered(check: Check) -> None:
    with answering(FIRST) as broker:
        found = check(broker, "--metrics", f"{broker.url}/metrics/", *QUICK, "-o", "json")
    assert BUFFERED in found.err
    assert "--at" not in found.err


def test_a_redirect_to_the_same_address_is_followed_and_no_other(check: Check) -> None:
    def answer(request: Asked) -> Reply:
        if request.path == "/metrics":
            return Reply(302, body=b"", headers={"Location": "/metrics/"})
        if request.path == "/elsewhere":
            return Reply(302, body=b"", headers={"Location": "http://127.0.0.1:1/metrics/"})
        return Reply(body=FIRST, content_type=TEXT)

    with serving(answer) as broker:
        asked = "--metrics", f"{broker.url}/metrics", "--window", "0s"
        assert check(broker, *asked).code == 3
        found = check(broker, "--metrics", f"{broker.url}/elsewhere", "--window", "0s")
        assert found.sentence() == ("redirected to http://127.0.0.1:1: no request was sent there")
        assert [each.path for each in broker.asked] == ["/metrics", "/metrics/", "/elsewhere"]


def test_credentials_are_sent_to_the_address_of_the_cluster_alone(check: Check) -> None:
    with answering(FIRST) as broker, answering(FIRST) as other:
        for each in (broker, other):
            check(broker, "--metrics", f"{each.url}/metrics/", "--window", "0s")
        assert [each.headers.get("authorization") for each in broker.asked] == [f"Bearer {SECRET}"]
        assert [each.headers.get("authorization") for each in other.asked] == [None]


def test_what_is_no_metrics_is_said_in_one_sentence(check: Check) -> None:
    with answering(b"<html>login</html>\n") as broker:
        asked = "--metrics", f"{broker.url}/metrics/", "--window", "0s"
        found = check(broker, *asked)
        assert found.code == 3
        assert found.sentence() == f"what {broker.url} answers is not the metrics of a broker"
    with answering(b'pulsar_topics_count{cluster="c"} 1\n') as broker:
        found = check(broker, "--metrics", f"{broker.url}/metrics/", "--window", "0s")
        assert found.code == 2
        assert "exposeTopicLevelMetricsInPrometheus" in found.sentence()


def test_topics_that_are_not_there_any_more_leave_the_verdict_incomplete(check: Check) -> None:
    rows = [row for row in SECOND.splitlines(True) if b"logs-no-consumer" not in row]
    with answering(FIRST, SECOND, b"".join(rows)) as broker:
        found = check(broker, "--metrics", f"{broker.url}/metrics/", *QUICK, "-o", "json")
    assert "has 1 topic less than before" in found.document["unreachable"][0]["reason"]


def test_statistics_of_a_topic_count_before_the_metrics_of_its_broker(
    check: Check, tmp_path: Path
) -> None:
    stats = json.loads(gzip.decompress((FOLDER / "statistics.json.gz").read_bytes()))
    (tmp_path / "metrics.txt").write_bytes(FIRST)
    metrics, file = str(tmp_path / "metrics.txt"), str(tmp_path / "stats.json")
    alone = check(None, "--stats", metrics, "-o", "json")
    topics = [each["topic"] for each in alone.document["subscriptions"]]
    (topic,) = (each for each in topics if "healthy-idle" in each)
    document = {topic: stats["healthy-idle"][0]["stats"]}
    (tmp_path / "stats.json").write_text(json.dumps(document), "utf-8")
    both = check(None, "--stats", file, "--stats", metrics, "-o", "json")
    assert sorted(each["topic"] for each in both.document["subscriptions"]) == sorted(topics)
    assert both.statuses == alone.statuses | {topic.rpartition("/")[2]: "healthy"}


@pytest.mark.parametrize("path", ["/metrics/", "/metrics/;all"])
def test_its_lines_read_the_metrics_again_and_it_offers_nothing_that_is_refused(
    check: Check, path: str
) -> None:
    with answering(FIRST) as broker:
        url = f"{broker.url}{path}"
        found = check(broker, "--metrics", url, *QUICK)
        lines = [line for line in found.out.splitlines() if "pulsar-doctor stall-check" in line]
    assert lines, found.out
    assert [line for line in lines if f" --metrics {quote(url)}" not in line] == []
    assert "--save" not in found.out


def test_what_metrics_cannot_do_is_refused(check: Check) -> None:
    with answering(FIRST) as broker:
        for more in ("--watch", "--decide", "--all"):
            assert check(broker, "--metrics", broker.url, more).code == 2
        for url in ("http://user:word@127.0.0.1:1/", f"{broker.url}/?k={SECRET}", "ftp://a", "x,y"):
            found = check(broker, "--metrics", url)
            assert (found.code, SECRET in found.err, "word" in found.err) == (2, False, False)
        assert not broker.asked
