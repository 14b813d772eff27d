"""Whole namespaces: what is looked at, what is read by itself, and what is left asleep."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Any
from urllib.parse import unquote

import pytest

from pulsar_doctor.broker.admin import Admin, AdminError, Refused, topic_name
from pulsar_doctor.broker.admin.live_metrics import LIVE
from pulsar_doctor.broker.admin.metrics import topics_in
from pulsar_doctor.broker.admin.segments import numbers_in
from pulsar_doctor.broker.bodies import lines_of
from pulsar_doctor.broker.fleet import Fleet, Scope, is_system
from pulsar_doctor.broker.sampling import SamplingPlan, Unread
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.broker.stats.observed import TopicWindow
from tests.broker.http_broker import Asked, HttpBroker, Reply, serving

SOON = SamplingPlan(window_seconds=0.1, interval_seconds=0.05)
T_N = Scope(namespaces=("t/n",))
NO_RIGHT = Reply(403, {"reason": "not a superuser"})
GONE = Reply(404, {"reason": "not found"})
INTERNAL = {"state": "LedgerOpened", "lastConfirmedEntry": "7:1", "cursors": {}}


def stats(backlog: int = 0) -> dict[str, Any]:
    return {"msgInCounter": 1, "subscriptions": {"s": {"type": "Shared", "msgBacklog": backlog}}}


def tree(topics: Mapping[str, Any]) -> dict[str, Any]:
    """broker-stats/topics of a broker that has loaded these (full name -> stats)."""
    told: dict[str, Any] = {}
    for full, document in topics.items():
        name = topic_name(full)
        bundle = told.setdefault(name.namespace, {}).setdefault("0x0_0x4", {})
        bundle.setdefault(name.domain, {})[full] = document
    return told


def metrics_of(*topics: str, waiting: Sequence[str] = ()) -> bytes:
    """The lines that a broker writes for each loaded topic, among others."""
    told = ""
    for topic in topics:
        labels = f'cluster="c",namespace="t/n",topic="{topic}"'
        told += f"pulsar_subscriptions_count{{{labels}}} 1\npulsar_producers_count{{{labels}}} 1\n"
        for kind in ("back_log", "unacked_messages"):
            value = 5 if topic in waiting else 0
            told += f'pulsar_subscription_{kind}{{{labels},subscription="s"}} {value}\n'
    return told.encode()


class Cluster:
    """A cluster of one broker. stored: full names -> stats when asked for. replies: path -> Reply.

    loaded: what broker-stats tells; asking for the stats of another topic would load it. since:
    names of topics that were loaded after broker-stats were renewed. waiting: where messages wait
    now.
    """

    def __init__(
        self,
        stored: Mapping[str, Any],
        loaded: Mapping[str, Any] | None = None,
        replies: Mapping[str, Any] | None = None,
        since: Sequence[str] = (),
        waiting: Sequence[str] = (),
    ) -> None:
        self.since, self.waiting = since, waiting
        self.stored = stored
        self.loaded = stored if loaded is None else loaded
        self.replies = {} if replies is None else replies
        self.host = ""

    def __call__(self, asked: Asked) -> Reply:
        path = unquote(asked.path.partition("?")[0].removeprefix("/admin/v2/"))
        told = self.replies.get(path)
        if told is None:
            told = self._told(path, asked.headers["host"])
        return told if isinstance(told, Reply) else Reply(document=told)

    def _told(self, path: str, host: str) -> Any:
        if path == "brokers":
            return [host]
        if path == "brokers/configuration/runtime":
            return LIVE
        if path == "/metrics/":
            told = metrics_of(*self.loaded, *self.since, waiting=self.waiting)
            return Reply(body=told, content_type="text/plain")
        if path == "broker-stats/topics":
            return tree(self.loaded)
        if path == "tenants":
            return sorted({topic_name(full).namespace.split("/")[0] for full in self.stored})
        if path.startswith("namespaces/"):
            tenant = path.removeprefix("namespaces/")
            spaces = {topic_name(full).namespace for full in self.stored}
            return sorted(space for space in spaces if space.startswith(f"{tenant}/"))
        if path.endswith("/partitioned"):
            return []
        domain, _, rest = path.partition("/")
        name, _, kind = rest.rpartition("/")
        if kind == "internalStats":
            return INTERNAL
        if kind == "stats":
            return self.stored.get(f"{domain}://{name}", GONE)
        return [full for full in self.stored if full.startswith(f"{domain}://{rest}/")] or []


@contextmanager
def cluster(*parts: Any, **more: Any) -> Iterator[HttpBroker]:
    with serving(Cluster(*parts, **more)) as broker:
        yield broker
    assert {asked.method for asked in broker.asked} <= {"GET"}


def quiet(window: TopicWindow) -> bool:
    """What a rule would say of broker-stats: nothing waits."""
    assert len(window.window.samples) == 1
    return all(observed.now.msg_backlog == 0 for observed in window.subscriptions())


def survey(url: str, scope: Scope = T_N, plan: SamplingPlan = SOON, timeout_seconds: float = 10.0,
           **more: Any) -> tuple[list[TopicWindow], Fleet]:  # fmt: skip
    async def surveying() -> tuple[list[TopicWindow], Fleet]:
        async with Admin(Settings(admin_url=url), timeout_seconds=timeout_seconds) as admin:
            fleet = Fleet(admin, scope, quiet, plan=plan, **more)
            async with aclosing(fleet.windows()) as windows:
                return [window async for window in windows], fleet

    return asyncio.run(surveying())


def names(windows: list[TopicWindow]) -> list[str]:
    return sorted(
        window.topic + ("" if window.partition is None else f"-partition-{window.partition}")
        for window in windows
    )


def read_by_itself(broker: HttpBroker) -> set[str]:
    """The topics whose own stats were asked for: those a broker would load."""
    paths = [unquote(asked.path.partition("?")[0])[len("/admin/v2/") :] for asked in broker.asked]
    return {
        path.rpartition("/")[0].replace("/", "://", 1)
        for path in paths
        if path.endswith(("/stats", "/internalStats", "/partitioned-stats"))
    }


A, B, C = (f"persistent://t/n/{name}" for name in "abc")


# What is looked at, and what is read by itself


def test_quiet_topics_are_looked_at_once_and_suspects_are_sampled():
    with cluster({A: stats(), B: stats(5), C: stats()}) as broker:
        windows, fleet = survey(broker.url)
    assert names(windows) == [A, B, C]
    assert [window.topic for window in windows][-1] == B
    assert len(windows[-1].window.samples) >= 2
    assert windows[-1].window.last.internal is not None
    assert read_by_itself(broker) == {B}
    assert (fleet.not_loaded, fleet.unread, fleet.notes) == ([], [], [])


def test_a_suspect_partition_knows_who_has_consumers_on_the_other_partitions():
    attended = stats()
    attended["subscriptions"]["s"]["consumers"] = [{"consumerName": "w"}]
    parts = {f"{A}-partition-0": attended, f"{A}-partition-1": stats(5), B: stats(5)}
    with cluster(parts) as broker:
        windows, _ = survey(broker.url)
    told = {(each.topic, each.partition): each.elsewhere for each in windows}
    assert told == {(A, 0): set(), (A, 1): {"s"}, (B, None): set()}


def test_a_topic_that_no_broker_has_loaded_is_named_and_left_asleep():
    with cluster({A: stats(), B: stats(5)}, {A: stats()}) as broker:
        windows, fleet = survey(broker.url)
    assert names(windows) == [A]
    assert fleet.not_loaded == [B]
    assert read_by_itself(broker) == set()


def test_topics_that_are_not_loaded_are_read_where_that_is_asked_for():
    with cluster({A: stats(), B: stats(5)}, {A: stats()}) as broker:
        windows, fleet = survey(broker.url, Scope(("t/n",), load=True))
    assert names(windows) == [A, B]
    assert fleet.not_loaded == []
    assert read_by_itself(broker) == {B}


def test_a_topic_that_was_loaded_since_the_list_was_renewed_is_watched():
    with cluster({A: stats(), B: stats(5), C: stats()}, {A: stats()}, since=[B]) as broker:
        windows, fleet = survey(broker.url)
    assert names(windows) == [A, B]
    assert len(windows[-1].window.samples) >= 2
    assert (fleet.not_loaded, fleet.unread) == ([C], [])
    assert read_by_itself(broker) == {B}


def test_a_topic_that_has_stalled_since_the_list_was_renewed_is_watched():
    stored = {A: stats(5), B: stats()}
    with cluster(stored, {A: stats(), B: stats()}, waiting=[A]) as broker:
        windows, fleet = survey(broker.url)
    assert {window.topic: len(window.window.samples) > 1 for window in windows} == {
        A: True, B: False,
    }  # fmt: skip
    assert fleet.metrics_unread is None
    assert read_by_itself(broker) == {A}


@pytest.mark.parametrize(
    ("replies", "why"),
    [
        ({"/metrics/": NO_RIGHT}, "may not read the metrics"),
        ({"brokers/configuration/runtime": {}}, "exposeTopicLevelMetricsInPrometheus is not"),
        (
            {"brokers/configuration/runtime": LIVE | {"metricsBufferResponse": "true"}},
            "metricsBufferResponse is true",
        ),
    ],
)
def test_a_topic_that_may_have_been_loaded_since_is_not_called_asleep(replies, why):
    with cluster({A: stats(), B: stats(5)}, {A: stats()}, replies) as broker:
        windows, fleet = survey(broker.url)
    assert (names(windows), fleet.not_loaded) == ([A], [])
    assert [unread.topic for unread in fleet.unread] == [B]
    assert why in (fleet.metrics_unread or "")
    assert fleet.unread[0].reason.startswith("not seen: ")
    assert why in fleet.unread[0].reason
    assert read_by_itself(broker) == set()


def test_a_topic_that_one_reading_shows_moving_is_read_once():
    with cluster({A: stats(), B: stats()}, {A: stats(), B: stats(5)}) as broker:
        windows, _ = survey(broker.url)
    assert [len(window.window.samples) for window in windows] == [1, 1]
    asked = [asked.path for asked in broker.asked if "/t/n/b/" in asked.path]
    assert len(asked) == 1
    assert windows[-1].window.last.taken_ms is not None


@pytest.mark.parametrize("split", [1, 7, 40, 1000])
@pytest.mark.parametrize("partitions", ['topic="{}-partition-3"', 'topic="{}",partition="3"'])
def test_metrics_name_loaded_topics_in_pieces_of_any_length(split, partitions):
    whole = metrics_of(A).decode() + metrics_of(B, waiting=[B]).decode().replace(
        f'topic="{B}"', partitions.format(B)
    )
    pieces = [whole.encode()[at : at + split] for at in range(0, len(whole), split)]

    async def in_pieces() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def told() -> list[tuple[str, bool]]:
        return [each async for lines in lines_of(in_pieces()) for each in topics_in(lines)]

    partition = f"{B}-partition-3"
    assert asyncio.run(told()) == [(A, False), (partition, False), *2 * [(partition, True)]]


@pytest.mark.parametrize(
    ("label", "named"),
    [("-1", [(A, False)]), ("07", [(f"{A}-partition-7", False)]), ("9" * 5000, [])],
    ids=["none", "a number", "no number of a partition"],
)
def test_a_line_of_metrics_for_no_partition_that_can_be_names_nothing(label, named):
    line = f'\npulsar_subscriptions_count{{topic="{A}",partition="{label}"}} 1\n'
    assert list(topics_in(line.encode())) == named


def test_segments_are_named_as_a_broker_names_them():
    async def lines() -> AsyncIterator[bytes]:
        for end in ("0000-7fff-1", "no-such", "0000-7fff-" + "9" * 5000, "0-f-1/\udcff"):
            line = f'\npulsar_subscription_back_log{{topic="segment://t/n/a/{end}"'
            line += ',subscription="\udcff"} 1\n'
            yield line.encode("utf-8", "surrogateescape")

    told = asyncio.run(numbers_in(lines()))
    assert told == {"segment://t/n/a/0000-7fff-1": {"\ufffd": {"msgBacklog": 1}}}


def test_partitions_are_looked_at_and_sampled_one_by_one():
    one, two, three = (f"{A}-partition-{number}" for number in range(3))
    stored = {one: stats(), two: stats(5), three: stats(5)}
    with cluster(stored, {one: stats(), two: stats(5)}) as broker:
        windows, fleet = survey(broker.url)
    assert [(window.topic, window.partition) for window in windows] == [(A, 0), (A, 1)]
    assert fleet.not_loaded == [three]
    assert read_by_itself(broker) == {two}
    assert "/partitions" not in {asked.path[-11:] for asked in broker.asked}


def test_a_topic_without_storage_exists_only_while_it_is_loaded():
    listed = f"non-{A}"
    with cluster({listed: stats()}, {}) as broker:
        windows, fleet = survey(broker.url)
    assert names(windows) == [listed]
    assert fleet.not_loaded == []


def test_other_namespaces_are_left_alone():
    other = "persistent://t/other/x"
    with cluster({A: stats(5), other: stats(5)}) as broker:
        windows, _ = survey(broker.url)
    assert names(windows) == [A]
    assert read_by_itself(broker) == {A}


def test_without_a_namespace_all_that_can_be_listed_are_examined():
    other, hidden = "persistent://u/m/x", "persistent://v/m/x"
    replies = {"namespaces/v": NO_RIGHT}
    with cluster({A: stats(), other: stats(5), hidden: stats(5)}, replies=replies) as broker:
        windows, fleet = survey(broker.url, Scope())
    assert names(windows) == [A, other]
    assert [(unread.topic, "may not read" in unread.reason) for unread in fleet.unread] == [
        ("v", True)
    ]


def test_a_namespace_that_is_not_there_does_not_stop_the_others():
    with cluster({A: stats()}, replies={"persistent/t/gone": GONE}) as broker:
        windows, fleet = survey(broker.url, Scope(("t/gone", "t/n")))
    assert names(windows) == [A]
    assert [unread.topic for unread in fleet.unread] == ["t/gone"]
    assert "does not have the persistent topics of t/gone" in fleet.unread[0].reason


@pytest.mark.parametrize(
    ("topic", "system"),
    [
        ("persistent://t/n/__change_events", True),
        ("persistent://t/n/__change_events-partition-1", True),
        ("persistent://t/n/__transaction_buffer_snapshot", True),
        ("persistent://t/n/x-partition-0-sub__transaction_pending_ack", True),
        ("persistent://pulsar/system/transaction_coordinator_assign-partition-0", True),
        ("non-persistent://pulsar/system/resource-usage", True),
        ("persistent://pulsar/standalone/127.0.0.1:8080/healthcheck", True),
        ("persistent://pulsar/10.0.0.1:8080/healthcheck", True),
        ("persistent://t/n/change_events", False),
        ("persistent://t/n/_x", False),
        ("persistent://t/system/x", False),
        ("persistent://pulsar/mine/x", False),
    ],
)
def test_the_brokers_own_topics_are_known_by_their_names(topic, system):
    assert is_system(topic_name(topic)) == system


@pytest.mark.parametrize("loaded", [True, False])
def test_the_brokers_own_topics_are_left_out_unless_asked_for(loaded):
    own = "persistent://t/n/__change_events"
    stored = {own: stats(5), A: stats(5)}
    with cluster(stored, stored if loaded else {A: stats(5)}) as broker:
        windows, fleet = survey(broker.url)
        assert (names(windows), fleet.not_loaded) == ([A], [])
        assert read_by_itself(broker) == {A}
        windows, fleet = survey(broker.url, Scope(("t/n",), system=True))
    assert names(windows) + fleet.not_loaded == ([own, A] if loaded else [A, own])


def test_a_topic_with_a_wrong_field_is_a_suspect_and_its_own_stats_tell():
    with cluster({A: stats()}, {A: {"msgInCounter": "many"}}) as broker:
        windows, fleet = survey(broker.url)
    assert names(windows) == [A]
    assert windows[0].window.last.taken_ms is not None
    assert fleet.unread == []


# What comes and goes


def test_a_topic_that_is_loaded_and_in_no_list_is_examined_while_it_is_there():
    with cluster({}, {A: stats(), B: stats(5)}) as broker:
        windows, fleet = survey(broker.url)
    assert names(windows) == [A]
    assert (fleet.unread, fleet.not_loaded) == ([], [])


def test_a_suspect_that_cannot_be_read_does_not_stop_the_others():
    replies = {"persistent/t/n/a/stats": Reply(500, {"reason": "disk full"})}
    with cluster({A: stats(5), B: stats(5)}, replies=replies) as broker:
        windows, fleet = survey(broker.url)
    assert names(windows) == [B]
    assert [unread.topic for unread in fleet.unread] == [A]
    assert "disk full" in fleet.unread[0].reason


def test_a_listed_suspect_that_is_gone_is_unread():
    with cluster({A: stats(5)}, replies={"persistent/t/n/a/stats": GONE}) as broker:
        windows, fleet = survey(broker.url)
    assert windows == []
    assert [unread.topic for unread in fleet.unread] == [A]


@pytest.mark.parametrize("subscriptions", [{}, None])
@pytest.mark.parametrize(("asked_for", "unread"), [(None, 1), ("s", 1), ("other", 0)])
def test_what_waits_by_the_list_and_is_not_reported_then_is_unread(
    subscriptions, asked_for, unread
):
    now = {"msgInCounter": 1, "subscriptions": subscriptions}
    with cluster({A: now, B: stats(5)}, {A: stats(1000), B: stats(5)}) as broker:
        _, fleet = survey(broker.url, subscription=asked_for)
    reason = "s was listed with 1000 entries waiting, and a moment later not reported"
    assert fleet.unread == [Unread(A, reason)][:unread]


def test_a_topic_that_moves_between_brokers_is_examined_once():
    host = "127.0.0.1:{}"
    with cluster({A: stats(), B: stats(5)}) as second:
        port = second.url.rpartition(":")[2]
        brokers: dict[str, Any] = {}
        with cluster({A: stats(), B: stats(5)}, replies=brokers) as first:
            brokers["brokers"] = [host.format(first.url.rpartition(":")[2]), host.format(port)]
            windows, _ = survey(first.url)
    assert names(windows) == [A, B]
    paths = [asked.path for asked in second.asked]
    assert paths == ["/metrics/", "/admin/v2/broker-stats/topics"]


# Brokers that cannot be read, and too few rights


def test_a_broker_that_cannot_be_read_leaves_its_topics_unread_and_asleep():
    brokers: dict[str, Any] = {}
    with cluster({A: stats(), B: stats()}, {A: stats()}, brokers) as broker:
        brokers["brokers"] = [broker.url.removeprefix("http://"), "127.0.0.1:1"]
        windows, fleet = survey(broker.url)
    assert names(windows) == [A]
    assert fleet.not_loaded == []
    assert fleet.unread == [
        Unread(B, "may be loaded by a broker that could not be read (127.0.0.1:1)")
    ]
    assert len(fleet.notes) == 1
    assert fleet.notes[0].startswith("127.0.0.1:1: what it has loaded could not be read (nothing")
    assert read_by_itself(broker) == set()


def test_what_a_broker_told_before_its_answer_broke_off_counts():
    whole = b"".join(loaded_tree(200))  # some pieces of what is read at once
    topics = {f"persistent://t/n/{number}": stats() for number in range(200)}
    cut = Reply(pieces=iter([whole[:-10]]), cut=True)
    with cluster(topics, replies={"broker-stats/topics": cut}) as broker:
        windows, fleet = survey(broker.url)
    told, untold = set(names(windows)), {unread.topic for unread in fleet.unread}
    assert told
    assert untold
    assert (told | untold, told & untold) == (set(topics), set())
    assert "closed the connection" in fleet.notes[0]
    assert fleet.not_loaded == []


@pytest.mark.parametrize("path", ["brokers", "broker-stats/topics"])
def test_without_a_superuser_it_says_what_the_alternative_costs(path):
    with (
        cluster({A: stats(), B: stats()}, replies={path: NO_RIGHT}) as broker,
        pytest.raises(Refused) as caught,
    ):
        survey(broker.url)
    told = str(caught.value)
    assert told.startswith("what the brokers have loaded cannot be seen, which needs a superuser (")
    assert told.endswith(
        "; with --load-topics each of the 2 topics is read by itself, which loads those that no "
        "broker has loaded"
    )
    assert read_by_itself(broker) == set()


@pytest.mark.parametrize("path", ["brokers", "broker-stats/topics"])
def test_without_a_superuser_each_topic_is_read_where_that_is_asked_for(path):
    with cluster({A: stats(), B: stats()}, replies={path: NO_RIGHT}) as broker:
        windows, fleet = survey(broker.url, Scope(("t/n",), load=True))
    assert names(windows) == [A, B]
    assert read_by_itself(broker) == {A, B}
    assert len(fleet.notes) == 1
    assert "each of the 2 topics is read by itself" in fleet.notes[0]


def test_without_the_right_to_list_tenants_namespaces_are_to_be_named():
    with (
        cluster({A: stats()}, replies={"tenants": NO_RIGHT}) as broker,
        pytest.raises(Refused, match="or name the namespaces with --namespace"),
    ):
        survey(broker.url, Scope())


@pytest.mark.usefixtures("outside")
def test_a_cluster_that_does_not_answer_is_one_sentence():
    with pytest.raises(AdminError, match="nothing listens at"):
        survey("http://127.0.0.1:1", Scope())


# Waves, progress, what is kept


def test_suspects_come_in_waves_of_one_window_each(monkeypatch):
    monkeypatch.setattr("pulsar_doctor.broker.fleet.survey.WAVE_TOPICS", 4)
    topics = {f"persistent://t/n/{number}": stats(1) for number in range(10)}
    told: list[tuple[int, int, str]] = []
    with cluster(topics) as broker:
        windows, _ = survey(broker.url, progress=lambda *words: told.append(words))
    assert names(windows) == sorted(topics)
    looked = [words for words in told if words[2] == "topics looked at"]
    sampled = [words[:2] for words in told if words[2] == "samples of suspects"]
    assert looked == [(number + 1, 10, "topics looked at") for number in range(10)]
    assert sampled == sorted(sampled)
    assert sampled[-1] == (30, 30)
    assert Counter(total for _, total in sampled).keys() == {30}
    first, last = (
        [asked.path.split("/")[6] for asked in broker.asked if "/stats?" in asked.path][at]
        for at in (0, -1)
    )
    assert int(first) < 4
    assert int(last) >= 8


def test_readings_of_quiet_topics_and_of_suspects_are_kept():
    kept: list[Any] = []
    with cluster({A: stats(), B: stats(5)}) as broker:
        windows, _ = survey(broker.url, keep=kept.append)
    counts = Counter((reading.topic, reading.taken_ms is None) for reading in kept)
    assert counts == {(A, True): 1, (B, False): len(windows[-1].window.samples)}


def loaded_tree(topics: int) -> Iterator[bytes]:
    filler = json.dumps({"subscriptions": {"s": {"msgBacklog": 0, "consumers": [
        {"address": "x" * 2000}]}}}).encode()  # fmt: skip
    yield b'{"t/n": {"0x0_0x4": {"persistent": {'
    for begin in range(0, topics, 100):
        some = (b'"persistent://t/n/%d":%s' % (begin + at, filler) for at in range(100))
        yield b"," * (begin > 0) + b",".join(some)
    yield b"}}}}"


def test_memory_does_not_grow_with_the_stats_of_quiet_topics():
    async def peak(url: str) -> tuple[int, int]:
        async with Admin(Settings(admin_url=url)) as admin:
            fleet = Fleet(admin, T_N, quiet, plan=SOON)
            tracemalloc.start()
            count = 0
            async with aclosing(fleet.windows()) as windows:
                async for _ in windows:
                    count += 1
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return count, most

    peaks = {}
    for topics in (500, 5_000):
        replies = {"broker-stats/topics": Reply(pieces=loaded_tree(topics))}
        with cluster({}, replies=replies) as broker:
            count, peaks[topics] = asyncio.run(peak(broker.url))
            assert count == topics
    assert peaks[5_000] < peaks[500] + 4_500 * 500  # names alone; each topic's stats take 2,000


# The real broker


def real_survey(url: str, scope: Scope) -> tuple[list[TopicWindow], Fleet]:
    def nothing_waits(window: TopicWindow) -> bool:
        return all(observed.now.msg_backlog == 0 for observed in window.subscriptions())

    async def surveying() -> tuple[list[TopicWindow], Fleet]:
        async with Admin(Settings(admin_url=url)) as admin:
            fleet = Fleet(admin, scope, nothing_waits, plan=SamplingPlan(0.5, 0.25))
            async with aclosing(fleet.windows()) as windows:
                return [window async for window in windows], fleet

    return asyncio.run(surveying())


def loaded_now(admin: Any, namespace: str) -> set[str]:
    """The topics of a namespace that the broker has loaded at this moment, by its metrics."""
    of_namespace = re.compile(
        rf'pulsar_subscriptions_count{{.*namespace="{namespace}",topic="([^"]+)"'
    )
    told = map(of_namespace.match, admin.get("/metrics/").text.splitlines())
    topics = {match[1] for match in told if match}
    return {topic for topic in topics if not is_system(topic_name(topic))}


def looks_loaded(url: str, namespace: str) -> set[str]:
    async def asking() -> set[str]:
        async with Admin(Settings(admin_url=url)) as admin:
            return {
                loaded.topic
                async for loaded in admin.loaded_topics()
                if loaded.namespace == namespace and not is_system(topic_name(loaded.topic))
            }

    return asyncio.run(asking())


def until(done: Callable[[], bool], seconds: float) -> None:
    give_up = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < give_up
        time.sleep(1)


@pytest.mark.slow
def test_real_topics_that_are_not_loaded_stay_so(broker, admin, client):
    namespace = f"public/fleet-{secrets.token_hex(4)}"
    admin.put(f"/admin/v2/namespaces/{namespace}", json={}).raise_for_status()
    plain = [f"persistent://{namespace}/plain-{number}" for number in range(18)]
    whole = [f"persistent://{namespace}/parts-{number}" for number in range(4)]
    for topic in whole:
        path = f"/admin/v2/{topic_name(topic).path}/partitions"
        admin.put(path, json=3).raise_for_status()
    for topic in (*plain, *whole):  # a subscription keeps a topic that nobody uses
        client.subscribe(topic, "s").close()
        producer = client.create_producer(topic)
        for _ in range(6 * topic.endswith("-1")):
            producer.send(b"waits")
        producer.close()
    parts = [f"{topic}-partition-{number}" for topic in whole for number in range(3)]
    asleep = sorted([*plain[10:], *parts[-4:]])
    for topic in asleep:
        admin.put(f"/admin/v2/{topic_name(topic).path}/unload").raise_for_status()
    awake = {*plain, *parts} - set(asleep)
    until(lambda: looks_loaded(broker.admin_url, namespace) == awake, 150)  # told once a minute

    before = loaded_now(admin, namespace)
    windows, fleet = real_survey(broker.admin_url, Scope((namespace,)))
    assert loaded_now(admin, namespace) == before
    assert before == awake
    assert names(windows) == sorted(awake)
    assert fleet.not_loaded == asleep
    assert fleet.unread == []
    sampled = {names([window])[0] for window in windows if window.window.last.taken_ms is not None}
    assert plain[1] in sampled
    assert sampled == {topic for topic in awake if topic.endswith("plain-1") or "parts-1" in topic}

    windows, fleet = real_survey(broker.admin_url, Scope((namespace,), load=True))
    assert names(windows) == sorted({*plain, *parts})
    assert loaded_now(admin, namespace) == before | set(asleep)


def test_a_real_namespace_with_nothing_loaded_is_left_asleep(broker, admin, client):
    namespace = f"public/asleep-{secrets.token_hex(4)}"
    admin.put(f"/admin/v2/namespaces/{namespace}", json={}).raise_for_status()
    topics = [f"persistent://{namespace}/{number}" for number in range(5)]
    for topic in topics:
        client.subscribe(topic, "s").close()
    admin.put(f"/admin/v2/namespaces/{namespace}/unload").raise_for_status()
    until(lambda: not loaded_now(admin, namespace), 20)

    # Broker-stats may be of the moment in which they were loaded.
    remembered = looks_loaded(broker.admin_url, namespace)
    windows, fleet = real_survey(broker.admin_url, Scope((namespace,)))
    assert names(windows) == sorted(remembered)
    assert fleet.not_loaded == sorted(set(topics) - remembered)
    assert not loaded_now(admin, namespace)
