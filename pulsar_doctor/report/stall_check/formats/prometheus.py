"""Verdicts as metrics for the text file collector of Prometheus' node exporter.

All samples of one metric must stand together, so those that come later are spooled.
https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from tempfile import SpooledTemporaryFile
from typing import TextIO

from pulsar_doctor.checkup.result import STATUSES, Checkup
from pulsar_doctor.diagnosis.weighing import Diagnosis
from pulsar_doctor.report.spool import pour, spool
from pulsar_doctor.report.stall_check.wanted import Wanted
from pulsar_doctor.wording.printable import CHARACTERS_MOST, printable

ENCODING = "utf-8"  # by its definition
STATUS = "pulsar_doctor_subscription_status"
BACKLOG = "pulsar_doctor_subscription_backlog_entries"
GROWTH = "pulsar_doctor_subscription_growth_messages_per_second"
DEADLINE = "pulsar_doctor_subscription_limit_reached_in_seconds"
FINDING = "pulsar_doctor_finding"
SUSPECT = "pulsar_doctor_suspect_probability"
SUBSCRIPTIONS = "pulsar_doctor_subscriptions"
NOT_LOADED = "pulsar_doctor_topics_not_loaded"
UNREACHABLE = "pulsar_doctor_topics_unreachable"
CHECKED_AT = "pulsar_doctor_checked_at_seconds"
MEANINGS = {
    STATUS: "1 for the verdict of the subscription, 0 for the others.",
    BACKLOG: "Entries in the backlog; absent if the broker does not report it.",
    GROWTH: "What comes in less what is sent for the first time; absent if it is not known.",
    DEADLINE: "When it reaches a limit at its present pace, by limit.",
    FINDING: "1 for each cause that was found; more: pulsar-doctor explain CODE.",
    SUSPECT: "How likely the first suspect of an unknown verdict is, from 0 to 1.",
    SUBSCRIPTIONS: "Subscriptions by verdict, each partition apart.",
    NOT_LOADED: "Topics that no broker has loaded, and that were not read.",
    UNREACHABLE: "Topics that could not be read.",
    CHECKED_AT: "When this was written, in seconds since 1970.",
}
ESCAPES = {"\\": r"\\", '"': r"\"", "\n": r"\n"}


@dataclass(frozen=True, slots=True)
class _Spools:
    status: SpooledTemporaryFile[str] = field(default_factory=spool)
    backlog: SpooledTemporaryFile[str] = field(default_factory=spool)
    growth: SpooledTemporaryFile[str] = field(default_factory=spool)
    deadline: SpooledTemporaryFile[str] = field(default_factory=spool)
    finding: SpooledTemporaryFile[str] = field(default_factory=spool)
    suspect: SpooledTemporaryFile[str] = field(default_factory=spool)

    def add(self, diagnosis: Diagnosis) -> None:
        """One more subscription."""
        names = _names(diagnosis)
        for status in STATUSES:
            value = int(status == diagnosis.status)
            self.status.write(_sample(STATUS, value, **names, status=status))
        if diagnosis.backlog is not None:
            self.backlog.write(_sample(BACKLOG, diagnosis.backlog, **names))
        balance = diagnosis.balance
        if balance is not None and balance.growth is not None:
            self.growth.write(_sample(GROWTH, round(balance.growth.about, 3), **names))
        for each in diagnosis.deadlines:
            value = round(each.seconds)
            self.deadline.write(_sample(DEADLINE, value, **names, limit=each.limit))
        # Several consumers may share a cause; a label for each would be too many time series.
        for cause in dict.fromkeys((one.code, one.severity) for one in diagnosis.findings):
            code, severity = cause
            self.finding.write(_sample(FINDING, 1, **names, code=code, severity=severity))
        for first in diagnosis.suspects[:1]:
            self.suspect.write(
                _sample(SUSPECT, round(first.probability, 3), **names, code=first.code)
            )


def write(checkup: Checkup, out: TextIO, wanted: Wanted) -> None:
    """Every metric with its HELP and TYPE, all of them gauges."""
    spools = _Spools()
    for diagnosis in checkup.examined():
        spools.add(diagnosis)
    families = {
        STATUS: spools.status,
        BACKLOG: spools.backlog,
        GROWTH: spools.growth,
        DEADLINE: spools.deadline,
        FINDING: spools.finding,
        SUSPECT: spools.suspect,
    }
    for name, samples in families.items():
        out.write(_head(name))
        pour(samples, out)
        samples.close()
    out.writelines(_totals(checkup))


def _totals(checkup: Checkup) -> Iterator[str]:
    tally = checkup.tally
    yield _head(SUBSCRIPTIONS)
    for status in STATUSES:
        yield _sample(SUBSCRIPTIONS, tally.counts[status], status=status)
    yield _head(NOT_LOADED) + _sample(NOT_LOADED, tally.not_loaded)
    yield _head(UNREACHABLE) + _sample(UNREACHABLE, tally.unreachable)
    yield _head(CHECKED_AT) + _sample(CHECKED_AT, checkup.checked_at.timestamp())


def _names(diagnosis: Diagnosis) -> dict[str, str]:
    partition = "" if diagnosis.partition is None else str(diagnosis.partition)
    return {
        "topic": diagnosis.topic,
        "partition": partition,
        "subscription": diagnosis.subscription,
    }


def _head(name: str) -> str:
    return f"# HELP {name} {MEANINGS[name]}\n# TYPE {name} gauge\n"


def _sample(metric: str, value: float, **labels: str) -> str:
    told = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{metric}{{{told}}} {value}\n" if told else f"{metric} {value}\n"


def _escaped(text: str) -> str:
    if len(text) > CHARACTERS_MOST:
        text = printable(text)
    return "".join(ESCAPES.get(char) or _shown(char) for char in text)


def _shown(char: str) -> str:
    """What does not print is told by its number: labels that differ must not become one."""
    return char if char.isprintable() else f"\\\\x{ord(char):02x}"
