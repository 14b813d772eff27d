"""A scalable topic from the command line, by what a real broker (5.0.0-M1) reported of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.broker.admin import segments
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.cli import run
from pulsar_doctor.errors import InputError
from pulsar_doctor.parts.consume.engines import Plan
from pulsar_doctor.parts.consume.visiting.presence import look
from tests.broker.http_broker import Reply, serving
from tests.cli.checked import QUICK, TOKEN, Check, check
from tests.scalable.replaying import STATES, Replay, recorded, replayed

__all__ = ["check"]  # a fixture
pytestmark = pytest.mark.usefixtures("each_reading_is_new")

ORDERS = "topic://public/default/orders"
STUCK = "queue-takes-nothing"


def codes(told: Any) -> dict[str, tuple[str, list[str]]]:
    """The verdict on each segment, by its number."""
    return {
        one["topic"].rpartition("-")[2]: (
            one["status"],
            [found["code"] for found in one["findings"]],
        )
        for one in told.document["subscriptions"]
    }


@pytest.mark.parametrize("name", [ORDERS, "orders", "public/default/orders"])
def test_one_verdict_is_on_the_whole_and_names_the_segments(check: Check, name: str) -> None:
    with replayed(STUCK) as broker:
        told = check(broker, name)
    assert told.code == 1
    headline = f"billing on {ORDERS}, all 2 segments; cause: not-acknowledging of worker-seg-0"
    assert headline in told.out
    assert "segment 0: worker-seg-0 holds at least 260 messages" in told.out
    assert "500 entries in all segments" in told.out


@pytest.mark.parametrize("state", sorted(each.stem for each in STATES.glob("*.json")))
def test_what_is_saved_of_all_segments_is_judged_as_it_was(
    check: Check, tmp_path: Path, state: str
) -> None:
    saved, topic = str(tmp_path / "all.gz"), f"topic://public/default/{recorded(state)['topic']}"
    with replayed(state) as broker:
        live = check(broker, topic, "-o", "json", "--save", saved)
    again = check(None, "--stats", saved, "-o", "json")
    assert again.out, again.err
    assert (codes(again), again.code) == (codes(live), live.code)
    wholes = [
        [(one["subscription"], one["status"]) for one in told.document["scalable_topics"]]
        for told in (live, again)
    ]
    assert wholes[0] == wholes[1]


def test_json_has_each_segment_and_the_consumer_as_one(check: Check) -> None:
    with replayed(STUCK) as broker:
        told = check(broker, ORDERS, "-o", "json")
    [whole] = told.document["scalable_topics"]
    assert (whole["topic"], whole["subscription"], whole["status"]) == (
        ORDERS,
        "billing",
        "stalled",
    )
    assert (whole["segment"], whole["cause"]) == (0, "not-acknowledging")
    assert [each["hash_range"] for each in whole["segments"]] == [[0, 32767], [32768, 65535]]
    assert {each["state"] for each in whole["segments"]} == {"active"}
    assert whole["consumers"] == [
        {"consumer": "worker", "segments": [0, 1], "available_permits": 150,
         "unacked_messages": 500}
    ]  # fmt: skip
    assert [each["topic"] for each in told.document["subscriptions"]] == [
        "segment://public/default/orders/0000-7fff-0",
        "segment://public/default/orders/8000-ffff-1",
    ]


def test_consumers_of_all_segments_are_in_one_table(check: Check) -> None:
    with replayed("segment-without-consumer") as broker:
        lines = check(broker, "shop2", "--consumers").out.splitlines()
    _, *tables = "\n".join(line for line in lines if "──" not in line).split("\nconsumers of ")
    first = {
        table[0]: [row.split()[0] for row in table[1:] if row]
        for table in (each.splitlines() for each in tables)
    }
    assert first == {
        "mail on all segments of topic://public/default/shop2": [
            "consumer", "mail-worker-seg-1", "mail-worker-seg-2", "mail-worker-seg-3"
        ],
        "billing on all segments of topic://public/default/shop2": [
            "consumer", "billing-worker-seg-1"
        ],
        "billing on segment://public/default/shop2/0000-3fff-2": ["no"],  # consumer is attached
        "billing on segment://public/default/shop2/4000-7fff-3": ["no"],
    }  # fmt: skip


def test_a_bundle_gives_the_verdict_on_the_whole_again(check: Check, tmp_path: Path) -> None:
    path = str(tmp_path / "incident.tar.gz")
    with replayed(STUCK) as broker:
        told = check(broker, ORDERS, "-o", "json")
        assert run(["bundle", ORDERS, "--admin-url", broker.url, *TOKEN, *QUICK, "-o", path]) == 0
    check(None, "--help")  # takes what was printed
    again = check(None, "--case", path, "-o", "json")
    assert again.document["scalable_topics"] == told.document["scalable_topics"]


def test_a_healthy_one_is_one_line(check: Check) -> None:
    with replayed("healthy-queue") as broker:
        told = check(broker, "quick", "--window", "1s", "--interval", "1s")
    assert told.code == 0
    assert "HEALTHY  mail (Shared) on topic://public/default/quick, 4 segments" in told.out
    assert told.out.count("HEALTHY") == 1


def test_a_namespace_includes_its_scalable_topics(check: Check) -> None:
    with replayed(STUCK) as broker:
        told = check(broker, "--namespace", "public/default", "-o", "json")
    assert codes(told) == {"0": ("stalled", ["not-acknowledging"]),
                           "1": ("stalled", ["not-acknowledging"])}  # fmt: skip


def test_permits_that_may_have_changed_since_the_list_are_not_reported(check: Check) -> None:
    told = recorded(STUCK)
    for reading in told["readings"]:  # it asked for more a second ago
        reading["metrics"] = [
            f"{line.rpartition(' ')[0]} {reading['date_ms'] - 1000}"
            if line.startswith("pulsar_subscription_last_consumed_flow_timestamp")
            else line
            for line in reading["metrics"]
        ]
    with serving(Replay(told)) as broker:
        document = check(broker, ORDERS, "-o", "json").document
    for each in document["subscriptions"]:
        [consumer] = each["consumers"]
        assert consumer["available_permits"] is None
        assert consumer["unacked_messages"] in (260, 240)  # by the metrics: it is the only consumer


def test_a_consumer_that_came_or_left_since_the_list_makes_consumers_unreported(
    check: Check,
) -> None:
    told = recorded(STUCK)
    for reading in told["readings"]:
        reading["metrics"] = [
            line[:-1] + "2" if line.startswith("pulsar_subscription_consumers_count") else line
            for line in reading["metrics"]
        ]
    with serving(Replay(told)) as broker:
        document = check(broker, ORDERS, "-o", "json").document
    assert [each["consumers"] for each in document["subscriptions"]] == [None, None]
    assert document["scalable_topics"][0]["consumers"] is None


def test_eight_segments_cost_what_one_costs(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "NOW_SECONDS", 60.0)
    with replayed("healthy-queue") as broker:
        check(broker, "topic://public/default/quick", "-o", "json")
    asked = Counter(each.path.partition("?")[0] for each in broker.asked)
    assert (asked["/metrics/"], asked["/admin/v2/broker-stats/topics"]) == (1, 1)
    assert {each.method for each in broker.asked} == {"GET"}


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("topic://public/default/other", "there is no scalable topic topic://public/default/other"),
        ("othre", "there is no topic persistent://public/default/othre"),
        ("segment://public/default/orders/0000-7fff-7", "no broker has loaded segment://"),
    ],
)
def test_what_is_not_there_is_said(check: Check, name: str, sentence: str) -> None:
    with replayed(STUCK) as broker:
        told = check(broker, name)
    assert told.code == 3
    assert sentence in told.out + told.err


def test_metrics_that_may_be_old_leave_a_segment_unread(check: Check) -> None:
    told = recorded(STUCK)
    told["configuration"]["metricsBufferResponse"] = "true"
    with serving(Replay(told)) as broker:
        checked = check(broker, ORDERS)
    assert checked.code == 3
    assert "metricsBufferResponse is true" in checked.err + checked.out


def test_an_older_broker_has_no_scalable_topic(check: Check) -> None:
    with serving(lambda asked: Reply(404, {"reason": "HTTP 404 Not Found"})) as broker:
        assert check(broker, ORDERS).code == 3


def test_no_segment_is_asked_for_by_itself_and_none_is_loaded(check: Check) -> None:
    with replayed(STUCK) as broker:
        check(broker, ORDERS)
    assert [each for each in broker.asked if "/segments/" in each.path] == []


@pytest.mark.parametrize("topic", [ORDERS, "segment://public/default/orders/0000-7fff-0"])
def test_consume_and_produce_refuse_a_scalable_topic(topic: str) -> None:
    with (
        replayed(STUCK) as broker,
        pytest.raises(InputError, match="is for clients of Pulsar 5"),
    ):
        look(Settings(admin_url=broker.url, sandbox=True), Plan("consumer", topic, "billing"))
    assert [each for each in broker.asked if "brokers" not in each.path] == []
