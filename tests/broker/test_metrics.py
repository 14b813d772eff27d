"""A broker's metrics as statistics, held against what it reported over REST at the same moment.

tests/broker/metrics/ was recorded on 4.0.8 with consumers one by one, two scrapes 11 s apart.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.broker.admin.segments import composed
from pulsar_doctor.broker.scrapes import scrapes_in
from pulsar_doctor.broker.stats import metrics
from pulsar_doctor.broker.stats.fields import decoded
from pulsar_doctor.broker.stats.metrics import MetricsReader, Places, document, missing
from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.reading import topic_stats
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.errors import InputError
from tests.made.metrics import metrics_of
from tests.made.states import FOLDER, RECORDED, judged, recorded

REAL = Path(__file__).with_name("metrics")
# Nothing moved in these between the scrape and the statistics.
STILL = (
    "blocked-on-unacked-consumer", "delayed-messages", "healthy-idle", "inactive-failover",
    "negative-permits", "no-consumer", "permits-exhausted-exclusive-hung",
    "permits-exhausted-shared-hung",
)  # fmt: skip
TOPIC = 'cluster="c",namespace="public/default",topic="persistent://public/default/t"'


def real(name: str) -> str:
    return gzip.decompress((REAL / name).read_bytes()).decode()


def scrape(text: str) -> dict[str, Places]:
    reader = MetricsReader()
    reader.feed(text.encode())
    [found] = reader.scrapes
    return found


def the_document(text: str) -> dict[str, Any]:
    [(topic, places)] = scrape(text).items()
    return document(topic, places)


def line(name: str, value: object, more: str = "") -> str:
    return f"pulsar_{name}{{{TOPIC}{more}}} {value}\n"


def subscription(name: str, value: object) -> str:
    return line(name, value, ',subscription="s"')


@pytest.mark.parametrize("name", STILL)
def test_metrics_of_a_real_broker_are_its_statistics(name: str) -> None:
    stats = json.loads(real("statistics.json.gz"))[name][0]["stats"]
    found = scrape(real("scrape-0.txt.gz"))
    [topic] = [each for each in found if each.removesuffix("-partition-0").endswith(name)]
    made = scrape(metrics_of({topic: stats}, consumers=True))
    assert without_numbers(document(topic, found[topic])) == without_numbers(
        document(topic, made[topic])
    )
    assert missing(found[topic]) == 0


def without_numbers(of: dict[str, Any]) -> dict[str, Any]:
    for each in of["subscriptions"].values():
        each["consumers"].sort(key=lambda one: one["consumerName"])
        for one in each["consumers"]:
            del one["consumerId"]  # which statistics do not have
    return of


def sample(line_of_save: dict[str, Any], *, consumers: bool) -> Sample:
    topic = line_of_save["topic"]
    text = metrics_of({topic: line_of_save["stats"]}, consumers=consumers)
    return Sample(line_of_save["taken_ms"], topic_stats(document(topic, scrape(text)[topic])))


@pytest.mark.parametrize(
    ("version", "consumers"), [("3.3.5", True), ("4.0.8", True), ("4.0.8", False)]
)
def test_metrics_of_a_recorded_state_are_no_better_than_its_statistics(
    version: str, *, consumers: bool
) -> None:
    found: list[tuple[str, str, str]] = []
    for name in [state for of, state in RECORDED if of == version]:
        whole = recorded(version, name)
        packed = (FOLDER / version / f"{name}.jsonl.gz").read_bytes()
        saved = map(json.loads, gzip.decompress(packed).splitlines())
        samples = tuple(sample(each, consumers=consumers) for each in saved if "stats" in each)
        for by_metrics, by_stats in ((samples, whole), (samples[-1:], last_of(whole))):
            seen = replace(by_stats, window=Window(by_metrics))
            found.append((name, judged(name, by_stats).status, judged(name, seen).status))
    assert [each for each in found if each[1] != "healthy" and each[2] == "healthy"] == []
    assert [each for each in found if each[1] == "healthy" and each[2] == "stalled"] == []
    stalls = [each for each in found if each[1:] == ("stalled", "stalled")]
    assert len(stalls) >= (18 if consumers else 0)


def last_of(observed: Observed) -> Observed:
    return replace(observed, window=Window(observed.window.samples[-1:]))


def test_a_zero_that_counts_nothing_is_not_reported() -> None:
    text = subscription("subscription_unacked_messages", 0)
    exclusive = the_document(text + subscription("subscription_consumers_count", 1))
    nobody = the_document(text + subscription("subscription_consumers_count", 0))
    assert "unackedMessages" not in exclusive["subscriptions"]["s"]
    assert "consumers" not in exclusive["subscriptions"]["s"]
    assert nobody["subscriptions"]["s"] == {"unackedMessages": 0, "consumers": []}


@pytest.mark.parametrize(
    ("acked", "moved", "size", "believed"),
    [(5, 5, 0, True), (5, 6, 0, True), (6, 5, 0, False), (5, 5, 9, False), (None, 5, 0, False)],
)
def test_a_backlog_of_0_is_believed_where_nothing_is_left_behind(
    acked: int | None, moved: int, size: int, *, believed: bool
) -> None:
    text = subscription("subscription_back_log", 0) + line("storage_backlog_size", size)
    text += subscription("subscription_last_mark_delete_advanced_timestamp", moved)
    if acked is not None:
        text += subscription("subscription_last_acked_timestamp", acked)
    assert ("msgBacklog" in the_document(text)["subscriptions"]["s"]) is believed


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "1e400", "abc", "9" * 39])
def test_what_is_no_number_is_not_reported(value: str) -> None:
    assert the_document(subscription("subscription_back_log", value))["subscriptions"] == {"s": {}}


def test_numbers_with_an_exponent_and_moments_behind_them_are_read() -> None:
    text = subscription("subscription_back_log", "1.795957019511E12 1795957019511")
    assert the_document(text)["subscriptions"]["s"] == {"msgBacklog": 1_795_957_019_511}


def test_a_backslash_that_the_broker_did_not_escape_costs_one_line() -> None:
    reader = MetricsReader()
    odd = line("subscription_back_log", 3, ',subscription="a\\"')
    reader.feed((odd + subscription("subscription_back_log", 4)).encode())
    [[places]] = [scrape.values() for scrape in reader.scrapes]
    assert [place.subscription for place in places] == ["s"]
    assert reader.unread == 1


def test_rates_of_a_segment_are_not_those_of_metrics() -> None:
    numbers = {"s": {"msgDropRate": 0.5, "msgRateExpired": 0.25, "msgBacklog": 3.0}}
    found = composed(numbers, None, None, 0)["subscriptions"]["s"]
    assert found == {"msgBacklog": 3, "blockedSubscriptionOnUnackedMsgs": False}


def test_two_scrapes_in_one_text_are_two_samples() -> None:
    first, second = real("scrape-0.txt.gz"), real("scrape-1.txt.gz")
    samples = scrapes_in(first + second, "both.txt")
    alone = [scrapes_in(text, "both.txt") for text in (first, second)]
    assert [each.samples for each in samples] == [each.samples for [each] in alone]


def test_a_value_that_is_written_twice_is_not_reported() -> None:
    of_one, of_other = (subscription("subscription_back_log", value) for value in (3, 4))
    assert the_document(of_one + of_other)["subscriptions"]["s"] == {}


def test_the_date_of_an_answer_is_when_it_was_taken() -> None:
    head = "HTTP/1.1 200 OK\r\nDate: Sun, 29 Nov 2026 13:08:02 GMT\r\n\r\n"
    [plain] = scrapes_in(head + real("scrape-0.txt.gz"), "curl.txt")
    assert {each.taken_ms for each in plain.samples.values()} == {1_795_957_682_000}


def test_text_that_ends_within_a_line_is_incomplete() -> None:
    text = real("scrape-0.txt.gz")
    at = text.index("pulsar_subscription_back_log{")
    [plain] = scrapes_in(text[: text.index("} ", at) + 3], "cut.txt")
    assert plain.incomplete[0] == "cut.txt is cut off within its last line"


def test_subscriptions_that_a_topic_counts_and_no_line_is_about_are_incomplete() -> None:
    text = line("subscriptions_count", 3) + subscription("subscription_back_log", 1)
    [plain] = scrapes_in(text, "m.txt")
    assert plain.incomplete == ("m.txt counts 2 subscriptions more than it has lines of",)


def test_metrics_without_topics_say_which_setting_that_may_be() -> None:
    text = 'pulsar_subscriptions_count{cluster="c",namespace="public/default"} 3\n'
    with pytest.raises(InputError, match="exposeTopicLevelMetricsInPrometheus"):
        scrapes_in(text, "m.txt")


def test_more_scrapes_or_names_than_anybody_has_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    two = line("rate_in", 1) + subscription("subscription_back_log", 1)
    with pytest.raises(InputError, match="there are more than 1,000 scrapes"):
        scrapes_in(two * 1_001, "m.txt")
    monkeypatch.setattr(metrics, "NAMES_MOST", 2)
    with pytest.raises(InputError, match="more topics are named than a broker has"):
        scrapes_in(two.replace('"s"', '"other"') + two, "m.txt")


def changed(text: str, random: random.Random) -> Iterator[str]:
    """A text as people send it: cut, doubled, mixed, with other ends of lines."""
    rows = text.splitlines(keepends=True)
    cut = random.randrange(len(text))
    yield text[:cut]
    yield text[cut:]
    yield text + text[:cut]
    yield "".join(random.sample(rows, len(rows)))
    yield "".join(random.sample(rows, len(rows) // 2))
    yield text.replace("\n", "\r\n")
    at = random.randrange(len(rows))
    yield "".join([*rows[:at], rows[at][::-1], *rows[at + 1 :]])
    yield text[:cut] + chr(random.randrange(1, 0x3000)) + text[cut + 1 :]


@pytest.mark.parametrize("seed", range(12))
def test_changed_texts_are_no_better_than_the_whole(seed: int) -> None:
    name = "permits-exhausted-shared-hung"
    stats = decoded(real("statistics.json.gz"))
    texts = {f"persistent://public/default/{each}": stats[each][0]["stats"] for each in STILL}
    text = metrics_of(texts, consumers=True)
    healthy = healthy_of(text, name)
    assert healthy == {"persistent://public/default/healthy-idle"}
    for other in changed(text, random.Random(seed)):
        assert healthy_of(other, name) <= healthy


def healthy_of(text: str, name: str) -> set[str]:
    try:
        *_, plain = scrapes_in(text, "m.txt")
    except InputError:
        return set()
    return {
        topic
        for topic, sample in plain.samples.items()
        for subscription in sample.topic.subscriptions or {}
        if judged(name, Observed(topic, None, subscription, Window((sample,)))).status == "healthy"
    }
