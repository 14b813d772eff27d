"""Makes rules.yml and dashboard.json of the part from causes and metrics, for tests.generate."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulsar_doctor.diagnosis.answers import LIKELY
from pulsar_doctor.diagnosis.cause import Cause, page_of
from pulsar_doctor.diagnosis.causes import load

FOLDER = Path(__file__).parents[3] / "pulsar_doctor/parts/monitoring"
RULES, DASHBOARD = FOLDER / "rules.yml", FOLDER / "dashboard.json"
NAMED = "{{ $labels.subscription }} on {{ $labels.topic }}"
OF_CAUSE = page_of("{{ $labels.cause }}")
HEAD = """\
# Alert rules for what `pulsar-doctor stall-check --all --watch --listen` answers.
# Made from the causes and their thresholds; runbook_url is a path in pulsar-doctor's repository.
# A finding of a stall has waited for its cause's own thresholds: the alert follows at once, or
# after one more round where the cause has none. A warning has to last as long as these thresholds.
groups:
"""
MINUTE = 60
UNSUPPRESSED = (
    'and on (cluster, topic, subscription) pulsar_doctor_subscription_status{suppressed=""}'
)


@dataclass(frozen=True, slots=True)
class Rule:
    alert: str
    expr: str
    seconds: int
    severity: str
    summary: str
    runbook: str
    group: str = "pulsar-doctor-verdicts"

    @property
    def lines(self) -> Iterator[str]:
        yield f"      - alert: {self.alert}"
        yield f"        expr: {_quoted(self.expr)}"
        yield f"        for: {_duration(self.seconds)}"
        yield "        labels:"
        yield f"          severity: {self.severity}"
        if "Subscription" in self.alert:
            yield f"          waits: {_duration(self.seconds)}"
        yield "        annotations:"
        yield f"          summary: {_quoted(self.summary)}"
        yield f"          runbook_url: {_quoted(self.runbook)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _duration(seconds: int) -> str:
    whole = seconds % MINUTE == 0 and seconds > 0
    return f"{seconds // MINUTE}m" if whole else f"{seconds}s"


def longest(cause: Cause) -> float:
    """Seconds that the cause waits at most before it is certain; 0: it waits for nothing."""
    return max((each.default for each in cause.thresholds if each.unit == "seconds"), default=0)


def of_warning(cause: Cause) -> int:
    """A warning lasts for so long before somebody is called: 1, 5 or 10 minutes."""
    return next((at * MINUTE for at in (1, 5) if longest(cause) <= at * MINUTE), 10 * MINUTE)


def of_stall(cause: Cause) -> int:
    return 0 if longest(cause) >= MINUTE / 2 else MINUTE // 2


def of_findings(severity: str, waits: Mapping[int, Sequence[str]], default: int) -> Iterator[Rule]:
    """A rule for each time; the default one has every cause that no other one names."""
    others = [code for seconds, codes in waits.items() if seconds != default for code in codes]
    for seconds, codes in sorted(waits.items()):
        which = (
            f'cause!~"{"|".join(others)}"' if seconds == default else f'cause=~"{"|".join(codes)}"'
        )
        yield Rule(
            f"PulsarSubscription{severity.capitalize()}",
            f'pulsar_doctor_finding{{severity="{severity}",suppressed="",{which}}}',
            seconds, "critical" if severity == "stalled" else "warning",
            f"{NAMED} is {'stalled' if severity == 'stalled' else 'in trouble'}: "
            "{{ $labels.cause }}", OF_CAUSE,
        )  # fmt: skip


def rules() -> Iterator[Rule]:
    stalls, warnings = defaultdict[int, list[str]](list), defaultdict[int, list[str]](list)
    for cause in load():
        stalls[of_stall(cause)].append(cause.code)
        warnings[of_warning(cause)].append(cause.code)
    yield from of_findings("stalled", stalls, MINUTE // 2)
    yield from of_findings("warning", warnings, MINUTE)
    yield Rule(
        "PulsarSubscriptionSuspected",
        f"pulsar_doctor_suspect_probability >= {LIKELY} {UNSUPPRESSED}",
        5 * MINUTE, "warning",
        f"{NAMED} may be stuck: {{{{ $labels.cause }}}} is likely", OF_CAUSE,
    )  # fmt: skip
    yield Rule(
        "PulsarSubscriptionUnknown",
        'pulsar_doctor_subscription_status{status="unknown",suppressed=""}',
        30 * MINUTE, "info", f"nothing decides whether {NAMED} is well", "docs/verdicts.md",
    )  # fmt: skip
    for matcher, code in (("!=", "falls-behind"), ("=", "holes-over-limit")):
        yield Rule(
            f"PulsarSubscriptionReaches{'Limit' if matcher == '!=' else 'RangesLimit'}",
            f'pulsar_doctor_subscription_limit_seconds{{limit{matcher}"acknowledged-ranges"}} '
            f"< 3600 {UNSUPPRESSED}",
            5 * MINUTE, "warning",
            f"{NAMED} reaches {{{{ $labels.limit }}}} in {{{{ $value | humanizeDuration }}}}",
            page_of(code),
        )  # fmt: skip
    yield from of_the_doctor()


def of_the_doctor() -> Iterator[Rule]:
    page, group = "docs/monitoring.md", "pulsar-doctor"
    age = "pulsar_doctor_checked_at_seconds"
    yield Rule(
        "PulsarDoctorOutdated", f"time() - {age} > 300 or absent({age})", MINUTE, "critical",
        "no round of pulsar-doctor has ended for five minutes: no alert of it says anything", page,
        group,
    )  # fmt: skip
    yield Rule(
        "PulsarDoctorTopicsUnread", "pulsar_doctor_topics_unreachable > 0", 5 * MINUTE, "warning",
        "{{ $value }} topics could not be read: what is new there has no alert", page, group,
    )  # fmt: skip
    yield Rule(
        "PulsarDoctorSeriesCut", "pulsar_doctor_subscriptions_cut > 0", MINUTE, "critical",
        "{{ $value }} subscriptions are {{ $labels.status }} and have no alerts: too many",
        page, group,
    )  # fmt: skip


def rules_text() -> str:
    found, groups = list(rules()), defaultdict[str, list[str]](list)
    for rule in found:
        groups[rule.group] += rule.lines
    named = (f"  - name: {name}\n    rules:\n" + "\n".join(those) for name, those in groups.items())
    return HEAD + "\n".join(named) + "\n"


HERE = 'cluster=~"$cluster",namespace=~"$namespace"'
# Of each panel: its title, kind, unit, width of 24, query, and what a series is called.
Panel = tuple[str, str, str, int, str, str]
BY_NAME = "{{subscription}} on {{topic}}"


def of_each(title: str, unit: str, metric: str, more: str = "") -> Panel:
    return title, "timeseries", unit, 12, f"pulsar_doctor_{metric}{{{HERE}}}", f"{BY_NAME}{more}"


def panels() -> Iterator[Panel]:
    for status in ("stalled", "warning", "unknown", "healthy"):
        yield (
            status.capitalize(), "stat", "short", 4,
            f'sum(pulsar_doctor_subscriptions{{{HERE},status="{status}"}}) or vector(0)', status,
        )  # fmt: skip
    yield (
        "Suppressed", "stat", "short", 4,
        f'sum(pulsar_doctor_subscriptions{{{HERE},suppressed="true"}}) or vector(0)', "suppressed",
    )  # fmt: skip
    yield (
        "Age of the round", "stat", "s", 4,
        'time() - max(pulsar_doctor_checked_at_seconds{cluster=~"$cluster"})', "age",
    )  # fmt: skip
    by = f'sum by (status, cause) (pulsar_doctor_subscriptions{{{HERE},status!="healthy"}})'
    yield "Subscriptions by cause", "timeseries", "short", 12, by, "{{status}} {{cause}}"
    where = f'sum by (namespace) (pulsar_doctor_subscriptions{{{HERE},status!="healthy"}})'
    yield "Not healthy by namespace", "timeseries", "short", 12, where, "{{namespace}}"
    found = f"pulsar_doctor_finding{{{HERE}}}"
    yield "Findings", "table", "short", 24, found, ""
    yield of_each("Backlog", "short", "subscription_backlog_entries")
    yield of_each("Oldest unacknowledged message", "s", "subscription_oldest_message_seconds")
    yield of_each("Growth, messages a second", "short", "subscription_growth_messages_per_second")
    yield of_each("Until a limit is reached", "s", "subscription_limit_seconds", ": {{limit}}")
    yield of_each("Until the next FLOW", "s", "subscription_next_flow_seconds")
    yield of_each("Longest rest of a place", "s", "subscription_rest_seconds")
    yield of_each("Where the messages are", "short", "subscription_place_entries", ": {{place}}")
    share = (
        f"pulsar_doctor_subscription_ranges{{{HERE}}} "
        f"/ (pulsar_doctor_subscription_ranges_limit{{{HERE}}} > 0)"
    )
    yield "Acknowledged ranges of their limit", "timeseries", "percentunit", 12, share, BY_NAME
    yield of_each("Probability of the first suspect", "percentunit", "suspect_probability",
                  ": {{cause}}")  # fmt: skip
    lost = 'pulsar_doctor_topics_unreachable{cluster=~"$cluster"}'
    yield "Topics that could not be read", "timeseries", "short", 6, lost, "{{cluster}}"
    cut = 'pulsar_doctor_subscriptions_cut{cluster=~"$cluster"}'
    yield "Subscriptions without series", "timeseries", "short", 6, cut, "{{status}}"


def _placed() -> Iterator[tuple[Panel, dict[str, int]]]:
    x = y = tallest = 0
    for panel in panels():
        width, height = panel[3], 4 if panel[1] == "stat" else 8
        if x + width > 24:
            x, y, tallest = 0, y + tallest, 0
        yield panel, {"x": x, "y": y, "w": width, "h": height}
        x, tallest = x + width, max(tallest, height)


def dashboard() -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    shown = [
        {
            "id": number, "title": title, "type": kind, "gridPos": place, "datasource": source,
            "fieldConfig": {"defaults": {"unit": unit}, "overrides": []}, "options": {},
            "targets": [
                {"refId": "A", "datasource": source, "expr": expr, "legendFormat": legend}
                | ({"format": "table", "instant": True} if kind == "table" else {}),
            ],
        }
        for number, ((title, kind, unit, _, expr, legend), place) in enumerate(_placed(), 1)
    ]  # fmt: skip
    choose: list[dict[str, Any]] = [
        {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    ]
    for name in ("cluster", "namespace"):
        choose.append({
            "name": name, "type": "query", "datasource": source, "multi": True, "includeAll": True,
            "allValue": ".*", "refresh": 2,
            "query": f"label_values(pulsar_doctor_subscriptions, {name})",
        })  # fmt: skip
    return {
        "title": "Pulsar subscriptions by cause", "uid": "pulsar-doctor", "schemaVersion": 39,
        "tags": ["pulsar", "pulsar-doctor"], "timezone": "utc", "refresh": "30s", "editable": True,
        "time": {"from": "now-6h", "to": "now"}, "templating": {"list": choose}, "panels": shown,
        "annotations": {"list": []},
    }  # fmt: skip


def files() -> Iterator[tuple[Path, str]]:
    yield RULES, rules_text()
    yield DASHBOARD, json.dumps(dashboard(), indent=1) + "\n"
