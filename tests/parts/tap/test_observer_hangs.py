"""An observer that is stopped: that is reported, and when it goes on; traffic and trace go on."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from pulsar_doctor.parts.tap.events import Answering
from pulsar_doctor.parts.tap.observer.events import Begin, ObserverEvent, Snapshot
from pulsar_doctor.parts.tap.observing import SILENT_SECONDS, Observing
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.trace.verifying import ENDED, verify
from tests.made.traces import relay_alive, write_trace
from tests.made.wire import slow_consumer
from tests.parts.tap.tapped import flow
from tests.parts.tap.test_killed import OBSERVER, flows, played
from tests.support import eventually
from tests.support.processes import linux

pytestmark = [linux, pytest.mark.usefixtures("outside")]
SOON = 1.5
NOTE = "the observer did not answer for a time"


class Heard:
    """An observer of a trace, and what it told."""

    def __init__(self, path: Path) -> None:
        self.said: list[str] = []
        self.told: list[ObserverEvent | Answering] = []
        self.observing = Observing(path, Begin(), self.said.append, SOON)

    def of(self, kind: type) -> list[ObserverEvent | Answering]:
        event = self.observing.next(0.02)
        if event is not None:
            self.told.append(event)
        return [each for each in self.told if isinstance(each, kind)]

    def stop(self) -> None:
        eventually(lambda: self.of(Snapshot))
        assert self.observing.pid is not None
        os.kill(self.observing.pid, signal.SIGSTOP)
        eventually(lambda: self.of(Answering))


def test_an_observer_that_is_stopped_is_reported_once_and_again_when_it_answers(
    tmp_path: Path,
) -> None:
    path = write_trace(tmp_path, slow_consumer().close().blocks)
    with relay_alive(path):
        heard = Heard(path)
        heard.stop()
        (pid,) = {heard.observing.pid}
        time.sleep(SOON)
        (silent,) = heard.of(Answering)
        assert isinstance(silent, Answering)
        assert (silent.answers, silent.seconds >= SOON) == (False, True)
        assert pid is not None
        os.kill(pid, signal.SIGCONT)
        _, again = eventually(lambda: heard.of(Answering)[1:] and heard.of(Answering))
        assert isinstance(again, Answering)
        assert (again.answers, again.seconds >= 2 * SOON) == (True, True)
    heard.observing.finish()
    silence, answers = heard.said
    assert silence.startswith(f"the observer (process {pid}) has not answered for ")
    assert answers.startswith("the observer answers again, after ")
    assert verify(path).status == ENDED


def test_one_that_stays_stopped_is_not_waited_for_at_the_end(tmp_path: Path) -> None:
    path = write_trace(tmp_path, slow_consumer().close().blocks)
    with relay_alive(path):
        heard = Heard(path)
        heard.stop()
    began = time.monotonic()
    heard.observing.finish()
    assert time.monotonic() - began < 20
    open_trace(path)
    assert (verify(path).status, list(path.glob(".journal-*"))) == (ENDED, [])


def test_one_that_works_is_never_said_to_be_silent(tmp_path: Path) -> None:
    """Its snapshots come once a second, so twice as often as that it has to be asked."""
    path = write_trace(tmp_path, slow_consumer().close().blocks)
    with relay_alive(path):
        heard = Heard(path)
        eventually(lambda: len(heard.of(Snapshot)) > 3)
    assert heard.of(Answering) == []
    heard.observing.finish()
    assert heard.said == []


def test_the_tap_says_it_and_its_traffic_and_trace_go_on(tmp_path: Path) -> None:
    trace = tmp_path / "t"
    with played(trace) as (talk, _):
        observer = talk.tap.child(OBSERVER)
        eventually(lambda: talk.tap.of("snapshot"))
        os.kill(observer, signal.SIGSTOP)
        for permits in range(5, 25):
            talk.to_broker(flow(permits))
        silent = talk.tap.wait_for("observer")
        assert silent["answers"] is False
        assert silent["seconds"] >= SILENT_SECONDS
        assert talk.tap.says("has not answered for 5 s")
        assert len([line for line in talk.tap.err if "has not answered for 5 s" in line]) == 1
        os.kill(observer, signal.SIGCONT)
        assert talk.tap.wait_for("observer", 2)["answers"] is True
        assert talk.tap.says("the observer answers again")
        assert talk.tap.end() == 0
    assert NOTE in talk.tap.events[-1]["seen"]
    assert talk.tap.of("counted") == [], "our own questions are nobody else's answers"
    assert flows(trace) == [4, *range(5, 25)]
