"""Processes of a tap are killed amid 15,000 messages a second: what is lost, and told.

What the client itself has received is the measure: its own bytes, decoded by nobody's tap. Thirty
kills of each kind are run by hand, with `-m 'slow or not slow' -s`: it prints what each has lost.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.trace.folder import is_live
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.trace.verifying import ENDED, TORN, verify
from pulsar_doctor.wire.columns import COLUMN_NAMES, Row, values_of
from pulsar_doctor.wire.commands import rows_of
from pulsar_doctor.wire.framing import Cutter
from pulsar_doctor.wire.journal import pack_block, read_blocks
from pulsar_doctor.wire.masking import Mask
from tests.parts.tap.tapped import message
from tests.parts.tap.test_killed import RELAY, _again, played
from tests.parts.tap.test_watching import Played
from tests.support import eventually
from tests.support.processes import linux

pytestmark = linux
EVERY_SECONDS, AT_ONCE = 0.01, 150
LOST_SECONDS_MOST = 0.5
KILLS = 30
OF_THE_TAP = {"ts", "mono_ns", "conn_id", "trace_id", "seq"}  # when and where it read


class Flood:
    """Messages from the broker to the client, so many a second, and what of them has come when."""

    def __init__(self, talk: Played) -> None:
        self.came: list[tuple[float, bytes]] = []
        self.sent = 0
        self._talk = talk
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=each, daemon=True) for each in (self._send, self._read)
        ]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        due = time.monotonic()
        try:
            while not self._over.is_set():
                first = self.sent + 1
                batch = (message(1, b"x" * 50, n) for n in range(first, first + AT_ONCE))
                self._talk.broker.sock.sendall(b"".join(batch))
                self.sent += AT_ONCE
                due += EVERY_SECONDS
                time.sleep(max(0.0, due - time.monotonic()))
        except OSError:
            pass  # the relay is gone

    def _read(self) -> None:
        try:
            while data := self._talk.client.sock.recv(1 << 20):
                self.came.append((time.monotonic(), data))
        except OSError:
            pass

    def end(self) -> None:
        """No more is sent; all that was sent, or can still come, has come."""
        self._over.set()
        self._threads[0].join(10)
        self._talk.broker.sock.close()
        self._threads[1].join(10)
        assert not any(thread.is_alive() for thread in self._threads)

    def decoded(self) -> list[tuple[float, Row]]:
        """Each message that came, and when it was whole."""
        cutter, mask, rows = Cutter(), Mask(b"salt"), []
        for came, data in self.came:
            if records := mask.pack_all(cutter.feed(data)):
                packed = pack_block(records, ts=1, mono_ns=1, conn_id=0, direction=1)
                ((block, _),) = read_blocks(packed)
                rows += [(came, row) for row in rows_of(block) if row.command == "MESSAGE"]
        return rows


def told(row: Row, by: Row) -> dict[str, Any]:
    """What a row says in the columns that the wire alone decides: where `by` says something."""
    return {
        name: getattr(row, name)
        for name in COLUMN_NAMES
        if name not in OF_THE_TAP and getattr(by, name) is not None
    }


def undisturbed(rows: list[Row], own: list[Row]) -> Iterator[Row]:
    """The same rows with the ledger of one timeline that nobody has interrupted.

    Messages of the first connection from the client's own bytes: of the trace's they have the place
    and the time only.
    """
    timeline, messages = Timeline(rows[0].trace_id or ""), iter(own)
    for row in rows:
        fresh = copy(row)
        if row.command == "MESSAGE" and row.conn_id == 0:
            fresh = copy(next(messages))
            fresh.ts, fresh.mono_ns, fresh.conn_id = row.ts, row.mono_ns, row.conn_id
        yield timeline.apply(fresh)


def kill(who: str, talk: Played) -> None:
    """SIGKILL for the relay, the observer, the parent, or all of them at once."""
    pids = talk.tap.pids()
    for name in ("relay", "observer", "parent") if who == "all" else (who,):
        os.kill(pids[name], signal.SIGKILL)


def over(who: str, talk: Played, trace: Path, relay: int) -> int | None:
    """The tap, or what is left of it, has ended. Its exit code; None where it was killed."""
    code = None
    if who in ("relay", "observer"):
        code = talk.tap.end()
    else:
        talk.tap.process.wait()
        if who == "parent":
            os.kill(relay, signal.SIGTERM)
    eventually(lambda: not is_live(trace), 30)
    if who == "parent":  # the observer seals what the relay left
        eventually(lambda: not list(trace.glob(".journal-*")), 30)
    return code


def agreed(code: int, end: dict[str, Any], verified: int) -> bool:
    """Whether a tap has ended as `trace verify` does, unless it found a stall.

    It accepts an unknown verdict: it may be killed before its stall is old enough.
    """
    statuses = {each["status"] for each in end["subscriptions"]}
    assert verified == 0 or "healthy" not in statuses
    assert end["exit_code"] == code
    if "stalled" in statuses:
        return code == 1
    return code == (3 if verified in (2, 4, 6) else 0)


@pytest.mark.parametrize(
    "number", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, KILLS))]
)
@pytest.mark.parametrize("who", ["relay", "observer", "parent", "all"])
def test_half_a_second_is_lost_at_most_and_what_is_there_is_true(tmp_path, who, number):
    trace = tmp_path / "t"
    with played(trace) as (talk, stack):
        relay = talk.tap.child(RELAY)
        began, flood = time.monotonic(), Flood(talk)
        time.sleep(random.Random(number).uniform(0.3, 0.8))
        kill(who, talk)
        if who == "relay":
            talk.tap.says("it is started again at the same address")
            eventually(lambda: _again(talk, stack)).subscribe(9)
        elif who != "all":
            time.sleep(0.3)  # it goes on
        flood.end()
        code = over(who, talk, trace, relay)
    came = flood.decoded()
    rows = list(open_trace(trace).rows())
    seen = [row for row in rows if row.command == "MESSAGE" and row.conn_id == 0]
    both = min(len(came), len(seen))
    for row, (_, own) in zip(seen[:both], came[:both], strict=True):
        assert told(row, own) == told(own, own)
    for row, whole in zip(rows, undisturbed(rows, [row for _, row in came]), strict=True):
        assert values_of(row) == values_of(whole)
    assert [row.entry_id for row in seen] == list(range(1, len(seen) + 1)), "only the end is lost"
    lost_seconds = came[-1][0] - came[both - 1][0]
    lost_ms, rate = 1000 * lost_seconds, len(came) / (came[-1][0] - began)
    print(f"{who}: {rate:,.0f}/s, {len(came) - both} of {len(came)} lost, of {lost_ms:.1f} ms")
    gaps = [row.dropped for row in rows if row.command == "GAP"]
    assert lost_seconds <= LOST_SECONDS_MOST
    found = verify(trace)
    assert (found.problems, found.gaps, found.dropped) == ([], len(gaps), 0)
    verified = found.missing.exit_code
    if code is not None:
        print(f"tap {code}, verify {verified}")
        assert agreed(code, talk.tap.events[-1], verified)
    if who in ("observer", "parent"):
        assert (found.status, gaps) == (ENDED, [])
        assert len(came) == len(seen) == flood.sent
    elif who == "relay":
        assert gaps == [None]
        assert (verified, code in (1, 3)) == (4, True)
        behind = rows[next(n for n, row in enumerate(rows) if row.command == "GAP") :]
        assert [row.permits for row in behind if row.command == "FLOW"] == [9]
    else:
        assert (found.status, gaps) == (TORN, [])
