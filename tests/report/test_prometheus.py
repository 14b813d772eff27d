"""Prometheus: what node exporter's text file collector takes, for any names."""

from __future__ import annotations

import re
from typing import Any

from tests.report.checkups import DEADLINES, FALLING, checkup, finding, verdict, written

Sample = tuple[str, dict[str, str], float]
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)')
LINE = re.compile(r"([a-z_]+)(?:\{(.*)\})? (-?[0-9.e+]+)", re.DOTALL)
PLAIN = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


def parsed(text: str) -> list[Sample]:
    """All samples; each metric must begin with its HELP and TYPE and stand together."""
    samples: list[Sample] = []
    known: list[str] = []
    lines = text.split("\n")
    assert lines.pop() == ""
    for line in lines:
        if line.startswith("# HELP "):
            known.append(line.split(" ")[2])
        elif line.startswith("# TYPE "):
            assert line == f"# TYPE {known[-1]} gauge"
        else:
            samples.append(sample(line))
            assert samples[-1][0] == known[-1]
    assert len(known) == len(set(known))
    return samples


def sample(line: str) -> Sample:
    match = LINE.fullmatch(line)
    assert match, line
    name, told, value = match.groups()
    labels = {}
    while told:
        label = LABEL.match(told)
        assert label, told
        labels[label[1]] = re.sub(r"\\.", lambda found: PLAIN[found[0]], label[2])
        told = told[label.end() :]
    return name, labels, float(value)


def held(name: str) -> str:
    return "".join(
        char if char.isprintable() or char == "\n" else f"\\x{ord(char):02x}" for char in name
    )


def read(text: str) -> list[dict[str, Any]]:
    """What the samples of each subscription say, of metrics that are whole and stand together."""
    backlogs, rows = {}, []
    samples = parsed(text)
    for name, labels, value in samples:
        if name.endswith("_backlog_entries"):
            backlogs[tuple(labels.values())] = value
    for name, labels, value in samples:
        if name == "pulsar_doctor_subscription_status" and value == 1:
            topic, partition, subscription, status = labels.values()
            told = {"topic": topic, "subscription": subscription, "status": status}
            told |= {"partition": int(partition) if partition else None}
            rows.append(told | {"backlog": backlogs.get((topic, partition, subscription))})
    return rows


def test_a_whole_page() -> None:
    run = checkup(
        [
            verdict("stalled", partition=3, balance=FALLING, deadlines=DEADLINES),
            verdict("healthy", "audit", backlog=None),
        ],
        unreachable=[("persistent://a/b/gone", "404")],
    )
    orders = 'topic="persistent://public/default/orders"'
    billing = f'{orders},partition="3",subscription="billing"'
    audit = f'{orders},partition="",subscription="audit"'
    status = "pulsar_doctor_subscription_status"
    growth = "pulsar_doctor_subscription_growth_messages_per_second"
    limit = "pulsar_doctor_subscription_limit_reached_in_seconds"
    assert written("prometheus", run).splitlines() == [
        f"# HELP {status} 1 for the verdict of the subscription, 0 for the others.",
        f"# TYPE {status} gauge",
        f'pulsar_doctor_subscription_status{{{billing},status="stalled"}} 1',
        f'pulsar_doctor_subscription_status{{{billing},status="unknown"}} 0',
        f'pulsar_doctor_subscription_status{{{billing},status="warning"}} 0',
        f'pulsar_doctor_subscription_status{{{billing},status="healthy"}} 0',
        f'pulsar_doctor_subscription_status{{{audit},status="stalled"}} 0',
        f'pulsar_doctor_subscription_status{{{audit},status="unknown"}} 0',
        f'pulsar_doctor_subscription_status{{{audit},status="warning"}} 0',
        f'pulsar_doctor_subscription_status{{{audit},status="healthy"}} 1',
        "# HELP pulsar_doctor_subscription_backlog_entries "
        "Entries in the backlog; absent if the broker does not report it.",
        "# TYPE pulsar_doctor_subscription_backlog_entries gauge",
        f"pulsar_doctor_subscription_backlog_entries{{{billing}}} 498",
        f"# HELP {growth} What comes in less what is sent for the first time; absent if it is not "
        "known.",
        f"# TYPE {growth} gauge",
        f"{growth}{{{billing}}} 80.0",
        f"# HELP {limit} When it reaches a limit at its present pace, by limit.",
        f"# TYPE {limit} gauge",
        f'{limit}{{{billing},limit="message-ttl"}} 3600',
        "# HELP pulsar_doctor_finding "
        "1 for each cause that was found; more: pulsar-doctor explain CODE.",
        "# TYPE pulsar_doctor_finding gauge",
        f'pulsar_doctor_finding{{{billing},code="permits-exhausted",severity="stalled"}} 1',
        "# HELP pulsar_doctor_suspect_probability "
        "How likely the first suspect of an unknown verdict is, from 0 to 1.",
        "# TYPE pulsar_doctor_suspect_probability gauge",
        "# HELP pulsar_doctor_subscriptions Subscriptions by verdict, each partition apart.",
        "# TYPE pulsar_doctor_subscriptions gauge",
        'pulsar_doctor_subscriptions{status="stalled"} 1',
        'pulsar_doctor_subscriptions{status="unknown"} 0',
        'pulsar_doctor_subscriptions{status="warning"} 0',
        'pulsar_doctor_subscriptions{status="healthy"} 1',
        "# HELP pulsar_doctor_topics_not_loaded "
        "Topics that no broker has loaded, and that were not read.",
        "# TYPE pulsar_doctor_topics_not_loaded gauge",
        "pulsar_doctor_topics_not_loaded 0",
        "# HELP pulsar_doctor_topics_unreachable Topics that could not be read.",
        "# TYPE pulsar_doctor_topics_unreachable gauge",
        "pulsar_doctor_topics_unreachable 1",
        "# HELP pulsar_doctor_checked_at_seconds When this was written, in seconds since 1970.",
        "# TYPE pulsar_doctor_checked_at_seconds gauge",
        "pulsar_doctor_checked_at_seconds 1777636800.25",
    ]


def test_a_cause_of_several_consumers_is_one_series() -> None:
    findings = tuple(finding(consumer=name) for name in ("a", "b"))
    text = written("prometheus", checkup([verdict("stalled", findings=findings)]))
    assert sum(name == "pulsar_doctor_finding" for name, _, _ in parsed(text)) == 1


def test_quotes_backslashes_line_ends_and_half_characters_in_a_name() -> None:
    text = written("prometheus", checkup([verdict(subscription='a\\n"b\nc\ud800é')]))
    assert 'subscription="a\\\\n\\"b\\nc\\\\xd800é",status="healthy"} 1\n' in text
    assert parsed(text)[3][1]["subscription"] == 'a\\n"b\nc\\xd800é'
