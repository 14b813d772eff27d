"""The requests that may be sent to a Pulsar cluster, and what each costs the cluster.

Reading can do harm: the stats of a topic that no broker has loaded make one load it. So nothing
here asks for the stats of a topic unless the caller asks for that very topic; lists, partitions,
limits and `loaded_topics` load nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from pulsar_doctor.broker.admin import refusals
from pulsar_doctor.broker.admin.cluster import places_of
from pulsar_doctor.broker.admin.http import Http, RestAnswer, clock_ms, names_in
from pulsar_doctor.broker.admin.refusals import BrokerFailed, NotFound, Refused, Unreachable
from pulsar_doctor.broker.admin.segments import SegmentReader
from pulsar_doctor.broker.admin.streaming import NestedReader
from pulsar_doctor.broker.admin.topics import (
    DOMAINS,
    SCALABLE,
    SEGMENT,
    TopicName,
    encoded,
    namespace_path,
    topic_name,
)
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.broker.stats.fields import Fields, as_object
from pulsar_doctor.broker.stats.segments import TopicSegment, segments_of
from pulsar_doctor.errors import InputError
from pulsar_doctor.ledger.acks.persisting import number_of

# Who is limited -> its policy on a topic, and on a namespace as in broker.conf.
UNACKED_LIMITS = {
    "consumer": ("maxUnackedMessagesOnConsumer", "maxUnackedMessagesPerConsumer"),
    "subscription": ("maxUnackedMessagesOnSubscription", "maxUnackedMessagesPerSubscription"),
}


@dataclass(frozen=True, slots=True)
class NamespaceTopics:
    """The topics of a namespace."""

    topics: tuple[str, ...]  # full names, each partition by itself
    partitioned: tuple[str, ...]  # names that have partitions


@dataclass(frozen=True, slots=True)
class LoadedTopic:
    """One topic of broker-stats: at most a minute old, without time stamps; good for triage."""

    namespace: str
    bundle: str
    kind: str  # persistent or non-persistent
    topic: str
    stats: Any
    broker_clock_ms: int | None  # when it was read, epoch ms


# What a broker would have to read in BookKeeper: exact backlogs, their sizes, their oldest times.
CHEAP = {
    "getPreciseBacklog": "false",
    "subscriptionBacklogSize": "false",
    "getEarliestTimeInBacklog": "false",
}


class Admin:
    """The cluster's REST API, read only; an async context manager.

    concurrency: requests at once. timeout_seconds: for one answer, redirects included. Raises
    AdminError without a usable answer, InputError for a name or a setting that cannot be meant.
    """

    def __init__(
        self, settings: Settings, *, concurrency: int = 32, timeout_seconds: float = 10.0
    ) -> None:
        self._http = Http(settings, concurrency=concurrency, timeout_seconds=timeout_seconds)
        self.place = places_of(settings.admin_url)  # for a person
        self.context = settings.context  # name of the context that gave the settings, or None
        self._segments = SegmentReader(self._http, self.loaded_topics, self.configuration)
        self._configuring = asyncio.Lock()
        self._conf: Mapping[str, Any] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._http.close()

    async def topic_stats(
        self, topic: str, *, precise_backlog: bool = False, oldest: bool = False
    ) -> RestAnswer:
        """The stats of one topic or one partition. Loads the topic where no broker has it loaded.

        precise_backlog: costs the broker reads in BookKeeper. A segment is not loaded. oldest: with
        when the oldest message of each subscription was published, which costs one read for each.
        """
        if topic_name(topic).domain == SEGMENT:
            return await self._segments.answer(topic)
        more = {"getPreciseBacklog": precise_backlog, "getEarliestTimeInBacklog": oldest}
        params = {**CHEAP, **{name: "true" for name, wanted in more.items() if wanted}}
        return await self._stats_of(topic, "stats", params)

    async def internal_stats(self, topic: str) -> RestAnswer:
        """Ledgers and cursors of one topic. Loads it; large where a cursor has many ranges."""
        return await self._stats_of(topic, "internalStats", {})

    async def partitioned_stats(self, topic: str, *, oldest: bool = False) -> RestAnswer:
        """Reads the statistics of all partitions in one answer. Loads every partition.

        oldest: as in `topic_stats`.
        """
        params = {**CHEAP, "getEarliestTimeInBacklog": str(oldest).lower(), "perPartition": "true"}
        return await self._stats_of(topic, "partitioned-stats", params)

    async def partitioned_internal_stats(self, topic: str) -> RestAnswer:
        """Ledgers and cursors of all partitions in one answer. Loads every partition; large."""
        return await self._stats_of(topic, "partitioned-internalStats", {})

    async def partitions(self, topic: str) -> int | None:
        """How many partitions a topic has, None where it is not partitioned. Loads nothing."""
        name = topic_name(topic)
        what = f"the partitions of {name}"
        document = (await self._http.document(f"{name.path}/partitions", what)).document
        count = document.get("partitions") if isinstance(document, dict) else None
        if not isinstance(count, int):
            raise BrokerFailed(f"{what}: no number is reported")
        if count < 0:
            raise BrokerFailed(f"{what}: {count} are reported, which is impossible")
        return count or None

    async def scalable_topic(self, topic: str) -> dict[int, TopicSegment]:
        """The segments of a scalable topic, by number. Loads nothing. NotFound: there is none."""
        name = topic_name(topic)
        where = f"scalable/{namespace_path(name.namespace)}/{encoded(name.local)}"
        full = f"{SCALABLE}://{name.namespace}/{name.local}"
        answer = await self._http.document(where, f"the segments of {full}")
        return segments_of(full, answer.document)

    def loaded_segments(self, topic: str) -> dict[str, float]:
        """The segments that were read, listed or not, and for how many seconds each is known."""
        return self._segments.loaded_for(topic)

    async def scalable_topics(self, namespace: str) -> list[str]:
        """The scalable topics of a namespace; none where the broker does not know of any."""
        configuration = await self.configuration()
        if str(configuration.get("scalableTopicsEnabled", not configuration)).lower() != "true":
            return []
        try:
            path = f"scalable/{namespace_path(namespace)}"
            return await self._list(path, f"the scalable topics of {namespace}")
        except NotFound:
            return []

    async def tenants(self) -> list[str]:
        """Lists every tenant (needs a superuser)."""
        return await self._list("tenants", "the list of tenants")

    async def namespaces(self, tenant: str) -> list[str]:
        """The namespaces of a tenant."""
        return await self._list(f"namespaces/{encoded(tenant)}", f"the namespaces of {tenant}")

    async def topics(self, namespace: str) -> NamespaceTopics:
        """Lists every topic of a namespace, loaded or not, system topics too. Loads nothing.

        A non-persistent topic exists only while it is loaded. Partitions that nobody has used yet
        are not listed: see `partitioned`.
        """
        path, lists = namespace_path(namespace), {}
        for part in ("", "/partitioned"):
            lists[part] = [
                topic
                for domain in ("persistent", "non-persistent")
                for topic in await self._list(
                    f"{domain}/{path}{part}", f"the {domain} topics of {namespace}"
                )
            ]
        return NamespaceTopics(tuple(lists[""]), tuple(lists["/partitioned"]))

    async def unacked_limit(
        self, topic: str, who: Literal["consumer", "subscription"]
    ) -> int | None:
        """How many unacknowledged messages the broker allows; 0 is no limit, None: not reported.

        The topic's own policy, or its namespace's, or the broker's: `applied=true` gives the one
        that holds. Brokers that do not have that are queried level by level. Loads nothing.
        """
        name = topic_name(topic).of_all_partitions  # policies are refused for a partition
        if name.domain not in DOMAINS:
            return await self._limit_of_namespace(name, UNACKED_LIMITS[who][1])
        on_topic, otherwise = UNACKED_LIMITS[who]
        try:
            limit = await self.applied(topic, on_topic)
            if limit is not None:
                return number_of(limit)
        except (BrokerFailed, Unreachable) as error:
            if error.again:
                raise
        return await self._limit_of_namespace(name, otherwise)

    async def applied(self, topic: str, policy: str) -> Any:
        """The policy that holds: of the topic, its namespace or the broker. Loads nothing."""
        name = topic_name(topic).of_all_partitions  # policies are refused for a partition
        what = f"{policy} of {name}"
        answer = await self._http.document(f"{name.path}/{policy}", what, {"applied": "true"})
        return answer.document

    async def unacked_ranges_limit(self) -> int | None:
        """How many acknowledged ranges of a cursor survive a load; None where not reported.

        `managedLedgerMaxUnackedRangesToPersist` of the broker that answers (needs a superuser).
        """
        return number_of((await self.configuration()).get("managedLedgerMaxUnackedRangesToPersist"))

    async def configuration(self) -> Mapping[str, Any]:
        """The broker.conf of the broker that answers, read once; empty if refused (superuser)."""
        async with self._configuring:
            if self._conf is None:
                path, what = "brokers/configuration/runtime", "the broker's configuration"
                try:
                    document = (await self._http.document(path, what)).document
                except (Refused, NotFound):
                    document = None
                self._conf = document if isinstance(document, dict) else {}
        return self._conf

    @property
    def cluster_name(self) -> str | None:
        """The cluster's name in the broker's configuration, if that has been read anyway."""
        name = (self._conf or {}).get("clusterName")
        return name if isinstance(name, str) and name else None

    async def version(self) -> str | None:
        """The version of the broker that answers, as it writes it; None: not reported."""
        try:
            text = await self._http.text("brokers/version", "the broker's version")
        except refusals.AdminError:
            return None
        return text.strip().strip('"') or None

    async def brokers(self) -> list[str]:
        """`host:port` of each active broker of the cluster (needs a superuser)."""
        return await self._http.brokers()

    @property
    def has_transactions(self) -> bool:
        """Whether brokers may have a transaction coordinator, as far as that is known by now."""
        return str((self._conf or {}).get("transactionCoordinatorEnabled", True)).lower() == "true"

    async def transactions(self, kind: str, topic: str, *subscription: str) -> Fields:
        """Open transactions on a topic (`transactionBufferStats`) or subscription
        (`pendingAckStats`).

        One attempt: a broker without a coordinator answers as one that is still starting.
        """
        name = topic_name(topic)
        of = (namespace_path(name.namespace), *map(encoded, (name.local, *subscription)))
        what = f"the {kind} of {name}"
        path = "/".join(("/admin/v3/transactions", kind, *of))
        answer = await self._http.document(path, what, again=False)
        return Fields(as_object(answer.document, what))

    async def slow_transactions(self, seconds: float) -> Fields:
        """The cluster's transactions with a longer time-out than that (needs a superuser)."""
        what = "the slow transactions"
        path = f"/admin/v3/transactions/slowTransactions/{round(seconds * 1000)}"
        answer = await self._http.document(path, what, again=False)
        return Fields(as_object(answer.document, what))

    async def loaded_topics(self, broker: str | None = None) -> AsyncGenerator[LoadedTopic, None]:
        """Topics that a broker has loaded, one by one, with flat memory (needs a superuser).

        broker: `host:port` as `brokers` lists it; None: whoever answers at the admin URL.
        Refreshed once a minute: a broker that has just started tells of none. Loads nothing.
        Use `contextlib.aclosing` where the iteration may end early.
        """
        what = "broker-stats/topics"
        async with self._http.stream(what, what, broker=broker) as stream:
            if not refusals.is_json(stream.response):
                raise refusals.no_rest_api(stream.response)
            read_ms, reader = clock_ms(stream.response), NestedReader()
            try:
                async for piece in stream.pieces():
                    for names, stats in reader.feed(piece):
                        yield _loaded(names, stats, read_ms)
                for names, stats in reader.end():
                    yield _loaded(names, stats, read_ms)
            except (ValueError, RecursionError) as error:
                where = refusals.place(stream.response.url)
                raise BrokerFailed(f"{what} of {where} is not what it should be: {error}") from None

    async def metrics(self, broker: str) -> AsyncGenerator[bytes, None]:
        """The metrics of a broker as Prometheus reads them, as `Stream.lines`. Loads nothing."""
        async with self._http.stream("/metrics/", "the metrics", broker=broker) as stream:
            async for lines in stream.lines():
                yield lines

    async def _stats_of(self, topic: str, kind: str, params: Mapping[str, str]) -> RestAnswer:
        name = topic_name(topic)
        what = f"the {kind} of {name}"
        if name.domain not in DOMAINS:
            raise InputError(f"no broker reports {what} over the REST API (seen with 5.0.0-M1)")
        answer = await self._http.document(f"{name.path}/{kind}", what, params)
        if not isinstance(answer.document, dict):
            raise BrokerFailed(f"{what} is not an object")
        return answer

    async def _list(self, path: str, what: str) -> list[str]:
        return names_in((await self._http.document(path, what)).document, what)

    async def _limit_of_namespace(self, name: TopicName, policy: str) -> int | None:
        path, what = namespace_path(name.namespace), f"the limits of {name.namespace}"
        limit = (await self._http.document(f"namespaces/{path}/{policy}", what)).document
        if limit is not None:
            return number_of(limit)
        return number_of((await self.configuration()).get(policy))


def _loaded(names: tuple[str, ...], stats: Any, read_ms: int | None) -> LoadedTopic:
    namespace, bundle, kind, topic = names
    return LoadedTopic(namespace, bundle, kind, topic, stats, read_ms)
