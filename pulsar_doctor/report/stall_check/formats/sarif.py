"""Verdicts as SARIF 2.1.0, for GitHub code scanning and similar tools.

A result needs a file there: it is the topic, as a path. A fingerprint keeps a result that comes
again from being a new one: the rule, the topic, the subscription and the consumer.
https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, TextIO
from urllib.parse import quote

from pulsar_doctor import __version__
from pulsar_doctor.checkup.expected import Expectation
from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.diagnosis.weighing import Diagnosis
from pulsar_doctor.report.plain import in_detail
from pulsar_doctor.report.stall_check.wanted import Wanted
from pulsar_doctor.report.words import full_topic
from pulsar_doctor.wording.printable import printable

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
ENCODING = "utf-8"  # of JSON between programs
UNKNOWN, UNREACHABLE = "unknown", "unreachable"


def write(checkup: Checkup, out: TextIO, wanted: Wanted) -> None:
    """A result for each verdict that is not healthy, and for each expectation that is not met."""
    rules = dict[str, None]()
    out.write(f'{{"version": "2.1.0", "$schema": "{SCHEMA}", "runs": [{{"results": [')
    for number, result in enumerate(_results(checkup, wanted)):
        rules[result["ruleId"]] = None
        out.write(",\n" if number else "\n")
        out.write(_json(result))
    driver = {
        "name": wanted.program,
        "version": __version__,
        "rules": [{"id": code, "help": {"text": _help(code)}} for code in rules],
    }
    out.write(f'\n], "tool": {_json({"driver": driver})}}}]}}\n')


def _json(value: Any) -> str:
    """All texts in it are printable."""
    return json.dumps(value, ensure_ascii=False)


def _help(code: str) -> str:
    cause = not code.startswith("expect-") and code not in (UNKNOWN, UNREACHABLE)
    return f"pulsar-doctor explain {code}" if cause else "pulsar-doctor --help"


def _results(checkup: Checkup, wanted: Wanted) -> Iterator[dict[str, Any]]:
    yield from (_unmet(each) for each in checkup.expectations if not each.met)
    for diagnosis in checkup.examined():
        if diagnosis.status != "healthy":
            yield _unwell(diagnosis, wanted)
    for topic, reason in checkup.unreachable:
        yield _result(UNREACHABLE, "error", printable(reason), (topic, "", ""))


def _unmet(each: Expectation) -> dict[str, Any]:
    code = each.option.split()[0].lstrip("-")
    where = (each.topic or "", each.subscription or "", each.consumer or "")
    text = f"{printable(each.sentence)}\nRemedy: {printable(each.action)}"
    return _result(code, "error", text, where)


def _unwell(diagnosis: Diagnosis, wanted: Wanted) -> dict[str, Any]:
    decided = diagnosis.status != "unknown" and diagnosis.findings
    first = diagnosis.findings[0] if decided else None
    fails = wanted.fails(diagnosis) or diagnosis.status == "unknown"
    return _result(
        first.code if first else UNKNOWN,
        "error" if fails else "warning",
        "\n".join((_headline(diagnosis), *in_detail(diagnosis, with_actions=True))),
        (full_topic(diagnosis), diagnosis.subscription, (first and first.consumer) or ""),
    )


def _headline(diagnosis: Diagnosis) -> str:
    return printable(f"{diagnosis.status}: {diagnosis.subscription} on {full_topic(diagnosis)}")


def _result(code: str, level: str, text: str, where: tuple[str, str, str]) -> dict[str, Any]:
    """where: topic, subscription and consumer."""
    topic, subscription, _ = map(printable, where)
    path = quote(topic.replace("://", "/", 1)) or "pulsar"
    name = "/".join(filter(None, (topic, subscription)))
    place: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": path}, "region": {"startLine": 1}}
    }
    if name:
        place["logicalLocations"] = [{"fullyQualifiedName": name}]
    print_ = sha256("\0".join((code, *where)).encode("utf-8", "surrogatepass")).hexdigest()
    return {
        "ruleId": code,
        "level": level,
        "message": {"text": text},
        "locations": [place],
        "partialFingerprints": {"pulsarDoctor/v1": print_},
    }
