"""SARIF: what its schema wants and GitHub's code scanning needs, with what is not healthy."""

from __future__ import annotations

import json

from pulsar_doctor.checkup.expected import Expectation
from tests.report.checkups import actions_on, checkup, finding, verdict, written

UNMET = Expectation(
    "--expect-acked all",
    False,
    "0 of 200 delivered messages acknowledged; worker-1 of billing on orders holds 200",
    action="see what it did: pulsar-doctor trace summary t.ptrace",
    topic="persistent://public/default/orders",
    subscription="billing",
    consumer="worker-1",
    delivered=200,
)


def read(text: str) -> str:
    """One run whose results have rules, a level, a place and a fingerprint of their own."""
    document = json.loads(text)
    assert document["version"] == "2.1.0"
    assert document["$schema"].endswith("sarif-schema-2.1.0.json")
    [run] = document["runs"]
    driver = run["tool"]["driver"]
    rules = [rule["id"] for rule in driver["rules"]]
    assert driver["name"]
    assert len(set(rules)) == len(rules)
    told = []
    for result in run["results"]:
        assert result["ruleId"] in rules
        assert result["level"] in ("error", "warning")
        assert len(result["partialFingerprints"]["pulsarDoctor/v1"]) == 64
        [place] = result["locations"]
        uri = place["physicalLocation"]["artifactLocation"]["uri"]
        assert uri.isascii()
        assert "://" not in uri
        assert place["physicalLocation"]["region"] == {"startLine": 1}
        [name] = place.get("logicalLocations", [{"fullyQualifiedName": ""}])
        told += [name["fullyQualifiedName"], result["message"]["text"]]
    return "\n".join(told)


def test_what_fails_is_an_error_with_its_consumer_numbers_and_first_action() -> None:
    actions = actions_on("restart")
    run = checkup(
        [
            verdict("healthy", "search"),
            verdict("warning", "mail"),
            verdict("unknown", "audit"),
            verdict("stalled", "billing", findings=(finding(actions=actions),)),
        ],
        unreachable=[("persistent://a/b/gone", "404: no such topic")],
    )
    text = written("sarif", run)
    results = json.loads(text)["runs"][0]["results"]
    assert [(each["ruleId"], each["level"]) for each in results] == [
        ("permits-exhausted", "warning"),
        ("unknown", "error"),
        ("permits-exhausted", "error"),
        ("unreachable", "error"),
    ]
    last = results[2]["message"]["text"].splitlines()
    assert last[0] == "stalled: billing on persistent://public/default/orders"
    assert last[1] == (
        "permits-exhausted of worker-3: worker-3 holds 500 messages and has 0 permits"
    )
    assert last[2].startswith("Numbers: ")
    assert last[3].startswith("Remedy: ")
    assert read(text)
    prints = {each["partialFingerprints"]["pulsarDoctor/v1"] for each in results}
    assert len(prints) == len(results)


def test_an_expectation_that_is_not_met_is_in_every_format_for_ci(tmp_path, monkeypatch) -> None:
    page = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    for name in ("sarif", "junit", "github"):
        run = checkup([verdict("healthy")])
        run.expectations = (UNMET, Expectation("--expect-consumers 1", True, "1 consumer came"))
        text = written(name, run)
        assert UNMET.said in text.replace("%3A", ":"), name
        assert UNMET.action in text, name
        assert "1 consumer came" not in text
    told = page.read_text()
    assert "### pulsar-doctor stall" in told
    assert "| \N{CROSS MARK} \\-\\-expect\\-acked all |" in told
    assert "| \N{WHITE HEAVY CHECK MARK} \\-\\-expect\\-consumers 1 |" in told
    assert "worker\\-1 of billing on orders holds 200" in told


def test_no_name_acts_on_the_page_of_the_job(tmp_path, monkeypatch) -> None:
    page = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    evil = "a|b<img src=x>`c`[d](http://e)\n# f"
    written("github", checkup([verdict("stalled", evil)]))
    [row] = [line for line in page.read_text().splitlines() if line.startswith("| stalled")]
    assert (
        "a\\|b&lt;img src=x\\>\\`c\\`\\[d\\]\\(http\\://e\\)\N{REPLACEMENT CHARACTER}\\# f" in row
    )


def test_a_name_makes_no_link_and_no_formula_on_the_page_of_the_job(tmp_path, monkeypatch) -> None:
    page = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    written("github", checkup([verdict("stalled", "www.evil.example WWW.x $a$ &b")]))
    [row] = [line for line in page.read_text().splitlines() if line.startswith("| stalled")]
    dollar = "<span>$</span>"
    assert f"www\\.evil.example WWW\\.x {dollar}a{dollar} &amp;b" in row
