"""Collects a bundle from a live broker: samples, the case, versions and harmless settings."""

from __future__ import annotations

import asyncio
import gzip
import json
import platform
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulsar_doctor import __version__
from pulsar_doctor.broker.admin.broker_settings import configuration_of
from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.samples.bundled import (
    BUNDLE_BYTES,
    CASE,
    CONFIGURATION,
    README,
    SAMPLES,
    TRACE,
    VERSIONS,
)
from pulsar_doctor.checkup.case import SavedCase, case_of, document_of
from pulsar_doctor.checkup.judge import Judge
from pulsar_doctor.checkup.live import LiveRequest, kept_samples
from pulsar_doctor.checkup.recorded import of_files as of_recorded
from pulsar_doctor.checkup.redacting import Pseudonyms
from pulsar_doctor.checkup.result import STOPPED, Checkup
from pulsar_doctor.diagnosis.short_form import in_short
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.ledger.acks.persisting import SETTINGS
from pulsar_doctor.trace.opening import Say
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
BY_THIS_PROGRAM = {"segments", "transactions"}  # in a line of samples: no broker's answer
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
FILES = "the files themselves: dumps and logs may hold secrets; case.json has what they show"
NOT_REDACTED = (
    "the trace of the packets: it cannot be redacted; case.json has what it showed, without names"
)
TOO_LARGE = "packets: the trace is larger than a bundle may be; `capture --trace` keeps it"
TRACE_BYTES_MOST = BUNDLE_BYTES // 2
REDACTED = (
    "names and addresses: pseudonyms are in their place, which agree within this bundle",
    "fields of the statistics that pulsar-doctor does not know, and all free text: --redact",
)


@dataclass(frozen=True, slots=True)
class BundleParts:
    """What is in a bundle beside the broker's answers."""

    names: Pseudonyms | None = None  # redact the bundle with them; None: not redacted
    # of a capture that the judge ends; None: not requested, or not possible
    trace: Path | None = None
    left_out: tuple[str, ...] = ()  # why something that was requested is not in it


@dataclass(frozen=True, slots=True)
class Bundle:
    """What was judged, and the content of each file by its name."""

    checkup: Checkup
    files: Mapping[str, bytes]


def of_live(
    request: LiveRequest, topics: Sequence[str], judge: Judge, parts: BundleParts
) -> Bundle:
    """Reads these topics over one window. judge: keeps views, may have a process or a capture.

    Raises DoctorError where nothing could be read.
    """
    with kept_samples(request, topics, judge, "put into a bundle") as (checkup, file):
        samples = file.read_bytes()
    settings = asyncio.run(_settings(request))
    return Bundle(checkup, bundle_of(checkup, samples, settings, judge, parts))


def of_files(files: SampleFiles, judge: Judge, parts: BundleParts, say: Say) -> Bundle:
    """The same of what `stall-check --stats` takes: what the verdicts are made of, and no file.

    Raises InputError, DoctorError.
    """
    checkup = of_recorded(files, judge, say)
    return Bundle(checkup, bundle_of(checkup, b"", {}, judge, parts))


def bundle_of(
    checkup: Checkup, samples: bytes, settings: Mapping[str, str], judge: Judge, parts: BundleParts
) -> dict[str, bytes]:
    """The files of a bundle. samples: a file of --save; settings: as `allowed` lets through."""
    names = parts.names
    if judge.process is not None:
        judge.process.conclude(checkup, judge.diagnosed)
    diagnoses, case = [*checkup.examined()], case_of(checkup)
    if names is not None:
        case, samples = names.value(case), samples and _redacted(samples, names)
    trace, why = _trace_files(parts)
    files = {CASE: _json(document_of(case))} | ({SAMPLES: samples} if samples else {})
    files |= (
        {VERSIONS: _json(_versions(case))}
        | ({CONFIGURATION: _json(settings)} if settings else {})
        | trace
    )
    why += [printable(f"{topic}: {reason}") for topic, reason in case.head.unreachable]
    left_out = [*_left_out(judge, parts, files), *why]
    verdicts = map(_without_names if names else in_short, diagnoses)
    readme = [*_readme(case, verdicts, files), *(f"  {line}" for line in left_out), ""]
    return {README: "\n".join(readme).encode(), **files}


def _without_names(diagnosis: Diagnosis) -> str:
    return " ".join((diagnosis.status, *(each.code for each in diagnosis.findings[:1])))


async def _settings(request: LiveRequest) -> dict[str, str]:
    async with request.admin() as admin:
        return allowed(await configuration_of(admin, ALLOWED))


def allowed(reported: Mapping[str, Any]) -> dict[str, str]:
    """The settings of a broker's configuration that decide about deliveries, and are not text."""
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
    """The same file of --save without names."""
    first, *lines = map(json.loads, gzip.decompress(samples).splitlines())
    for line in lines:
        line["topic"] = names.of("topic", line["topic"])
        line |= {part: names.answer(line[part]) for part in ("stats", "internal") if part in line}
        line.update(names.fields({part: line[part] for part in BY_THIS_PROGRAM & line.keys()}))
        if version := line.get("broker_version"):
            line["broker_version"] = names.of("version", version)
    return gzip.compress(b"".join(map(_json, (first, *lines))))


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def _trace_files(parts: BundleParts) -> tuple[dict[str, bytes], list[str]]:
    """The trace's files by their names in a bundle; otherwise why they are not there."""
    if parts.trace is None:
        return {}, []
    found = [each for each in sorted(parts.trace.glob("*")) if not each.name.endswith(".lock")]
    if not found:
        return {}, ["packets: nothing that passed could be read as Pulsar"]
    if parts.names is not None:
        return {}, [NOT_REDACTED]
    if sum(each.stat().st_size for each in found) > TRACE_BYTES_MOST:
        return {}, [TOO_LARGE]
    return {f"{TRACE}/{each.name}": each.read_bytes() for each in found}, []


def _readme(case: SavedCase, verdicts: Iterable[str], files: Iterable[str]) -> Iterator[str]:
    """The first file: what was seen, and what each file is."""
    head, made = case.head, (case.checked_at or "")[:19].replace("T", " ")
    yield f"A bundle of pulsar-doctor {__version__}, {made} UTC"
    stopped = f"; {STOPPED}" if head.stopped else ""
    yield f"Watched for {duration(head.window_seconds)}, {many(head.samples, 'sample')}{stopped}"
    yield "\nVerdicts"
    for judged, verdict in zip(case.subscriptions, verdicts, strict=True):
        yield printable(f"  {judged.view.subscription} on {judged.view.full_topic}: {verdict}")
    yield "\nWhat it contains"
    seen = f"; with what was seen of process {head.process.pid}" if head.process else ""
    for name in dict.fromkeys(name.partition("/")[0] for name in (README, *files)):
        yield f"  {name}: {WHAT[name]}{seen if name == CASE else ''}"
    yield "\nWhat was left out, and why"


def _left_out(judge: Judge, parts: BundleParts, files: Container[str]) -> Iterator[str]:
    yield from NEVER
    if SAMPLES not in files:
        yield FILES
        return
    if CONFIGURATION not in files:
        yield "the broker's configuration: not readable (it needs a superuser)"
    if judge.captured is None and not parts.left_out:
        yield "packets of clients: --capture adds them"
    if judge.process is None:
        yield "processes of clients: --examine adds what is seen of one"
    yield from parts.left_out
    if parts.names is not None:
        yield from REDACTED
