"""The alert rules and the dashboard: alerts and panels rest on what the page really has."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.report.stall_check.metrics import METRICS, NAMES, OF_SUBSCRIPTION, PREFIX
from tests.parts.monitoring.made import RULES, Rule, dashboard, longest, rules
from tests.parts.monitoring.prometheus import needing, tool

ROOT = Path(__file__).parents[3]
SELECTOR = re.compile(rf"{PREFIX}(\w+)(?:{{([^}}]*)}})?")
MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
NAMED = 'cluster="c",namespace="a/b",topic="persistent://a/b/t",subscription="s"'
STALLED = f'pulsar_doctor_finding{{{NAMED},cause="permits-exhausted",severity="stalled"}}'
CHECKED = "pulsar_doctor_checked_at_seconds"
ALERT = """\
      - eval_time: {at}
        alertname: {name}
        exp_alerts: {alerts}
"""


def labels_of(metric: str) -> set[str]:
    own = {"cluster", *METRICS[metric].labels}
    return own | {*NAMES} if metric in OF_SUBSCRIPTION else own


def selectors() -> list[tuple[str, str]]:
    queries = [rule.expr for rule in rules()]
    queries += [panel["targets"][0]["expr"] for panel in dashboard()["panels"]]
    return [(found[1], found[2] or "") for query in queries for found in SELECTOR.finditer(query)]


def test_every_query_names_metrics_and_labels_that_the_page_has() -> None:
    for metric, matchers in selectors():
        assert metric in METRICS
        assert {found[1] for found in MATCHER.finditer(matchers)} <= labels_of(metric)
    assert {metric for metric, _ in selectors()} >= METRICS.keys() - {
        "topics_not_loaded", "subscription_ranges_limit",
    }  # fmt: skip


@pytest.mark.parametrize("severity", ["stalled", "warning"])
def test_every_cause_has_one_rule_of_each_severity_and_so_has_one_of_the_future(
    severity: str,
) -> None:
    those = [each for each in rules() if f'severity="{severity}"' in each.expr]
    for code in (*(cause.code for cause in load()), "not-known-yet"):
        assert sum(applies(each, code) for each in those) == 1


def applies(rule: Rule, code: str) -> bool:
    [matcher] = [found for found in MATCHER.finditer(rule.expr) if found[1] == "cause"]
    return (re.fullmatch(matcher[3], code) is not None) == (matcher[2] == "=~")


def test_an_alert_waits_no_longer_than_its_cause_and_a_stall_at_most_one_round() -> None:
    limits = {cause.code: longest(cause) for cause in load()}
    for rule in rules():
        if rule.alert == "PulsarSubscriptionStalled":
            assert rule.seconds <= 30
        if rule.alert == "PulsarSubscriptionWarning":
            waits = [limit for code, limit in limits.items() if applies(rule, code)]
            assert max(waits) <= rule.seconds or rule.seconds == 600


def test_every_alert_has_a_page() -> None:
    for rule in rules():
        for cause in load():
            page = rule.runbook.replace("{{ $labels.cause }}", cause.code)
            assert (ROOT / page).is_file()


def test_panels_lie_beside_each_other_and_have_numbers_of_their_own() -> None:
    panels = dashboard()["panels"]
    taken = Counter(
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    )
    assert max(taken.values()) == 1
    assert max(x for x, _ in taken) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)


@pytest.mark.parametrize("what", ["rules", "dashboard"])
def test_the_command_prints_the_file(run: Callable[..., Any], what: str) -> None:
    code, out, err = run("monitoring", what)
    assert (code, err) == (0, "")
    if what == "rules":
        assert out == RULES.read_text()
    else:
        assert json.loads(out) == dashboard()


def test_a_word_that_is_neither_is_wrong_usage(run: Callable[..., Any]) -> None:
    assert run("monitoring", "alerts")[0] == 2


# By promtool, where it is


def promtool(*arguments: object) -> str:
    ran = subprocess.run(
        [tool("promtool"), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@needing("promtool")
def test_promtool_finds_nothing_to_say_against_the_rules() -> None:
    said = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert f"SUCCESS: {len(list(rules()))} rules found" in said


def unit_test(series: str, values: str, *alerts: tuple[str, str, bool]) -> str:
    """alerts: when, which, and whether it fires then."""
    lines = "".join(
        ALERT.format(at=at, name=name, alerts="[]" if not fires else _expected(name))
        for at, name, fires in alerts
    )
    return (
        f"  - interval: 10s\n    input_series:\n      - series: '{series}'\n"
        f"        values: '{values}'\n    alert_rule_test:\n{lines}"
    )


def _expected(name: str) -> str:
    rule = next(each for each in rules() if each.alert == name and each.seconds in (600, 0, 60))
    cause = "no-consumer" if rule.seconds == 60 else "permits-exhausted"
    named = {
        "cluster": "c", "namespace": "a/b", "topic": "persistent://a/b/t", "subscription": "s",
        "cause": cause, "severity": rule.severity, "waits": "1m" if rule.seconds else "0s",
    }  # fmt: skip
    labels = {"severity": "critical"} if "Doctor" in name else named
    notes = {"summary": rule.summary, "runbook_url": rule.runbook}
    for label, value in named.items():
        notes = {key: each.replace(f"{{{{ $labels.{label} }}}}", value)
                 for key, each in notes.items()}  # fmt: skip
    return json.dumps([{"exp_labels": labels, "exp_annotations": notes}])


@needing("promtool")
def test_promtool_plays_the_life_of_alerts(tmp_path: Path) -> None:
    stalled, warning = "PulsarSubscriptionStalled", "PulsarSubscriptionWarning"
    quiet = STALLED.replace("}", ',suppressed="true"}')
    gone = STALLED.replace("permits-exhausted", "no-consumer").replace("stalled", "warning")
    (tmp_path / "test.yml").write_text(
        f"rule_files: [{RULES}]\nevaluation_interval: 10s\ntests:\n"
        + unit_test(STALLED, "_ _ 1 1 1 stale", ("10s", stalled, False), ("20s", stalled, True),
                    ("1m", stalled, False))
        + unit_test(quiet, "1x30", ("4m", stalled, False))
        + unit_test(gone, "1x30", ("50s", warning, False), ("1m", warning, True))
        + unit_test(CHECKED, "0x60", ("5m", "PulsarDoctorOutdated", False),
                    ("6m20s", "PulsarDoctorOutdated", True))
    )  # fmt: skip
    assert "SUCCESS" in promtool("test", "rules", tmp_path / "test.yml")
