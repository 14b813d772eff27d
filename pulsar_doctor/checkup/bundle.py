"""Collects a bundle from a live broker: samples, the case, versions and harmless settings."""

from __future__ import annotations

import asyncio
import gzip
import json
import platform
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulsar_doctor import __version__
from pulsar_doctor.broker.samples.bundled import (
    CASE,
    CONFIGURATION,
    README,
    SAMPLES,
    VERSIONS,
    packed,
)
from pulsar_doctor.checkup.case import SavedCase, case_of, document_of
from pulsar_doctor.checkup.judge import Judge
from pulsar_doctor.checkup.live import LiveRequest, kept_samples
from pulsar_doctor.checkup.redacting import Pseudonyms
from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.diagnosis.short_form import in_short
from pulsar_doctor.diagnosis.weighing import Diagnosis
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.ledger.acks.persisting import SETTINGS
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import many, printable

# Of a broker's configuration: what decides about deliveries, and no text.
ALLOWED = frozenset(SETTINGS) - {"replicatorPrefix"} | {
    "acknowledgmentAtBatchIndexLevelEnabled", "activeConsumerFailoverDelayTimeMillis",
    "backlogQuotaDefaultLimitGB", "backlogQuotaDefaultLimitBytes", "delayedDeliveryEnabled",
    "brokerDeduplicationEnabled", "delayedDeliveryTickTimeMillis", "dispatcherMaxReadBatchSize",
    "dispatcherMaxReadSizeBytes", "dispatcherMaxRoundRobinBatchSize", "dispatcherMinReadBatchSize",
    "dispatchThrottlingRatePerSubscriptionInByte", "dispatchThrottlingRatePerSubscriptionInMsg",
    "dispatchThrottlingRatePerTopicInByte", "dispatchThrottlingRatePerTopicInMsg",
    "maxConsumersPerSubscription", "maxConsumersPerTopic", "maxUnackedMessagesPerBroker",
    "maxUnackedMessagesPerConsumer", "maxUnackedMessagesPerSubscription",
    "maxUnackedMessagesPerSubscriptionOnBrokerBlocked", "preciseDispatcherFlowControl",
    "subscriptionExpirationTimeMinutes", "subscriptionKeySharedUseConsistentHashing",
    "subscriptionRedeliveryTrackerEnabled", "transactionCoordinatorEnabled",
    "ttlDurationDefaultInSeconds",
}  # fmt: skip
VALUE = re.compile(r"true|false|-?\d{1,20}(\.\d{1,20})?")
WHAT = {
    README: "this text",
    CASE: "what the verdicts were made of; `stall-check --case BUNDLE` gives them again",
    SAMPLES: "statistics and internal statistics over the window, of all subscriptions of the "
    "topic; `stall-check --stats BUNDLE` reads them",
    VERSIONS: "versions of the broker, the clients and pulsar-doctor",
    CONFIGURATION: "numbers and switches of the broker's configuration that matter for deliveries",
}
NEVER = (
    "payloads and keys of messages: they are never read",
    "credentials, and what users attach to consumers, producers and subscriptions: may be secret",
    "the rest of the broker's configuration: may be secret",
    "packets and processes of clients: `capture` and `examine` record them where they are",
)
REFUSED = "the broker's configuration: not readable (it needs a superuser)"
REDACTED = (
    "names and addresses: pseudonyms are in their place, which agree within this bundle",
    "fields of the statistics that pulsar-doctor does not know, and all free text: --redact",
)


@dataclass(frozen=True, slots=True)
class Bundle:
    """What was collected. readme: its first file, as text. content: the archive."""

    checkup: Checkup
    readme: str
    content: bytes


def of_live(
    request: LiveRequest, topics: Sequence[str], judge: Judge, names: Pseudonyms | None = None
) -> Bundle:
    """Reads these topics over one window. names: with them the bundle is redacted.

    judge: keeps views. Raises DoctorError where nothing could be read.
    """
    with kept_samples(request, topics, judge, "put into a bundle") as (checkup, file):
        samples = file.read_bytes()
    diagnoses, case = [*checkup.examined()], case_of(checkup)
    if names is not None:
        case, samples = names.case(case), _redacted(samples, names)
    settings = asyncio.run(_settings(request))
    files = {
        CASE: _json(document_of(case)),
        SAMPLES: samples,
        VERSIONS: _json(_versions(case)),
        CONFIGURATION: _json(settings) if settings else b"",
    }
    files = {name: content for name, content in files.items() if content}
    readme = "\n".join(_readme(case, diagnoses, files, redacted=names is not None)) + "\n"
    return Bundle(checkup, readme, packed({README: readme.encode(), **files}))


async def _settings(request: LiveRequest) -> dict[str, str]:
    async with request.admin() as admin:
        try:
            reported = await admin.configuration()
        except DoctorError:
            return {}
    texts = {name: str(reported[name]) for name in sorted(ALLOWED & reported.keys())}
    return {name: text for name, text in texts.items() if VALUE.fullmatch(text)}


def _versions(case: SavedCase) -> dict[str, Any]:
    consumers = (one for each in case.subscriptions for one in each.view.consumers or ())
    clients = Counter(one.client_version or "not reported" for one in consumers)
    cluster = case.head.cluster
    return {
        "broker": cluster and cluster.broker_version,
        "clients": dict(clients.most_common()),
        "pulsar_doctor": __version__,
        "python": platform.python_version(),
        "system": platform.system(),
    }


def _redacted(samples: bytes, names: Pseudonyms) -> bytes:
    """The same file of --save without names, line by line."""
    lines = map(json.loads, gzip.decompress(samples).splitlines())
    written = b"".join(_json(_redacted_line(line, names)) for line in lines)
    return gzip.compress(written)


def _redacted_line(line: dict[str, Any], names: Pseudonyms) -> dict[str, Any]:
    if "schema" in line:
        return line
    version = line.get("broker_version")
    more = {"topic": names.of("topic", line["topic"])}
    more |= {part: names.answer(line[part]) for part in ("stats", "internal") if part in line}
    return line | more | ({"broker_version": names.of("version", version)} if version else {})


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def _readme(
    case: SavedCase, diagnoses: Sequence[Diagnosis], files: Mapping[str, bytes], *, redacted: bool
) -> Iterator[str]:
    head = case.head
    made = (case.checked_at or "")[:19].replace("T", " ")
    yield f"A bundle of pulsar-doctor {__version__}, {made} UTC"
    yield f"Watched for {duration(head.window_seconds)}, {many(head.samples, 'sample')}"
    yield "\nVerdicts"
    for judged, diagnosis in zip(case.subscriptions, diagnoses, strict=True):
        codes = [each.code for each in diagnosis.findings[:1]]
        verdict = " ".join([diagnosis.status, *codes]) if redacted else in_short(diagnosis)
        view = judged.view
        yield printable(f"  {view.subscription} on {view.full_topic}: {verdict}")
    yield "\nWhat it contains"
    for name in (README, *files):
        yield f"  {name}: {WHAT[name]}"
    yield "\nWhat was left out, and why"
    left_out = [*NEVER, *(() if CONFIGURATION in files else (REFUSED,))]
    for line in (*left_out, *(REDACTED if redacted else ())):
        yield f"  {line}"
    for topic, why in head.unreachable:
        yield printable(f"  {topic}: {why}")
