"""Collects a bundle from a live broker: samples, the case, versions and harmless settings."""

from __future__ import annotations

import asyncio
import gzip
import json
import platform
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulsar_doctor import __version__
from pulsar_doctor.broker.samples.bundled import (
    BUNDLE_BYTES,
    CASE,
    CONFIGURATION,
    README,
    SAMPLES,
    TRACE,
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
    TRACE: "what was captured meanwhile, as a trace; `report BUNDLE` draws it, "
    "`stall-check --trace BUNDLE` reads it alone",
}
NEVER = (
    "payloads and keys of messages: they are never read",
    "credentials, and what users attach to consumers, producers and subscriptions: may be secret",
    "the rest of the broker's configuration: may be secret",
)
NOT_CAPTURED = "packets of clients: --capture adds them"
NOT_EXAMINED = "processes of clients: --examine adds what is seen of one"
NO_PACKETS = "packets: nothing that passed could be read as Pulsar"
TOO_LARGE = "packets: the trace is larger than a bundle may be; `capture --trace` keeps it"
NOT_REDACTED = (
    "the trace of the packets: it cannot be redacted; case.json has what it showed, without names"
)
TRACE_BYTES_MOST = BUNDLE_BYTES // 2
REFUSED = "the broker's configuration: not readable (it needs a superuser)"
REDACTED = (
    "names and addresses: pseudonyms are in their place, which agree within this bundle",
    "fields of the statistics that pulsar-doctor does not know, and all free text: --redact",
)


@dataclass(frozen=True, slots=True)
class Bundle:
    """What was collected. readme: its first file, as text. content: the archive."""

    readme: str
    content: bytes


@dataclass(frozen=True, slots=True)
class BundleParts:
    """What is in a bundle beside the broker's answers.

    names: with them it is redacted. trace: of a capture that the judge ends; None: none was
    requested, or was possible. left_out: why something that was requested is not in it.
    """

    names: Pseudonyms | None = None
    trace: Path | None = None
    left_out: tuple[str, ...] = ()


def of_live(
    request: LiveRequest, topics: Sequence[str], judge: Judge, parts: BundleParts
) -> Bundle:
    """Reads these topics over one window. judge: keeps views, may have a process or a capture.

    Raises DoctorError where nothing could be read.
    """
    with kept_samples(request, topics, judge, "put into a bundle") as (checkup, file):
        samples = file.read_bytes()
    return bundle_of(checkup, samples, asyncio.run(_settings(request)), judge, parts)


def bundle_of(
    checkup: Checkup, samples: bytes, settings: Mapping[str, str], judge: Judge, parts: BundleParts
) -> Bundle:
    """What was read as a bundle. samples: a file of --save; settings: as `allowed` lets through."""
    names = parts.names
    if judge.process is not None:
        judge.process.conclude(checkup, judge.diagnosed)
    diagnoses, case = [*checkup.examined()], case_of(checkup)
    if names is not None:
        case, samples = names.case(case), _redacted(samples, names)
    files = {
        CASE: _json(document_of(case)),
        SAMPLES: samples,
        VERSIONS: _json(_versions(case)),
        CONFIGURATION: _json(settings) if settings else b"",
    }
    files = {name: content for name, content in files.items() if content}
    trace, why = _trace_files(parts)
    files |= trace
    unread = [printable(f"{topic}: {reason}") for topic, reason in case.head.unreachable]
    left_out = [*_left_out(judge, files, parts), *why, *unread]
    contents = [*_verdicts(case, diagnoses, redacted=names is not None), *_contents(case, files)]
    readme = "\n".join((*contents, *_list("What was left out, and why", left_out))) + "\n"
    return Bundle(readme, packed({README: readme.encode(), **files}))


async def _settings(request: LiveRequest) -> dict[str, str]:
    async with request.admin() as admin:
        try:
            return allowed(await admin.configuration())
        except DoctorError:
            return {}


def allowed(reported: Mapping[str, Any]) -> dict[str, str]:
    """Of a broker's configuration what decides about deliveries, and is no text."""
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


def _trace_files(parts: BundleParts) -> tuple[dict[str, bytes], list[str]]:
    """The trace's files by their names in a bundle; otherwise why they are not there."""
    if parts.trace is None:
        return {}, []
    found = [each for each in sorted(parts.trace.glob("*")) if not each.name.endswith(".lock")]
    if not found:
        return {}, [NO_PACKETS]
    if parts.names is not None:
        return {}, [NOT_REDACTED]
    if sum(each.stat().st_size for each in found) > TRACE_BYTES_MOST:
        return {}, [TOO_LARGE]
    return {f"{TRACE}/{each.name}": each.read_bytes() for each in found}, []


def _verdicts(case: SavedCase, diagnoses: Sequence[Diagnosis], *, redacted: bool) -> Iterator[str]:
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


def _contents(case: SavedCase, files: Mapping[str, bytes]) -> Iterator[str]:
    what, process = dict(WHAT), case.head.process
    if process is not None:
        what[CASE] += f"; with what was seen of process {process.pid}"
    names = dict.fromkeys(name.partition("/")[0] for name in (README, *files))
    yield from _list("What it contains", [f"{name}: {what[name]}" for name in names])


def _left_out(judge: Judge, files: Mapping[str, bytes], parts: BundleParts) -> Iterator[str]:
    yield from NEVER
    if CONFIGURATION not in files:
        yield REFUSED
    if judge.captured is None and not parts.left_out:
        yield NOT_CAPTURED
    if judge.process is None:
        yield NOT_EXAMINED
    yield from parts.left_out
    if parts.names is not None:
        yield from REDACTED


def _list(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"\n{title}"
    yield from (f"  {line}" for line in lines)
