"""Verdicts that come one by one: the first are there early, and Ctrl-C ends with those."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.checkup.one_by_one import FIRST, one_by_one
from pulsar_doctor.checkup.recorded import of_files
from pulsar_doctor.checkup.result import REST, Checkup
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.errors import InputError
from tests.checkup.test_case import judge

MANY = FIRST + 100


class Steps:
    """How far it has come."""

    def __init__(self) -> None:
        self.done = self.planned = 0
        self.stopped = False

    def __call__(self, done: int, planned: int, what: str) -> None:
        assert what == "subscriptions"
        self.done, self.planned = done, planned

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def files(tmp_path: Path) -> SampleFiles:
    one = {"msgBacklog": 1, "type": "Shared", "consumers": []}
    file = tmp_path / "stats.json"
    file.write_text(json.dumps({"subscriptions": {f"s{n}": one for n in range(MANY)}}))
    return SampleFiles([str(file)])


def test_the_first_verdicts_come_before_the_last_are_made(files: SampleFiles) -> None:
    steps = Steps()
    coming = iter(of_files(files, judge(), str, steps).diagnoses)
    next(coming)
    assert (steps.done, steps.planned, steps.stopped) == (FIRST - 1, MANY, False)
    assert len([*coming]) == MANY - 1
    assert (steps.done, steps.stopped) == (MANY, True)


def test_ctrl_c_ends_with_what_is_certain_by_then(files: SampleFiles) -> None:
    steps, before = Steps(), signal.getsignal(signal.SIGINT)
    checkup = of_files(files, judge(), str, steps)
    coming = iter(checkup.diagnoses)
    first = [next(coming) for _ in range(FIRST + 1)]
    signal.raise_signal(signal.SIGINT)
    assert [*first, *coming] == first
    assert checkup.stopped
    left = f"{MANY - FIRST - 1} of {MANY} subscriptions were not judged: stopped by Ctrl-C"
    assert (REST, left) in checkup.unreachable
    assert steps.stopped
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_ends_at_once(files: SampleFiles) -> None:
    coming = iter(of_files(files, judge(), str, Steps()).diagnoses)
    next(coming)
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert len([*coming]) == FIRST - 1


@pytest.mark.parametrize("good", [0, FIRST, FIRST + 3])
def test_what_fails_late_is_told_in_the_report(files: SampleFiles, good: int) -> None:
    [one, *_] = of_files(files, judge(), str).diagnoses
    checkup = Checkup("files")

    def verdicts() -> Iterator[Diagnosis]:
        for _ in range(good):
            yield one
        raise InputError("the rest is damaged")

    if good < FIRST:
        with pytest.raises(InputError, match="damaged"):
            one_by_one(verdicts(), checkup, MANY, Steps())
        return
    assert len([*one_by_one(verdicts(), checkup, MANY, Steps())]) == good
    assert checkup.unreachable == [(REST, "the rest is damaged")]
