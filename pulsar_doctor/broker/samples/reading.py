"""The line of a samples file: one topic's stats as the broker wrote them.

A samples file is JSON lines, compressed by gzip as a rule:
- the first says what it is: {"schema": "pulsar-doctor/samples/1", "program_version": "0.5"};
- a reading: {"topic": full name, "taken_ms": epoch milliseconds by the broker's clock or null,
  "stats": what the broker answered, "internal": its internal stats or null};
- limits: {"topic": full name, "limits": {"max_unacked_messages_per_consumer": number or null, …},
  "broker_version": text or null}, of a partition, or of a topic for all its partitions; beside them
  `transactions`, the open ones of a topic or partition, and `segments` of a scalable topic.
A reader passes over fields that it does not know. What users attach to consumers, producers and
subscriptions as they like (metadata, properties) is not in it: it may be secret. Of metadata there
is only what Pulsar's own framework writes of a function or sink. What resembles a credential in
the version of a client is redacted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulsar_doctor.broker.stats.functions import function_of
from pulsar_doctor.broker.stats.reading import internal_stats, topic_stats
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.ledger.topics import split_partition
from pulsar_doctor.wire.redaction import redact_version
from pulsar_doctor.wording.printable import listed

SCHEMA = "pulsar-doctor/samples/"
VERSION = 1
NAMED_MOST = 10

USERS_OWN = frozenset({"metadata", "properties", "subscriptionProperties", "cursorProperties"})
# Objects with names as keys, so that a subscription called "metadata" stays.
BY_NAME = frozenset(
    {"subscriptions", "replication", "cursors", "partitions"}
    | {"consumersAfterMarkDeletePosition", "bucketDelayedIndexStats"}
)
NESTED = (dict, list)
DEEPEST = 32  # levels; a broker writes less than ten


@dataclass(frozen=True, slots=True)
class StatsAnswer:
    """One answer of a broker."""

    topic: str  # full name, also of a partition
    taken_ms: int | None  # by the broker's clock
    stats: Any  # decoded JSON
    internal: Any | None = None  # decoded JSON; None: not requested, or not reported

    def sample(self) -> Sample:
        """The same as values. Raises InputError where a field has a wrong type, with its path."""
        internal = None if self.internal is None else internal_stats(self.internal)
        return Sample(self.taken_ms, topic_stats(self.stats), internal)

    def line(self) -> dict[str, Any]:
        """What a samples file keeps of it."""
        return {
            "topic": self.topic,
            "taken_ms": self.taken_ms,
            "stats": harmless(self.stats),
            "internal": harmless(self.internal),
        }


def harmless(value: Any, levels: int = DEEPEST, names: bool = False) -> Any:
    """Decoded JSON without what users attach. names: whether the keys of this object are names."""
    if not isinstance(value, NESTED):
        return value
    if levels == 0:
        return None
    if isinstance(value, list):
        return [harmless(element, levels - 1) for element in value]
    kept = {
        key: harmless(inner, levels - 1, not names and key in BY_NAME)
        if isinstance(inner, NESTED)  # queried twice: most are not, and a call takes longer
        else inner
        for key, inner in value.items()
        if names or key not in USERS_OWN or counts(key, inner)
    }
    if not names and "metadata" in value and (function := function_of(value["metadata"])):
        kept["metadata"] = function.metadata
    if type(version := kept.get("clientVersion")) is str:
        kept["clientVersion"] = redact_version(version)
    return kept


def counts(key: str, value: Any) -> bool:
    """Whether these are the properties of a cursor, which the broker itself sets: numbers."""
    numbers = isinstance(value, Mapping) and all(type(each) is int for each in value.values())
    return key == "properties" and numbers


def is_called(topic: str, wanted: str) -> bool:
    """Whether a full name is what was requested: full or its last part, topic or partition."""
    names = (topic, split_partition(topic)[0])
    return any(name == wanted or name.endswith(f"/{wanted}") for name in names)


def check_found(wanted: Sequence[str], there: Collection[str], where: str) -> None:
    """Raises DoctorError where something requested is not there. there: full names."""
    strange = [repr(each) for each in wanted if not any(is_called(name, each) for name in there)]
    if not strange:
        return
    names = sorted({split_partition(name)[0] for name in there})
    has = listed(names, NAMED_MOST, ", ")
    raise DoctorError(f"{where} has no topic {', '.join(strange)}; it has {has}")
