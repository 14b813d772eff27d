"""Suppressed verdicts: which an entry covers, until when, and what a mistake in the file says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.checkup.suppressions import Suppressions, read
from pulsar_doctor.diagnosis.suppression import Suppression
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.errors import InputError
from pulsar_doctor.report.stall_check.wanted import Wanted
from tests.report.checkups import checkup, finding, verdict, written

FOREVER, OVER = "until = 2999-12-31", "until = 2026-01-31"
ENTRY = f'[[suppress]]\ntopic = "orders"\n{FOREVER}\nwhy = "moved by 42"\n'
QUIET = Suppression("*", "*", None, 32_503_680_000_000, "moved | by 42")
STATE = str(Path(__file__).parents[1] / "states/4.0.8/prefetch-hogging.jsonl.gz")


def suppressions(tmp_path: Path, text: str) -> Suppressions:
    file = tmp_path / "suppressions.toml"
    file.write_text(text)
    return read(file)


def entry(tmp_path: Path, **keys: str) -> Suppressions:
    given = {"topic": "orders", "why": "w"} | keys
    lines = [f'{key} = "{value}"' for key, value in given.items()]
    return suppressions(tmp_path, "\n".join(["[[suppress]]", *lines, FOREVER]))


@pytest.mark.parametrize(
    "pattern",
    ["orders", "ord*", "public/default/orders", "persistent://public/*/orders", "*://*/orders",
     "orders-partition-[0-9]", "public/*"],
)  # fmt: skip
def test_a_pattern_is_read_as_a_topic_is(tmp_path: Path, pattern: str) -> None:
    stalled = verdict("stalled", partition=3)
    found = entry(tmp_path, topic=pattern)
    assert found.of(stalled) is not None
    assert found.of(replace(stalled, topic="persistent://acme/prod/orders2")) is None


def test_a_subscription_is_a_pattern_too_and_without_one_it_is_every(tmp_path: Path) -> None:
    stalled = verdict("stalled", "billing")
    assert entry(tmp_path).of(stalled) is not None
    assert entry(tmp_path, subscription="bill*").of(stalled) is not None
    assert entry(tmp_path, subscription="bill").of(stalled) is None


def test_every_finding_has_to_be_covered_and_one_that_is_healthy_is_not_suppressed(
    tmp_path: Path,
) -> None:
    one = verdict("stalled")
    both = replace(one, findings=(*one.findings, finding(code="ack-hole", severity="warning")))
    told = replace(one, findings=(*one.findings, finding(code="ack-hole", severity="info")))
    of_one = entry(tmp_path, cause="permits-exhausted")
    assert of_one.of(one) is not None
    assert of_one.of(told) is not None
    assert of_one.of(both) is None
    assert entry(tmp_path).of(both) is not None
    assert entry(tmp_path).of(verdict("healthy")) is None


def test_an_unknown_verdict_has_no_cause_that_is_certain(tmp_path: Path) -> None:
    assert entry(tmp_path, cause="permits-exhausted").of(verdict("unknown")) is None
    assert entry(tmp_path).of(verdict("unknown")) is not None


def test_of_several_the_one_that_ends_first_is_named(tmp_path: Path) -> None:
    sooner = ENTRY.replace("2999", "2998").replace("moved", "sooner")
    found = suppressions(tmp_path, ENTRY + sooner).of(verdict("stalled"))
    assert found is not None
    assert str(found) == "until 2998-12-31 23:59 UTC: sooner by 42"


def test_one_that_has_ended_suppresses_nothing_and_is_a_warning(tmp_path: Path) -> None:
    found = suppressions(tmp_path, ENTRY.replace(FOREVER, OVER))
    assert found.of(verdict("stalled")) is None
    assert [*found.expired()] == [
        "the suppression of * on persistent://public/default/orders has ended (until 2026-01-31 "
        "23:59 UTC: moved by 42); delete it, or give it another end"
    ]
    assert [*suppressions(tmp_path, ENTRY).expired()] == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = [", "is not TOML: Invalid value (at end of document)"),
        ("\n[[suppress]\n", "is not TOML: Expected ']]' at the end of an array declaration (at "
         "line 2, column 11)"),
        (ENTRY + ENTRY.replace("why", "wy"), "line 5: why is missing"),
        (ENTRY + "causes = 'x'", "line 5: causes is not known; did you mean cause?"),
        (ENTRY.replace("2999-12-31", '"2999-12-31"'), "line 3: until is not a date without quotes"),
        (ENTRY.replace("2999-12-31", "0001-01-01T00:00:00+14:00"), "line 3: until is no moment"),
        (ENTRY.replace("2999-12-31", "07:30:00"), "line 3: until is not a date without quotes"),
        (ENTRY.replace('"moved by 42"', '"  "'), "line 4: why is not a text in quotes"),
        (ENTRY.replace('"orders"', "7"), "line 2: topic is not a text in quotes"),
        (ENTRY + "cause = 'permit-exhausted'", "line 5: cause is wrong, there is no cause 'permit-"
         "exhausted'; did you mean permits-exhausted"),
        ("suppress = [3]", "'suppress' is not a list; write [[suppress]] above each"),
        ("[suppress]\n", "'suppress' is not a list; write [[suppress]] above each"),
        (ENTRY.replace("orders", "orders[*"), "line 2: topic has a [ without its ]"),
        (ENTRY.replace("orders", "orders[]"), "line 2: topic has a [ without its ]"),
        (ENTRY + "subscription = 'a[!'", "line 5: subscription has a [ without its ]"),
        ("[[quiet]]\n", "'quiet' is not known; write [[suppress]] above each"),
        (f"a{'.a' * 100} = 1", "has a key of more than 32 parts"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InputError) as told:
        suppressions(tmp_path, text)
    assert str(tmp_path / "suppressions.toml") in str(told.value)
    assert why in str(told.value)


@pytest.mark.parametrize("pattern", ["[[]x", "[]x]*", "[!]x]", "a[0-9]*", "a]", "[!a]"])
def test_a_pattern_with_whole_brackets_is_taken(tmp_path: Path, pattern: str) -> None:
    assert suppressions(tmp_path, ENTRY.replace("orders", pattern)).entries


def test_a_file_that_is_named_has_to_be_there_and_the_default_need_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert read(None) == Suppressions()
    with pytest.raises(InputError, match="cannot read the file of suppressions"):
        read(tmp_path / "nowhere.toml")
    (tmp_path / "pulsar-doctor").mkdir()
    (tmp_path / "pulsar-doctor/suppressions.toml").write_text(ENTRY)
    assert len(read(None).entries) == 1


# What it does to the exit code, and to each format


def quiet(*diagnoses: Diagnosis, **more: Any) -> Checkup:
    return checkup([replace(each, suppressed=QUIET) for each in diagnoses], **more)


def test_it_counts_as_healthy_and_what_could_not_be_read_counts_as_before() -> None:
    for status in ("stalled", "unknown", "warning"):
        run = quiet(verdict(status))
        assert len(list(run.examined())) == 1
        assert run.tally.counts[status] == 1
        assert run.tally.exit_code("warning") == 0
    run = quiet(verdict("stalled"), unreachable=[("t", "gone")])
    run.diagnoses = [*run.diagnoses, verdict("warning")]
    assert len(list(run.examined())) == 2
    assert run.tally.exit_code("stalled") == 3
    assert run.tally.exit_code("warning") == 1


@pytest.mark.parametrize("name", ["table", "json", "jsonl", "junit", "github", "nagios"])
def test_each_format_keeps_the_verdict_and_says_that_it_is_suppressed(name: str) -> None:
    text = written(name, quiet(verdict("stalled")))
    assert "stalled" in text.lower()
    assert "by 42" in text


def test_where_it_is_in_each_format() -> None:
    document = json.loads(written("json", quiet(verdict("stalled"), verdict("warning", "b"))))
    assert document["suppressed"] == 2
    assert document["subscriptions"][0]["suppressed"] == {
        "until": "3000-01-01T00:00:00Z", "why": "moved | by 42",
    }  # fmt: skip
    suite = ElementTree.fromstring(written("junit", quiet(verdict("stalled")))).find("testsuite")
    assert suite is not None
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "1")
    assert not written("github", quiet(verdict("stalled"))).startswith("::error")
    first = written("nagios", quiet(verdict("stalled"))).partition("\n")[0]
    assert first.startswith("PULSAR STALL-CHECK OK - 1 of 1 subscription suppressed: billing on ")
    both = quiet(verdict("stalled"))
    both.diagnoses = [*both.diagnoses, verdict("warning", "mail")]
    line = written("nagios", both).partition("|")[0]
    assert line.startswith("PULSAR STALL-CHECK WARNING - 1 of 2 subscriptions warning: mail on ")
    assert line.endswith("; 1 suppressed")
    assert first.endswith(" suppressed=1;;;0")
    table = written("table", quiet(verdict("stalled")))
    assert "1 subscription: 1 stalled; 1 suppressed" in table
    assert "suppressed until 3000-01-01 00:00 UTC: moved | by 42" in table
    metrics = written("prometheus", quiet(verdict("stalled")))
    assert metrics.count('suppressed="true"') == 3


def test_those_that_are_suppressed_are_a_group_of_their_own() -> None:
    names = [f"s{number}" for number in range(20)]
    loud, still = ([verdict("stalled", f"{kind}{name}") for name in names] for kind in "ls")
    run = checkup([*loud, *(replace(each, suppressed=QUIET) for each in still)])
    text = written("table", run)
    assert text.count("20 subscriptions: permits-exhausted") == 2
    assert not Wanted().fails(replace(loud[0], suppressed=QUIET))


def test_on_the_command_line(run: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "quiet.toml"
    still = ENTRY.replace("orders", "prefetch-*")
    file.write_text(still + ENTRY.replace(FOREVER, OVER))
    told = ("stall-check", "--stats", STATE, "--suppressions", str(file))
    code, out, err = run(*told)
    assert (code, "1 stalled; 1 suppressed" in out) == (0, True)
    assert err.startswith("pulsar-doctor: the suppression of * on persistent://public/default/ord")
    assert run("stall-check", "--stats", STATE)[0] == 1
    file.write_text(still.replace("2999", "soon"))
    code, out, err = run(*told)
    assert (code, out) == (2, "")
    assert "is not TOML: Invalid value (at line 3, column 9)" in err
