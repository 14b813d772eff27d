"""A page from each kind of source, of a stall, a warning, an unknown and a healthy state."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.sampling import SamplingPlan
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.checkup.case import case_of, for_page, of_case, read_case
from pulsar_doctor.checkup.incident import Incident, Recordings, of_live, of_recordings
from pulsar_doctor.checkup.live import LiveRequest
from pulsar_doctor.report.incident.page import page
from tests.broker.replayed import cluster, stuck
from tests.checkup.test_case import judge
from tests.made.states import FOLDER
from tests.made.traces import write_trace
from tests.made.wire import Wire, slow_consumer

STATES = {
    "stalled": "prefetch-hogging", "warning": "slow-but-progressing",
    "unknown": "negative-permits", "healthy": "healthy-busy",
}  # fmt: skip
LARGEST = 2_000_000


def wire(status: str) -> Wire:
    if status == "unknown":
        return Wire().open().attached(1, "w").flow(10).pushed(range(10)).lost().wait(30)
    if status == "warning":  # a message each ten seconds, of a full queue of a hundred
        said = Wire().open().attached().flow(100).pushed(range(100))
        for entry in range(8):
            said.wait(10).acked([entry])
        return said
    return slow_consumer().wait({"stalled": 400, "healthy": 0}[status])


def of_trace(status: str, folder: Path) -> Incident:
    return of_recordings(
        Recordings(write_trace(folder / "t.ptrace", wire(status).blocks), SampleFiles()),
        judge(), print, print,
    )  # fmt: skip


def of_capture(status: str, folder: Path) -> Incident:
    trace = write_trace(folder / "c.ptrace", wire(status).blocks, capture={"files": ["any"]})
    return of_recordings(Recordings(trace, SampleFiles()), judge(), print, print)


def state(status: str) -> Path:
    return FOLDER / "4.0.8" / f"{STATES[status]}.jsonl.gz"


def of_file(status: str, _: Path) -> Incident:
    """What `stall-check --save` and `examine --save` keep, which is the same."""
    files = SampleFiles([str(state(status))])
    return of_recordings(Recordings(None, files), judge(), print, print)


def of_topic(status: str, _: Path) -> Incident:
    """A live topic in a recorded state, read once: a busy machine changes nothing."""
    lines = map(json.loads, gzip.decompress(state(status).read_bytes()).splitlines())
    samples = [{**each, "date_ms": each["taken_ms"]} for each in lines if "stats" in each]
    with cluster({"orders": stuck() if status == "stalled" else samples}) as broker:
        live = LiveRequest(Settings(admin_url=broker.url), SamplingPlan(0))
        return of_live(live, ["orders"], judge())


SOURCES: dict[str, Callable[[str, Path], Incident]] = {
    "trace": of_trace, "capture": of_capture, "file of --save": of_file, "live": of_topic,
}  # fmt: skip


@pytest.mark.parametrize("status", STATES)
@pytest.mark.parametrize("source", SOURCES)
def test_a_page_of_each_source_and_verdict(source: str, status: str, tmp_path: Path) -> None:
    incident = SOURCES[source](status, tmp_path)
    (diagnosis,) = incident.checkup.diagnoses
    assert diagnosis.status == status
    case = case_of(incident.checkup)
    file = tmp_path / "page.html"
    file.write_text(page(incident, for_page(case)))
    assert file.stat().st_size <= LARGEST
    body = unescape(file.read_text().partition("<body>")[2].partition("<footer")[0])
    title = re.search("<h1>(.*?)</h1>", body)
    assert title is not None
    assert title[1].startswith(status.upper())
    assert all(finding.summary in body for finding in diagnosis.findings)
    assert ("<dt>" in body) is (status != "healthy" or "suspect" in body)
    flat = status == "unknown" and source == "file of --save"
    assert ('id="consumer-1"' in body) is (source != "live" and not flat)
    assert "All the time: " in body or not flat
    (again,) = of_case(read_case(str(file)), judge(), (), "page.html").diagnoses
    assert (again.status, again.findings) == (status, diagnosis.findings)
