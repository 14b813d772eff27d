"""Verdicts as a JUnit report: a test case for each subscription.

Two schemas are in use and differ: that of Apache Ant's reports (a suite has `package`, `id`,
`hostname`, properties, system-out and system-err; a case holds one element at most, a time stamp
has no zone) and that of Jenkins' xUnit plug-in. What is written here is valid for both, so what a
passing case has to report is in the suite's system-out. It is ASCII, with references for
other characters, so that no encoding of stdout can break it.
"""

from __future__ import annotations

import platform
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from tempfile import SpooledTemporaryFile
from typing import TextIO
from xml.sax.saxutils import escape, quoteattr

from pulsar_doctor.checkup.expected import Expectation
from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.report.plain import in_detail
from pulsar_doctor.report.stall_check.wanted import Wanted
from pulsar_doctor.report.words import NOTHING_JUDGED, cause, what_to_do
from pulsar_doctor.wording.printable import printable

IN_MEMORY_BYTES = 1 << 20


def spool() -> SpooledTemporaryFile[str]:
    """A place to write text to; it is gone when closed. Line ends stay as they are."""
    return SpooledTemporaryFile(IN_MEMORY_BYTES, "w+", encoding="utf-8", newline="")


def pour(spooled: SpooledTemporaryFile[str], out: TextIO) -> None:
    spooled.seek(0)
    shutil.copyfileobj(spooled, out)


OBEYED = re.compile("[\t\r\x7f]")
ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class _Suite:
    cases: SpooledTemporaryFile[str] = field(default_factory=spool)
    notes: SpooledTemporaryFile[str] = field(default_factory=spool)
    counts: Counter[str] = field(default_factory=Counter)

    def case(self, topic: str, name: str, result: tuple[str, str], seconds: float = 0.0) -> None:
        """One test case, watched for so long. result: the kind of its element, and the element."""
        kind, element = result
        self.counts.update(("tests", kind))
        self.cases.write(f"<testcase classname={_quoted(topic)} name={_quoted(name)}")
        end = f">{element}</testcase>\n" if kind else "/>\n"
        self.cases.write(f' time="{seconds:.3f}"{end}')


def write(checkup: Checkup, out: TextIO, wanted: Wanted) -> None:
    """What wanted.fails are failures; unknown and unreachable are errors; not loaded is skipped.

    So is what is unknown where that is accepted. That nothing was judged is an error, too.
    """
    suite, seconds = _Suite(), checkup.window_seconds
    for each in checkup.expectations:
        suite.case(each.topic or wanted.program, each.option, _expected(each), seconds)
    for diagnosis in checkup.examined():
        result = _result(diagnosis, wanted)
        suite.case(diagnosis.full_topic, diagnosis.subscription, result, seconds)
        suite.notes.writelines(_notes(diagnosis, wanted))
    for topic, reason in checkup.unreachable:
        suite.case(topic, "(unreachable)", ("errors", _element("error", "unreachable", reason)))
    for topic in checkup.not_loaded:
        suite.case(topic, "(not loaded)", ("skipped", '<skipped message="no broker has it"/>'))
    if not suite.counts["tests"] and wanted.accept_unknown != "all":
        suite.case(
            wanted.program, "(nothing)", ("errors", _element("error", "unknown", NOTHING_JUDGED))
        )
    _write(suite, checkup, out, wanted)


def _expected(each: Expectation) -> tuple[str, str]:
    """An expectation that cannot be decided is an error, as a verdict is."""
    if each.met:
        return "", ""
    kind, tag = ("errors", "error") if each.met is None else ("failures", "failure")
    text = f"{each.sentence}\nRemedy: {each.action}"
    return kind, _element(tag, each.option.split()[0].lstrip("-"), each.seen, text)


def _write(suite: _Suite, checkup: Checkup, out: TextIO, wanted: Wanted) -> None:
    out.write('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n')
    out.write(f"<testsuite {_attributes(suite.counts, checkup, wanted)}>\n<properties>\n")
    for name in ("source", "samples", "window_seconds"):
        out.write(f'<property name="{name}" value="{getattr(checkup, name)}"/>\n')
    out.write("</properties>\n")
    pour(suite.cases, out)
    out.write("<system-out>")
    pour(suite.notes, out)
    out.write("</system-out>\n<system-err/>\n</testsuite>\n</testsuites>\n")
    suite.cases.close()
    suite.notes.close()


def _attributes(counts: Counter[str], checkup: Checkup, wanted: Wanted) -> str:
    kinds = ("tests", "failures", "errors", "skipped")
    numbers = " ".join(f'{kind}="{counts[kind]}"' for kind in kinds)
    host = _quoted(platform.node().strip() or "localhost")
    return (
        f'name="{wanted.program}" package="pulsar-doctor" id="0" {numbers} '
        f'time="{checkup.window_seconds:.3f}" hostname={host} '
        f'timestamp="{checkup.checked_at:%Y-%m-%dT%H:%M:%S}"'
    )


def _result(diagnosis: Diagnosis, wanted: Wanted) -> tuple[str, str]:
    text = "\n".join(in_detail(diagnosis, with_actions=True))
    if wanted.fails(diagnosis):
        if diagnosis.status == "unknown":
            return "failures", _element("failure", "suspect", cause(diagnosis), text)
        worst = diagnosis.findings[0]
        return "failures", _element("failure", worst.code, worst.summary, text)
    if diagnosis.suppressed is not None:
        return "skipped", f"<skipped message={_quoted(f'suppressed {diagnosis.suppressed}')}/>"
    if wanted.accepts(diagnosis):
        return "skipped", f"<skipped message={_quoted(f'accepted: {cause(diagnosis)}')}/>"
    if diagnosis.status == "unknown":
        return "errors", _element("error", "unknown", cause(diagnosis), text)
    return "", ""


def _notes(diagnosis: Diagnosis, wanted: Wanted) -> Iterator[str]:
    """What a case that passes has to say."""
    if diagnosis.status != "unknown" and not wanted.fails(diagnosis):
        where = f"{diagnosis.subscription} on {diagnosis.full_topic}"
        for finding in diagnosis.findings:
            text = f"{finding.severity}: {where}: {finding.code}: {finding.summary}"
            yield f"{_text(text)}\n{_text(finding.remedy)}\n"
            yield from (
                f"{_text(printable(f'{name}: {text}'))}\n" for name, text in what_to_do(finding)
            )


def _element(tag: str, kind: str, message: str, text: str = "") -> str:
    return f"<{tag} type={_quoted(kind)} message={_quoted(message)}>{_text(text)}</{tag}>"


def _quoted(value: str) -> str:
    return _ascii(quoteattr(_legal(value)))


def _text(value: str) -> str:
    return _ascii(escape(_legal(value)))


def _legal(value: str) -> str:
    """Without what no XML document can hold, not even as a reference."""
    return ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", value)


def _ascii(value: str) -> str:
    """With references for what is no ASCII, and for what of it a terminal would obey."""
    printing = OBEYED.sub(lambda found: f"&#{ord(found[0])};", value)
    return printing.encode("ascii", "xmlcharrefreplace").decode("ascii")
