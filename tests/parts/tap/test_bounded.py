"""A trace of names that do not compress stays within --max-bytes, and every command is counted."""

from __future__ import annotations

import random
import signal
import string
from pathlib import Path

import pytest

from pulsar_doctor.trace.keeping import kept_in
from pulsar_doctor.trace.ring import MIB
from pulsar_doctor.trace.verifying import verify
from tests.parts.tap.tapped import command_frame, journals
from tests.parts.tap.test_watching import Played, tapped
from tests.support import eventually
from tests.support.looking import Looking
from tests.support.processes import linux, resident_bytes
from tests.trace.test_ring import disk_bytes

pytestmark = linux
ALLOWED = 16 * MIB
AT_ONCE = 5
PRODUCERS = 5
EVENTS = 2  # OPEN and CLOSE of the connection


class Look(Looking):
    """Looks at a folder again and again: the most bytes of disk that it ever took."""

    def __init__(self, path: Path) -> None:
        super().__init__(every_seconds=0.005)
        self.path = path
        self.most = 0

    def look(self) -> None:
        self.most = max(self.most, disk_bytes(self.path))
        super().look()


class Nameless:
    """Consumers and producers that come and go, each under a name that nobody had before.

    commands: what this client and its broker have said, counted by themselves.
    """

    def __init__(self, played: Played, letters: int) -> None:
        self.played = played
        self.letters = letters
        self.commands = 2  # CONNECT, CONNECTED
        self._random = random.Random(1)

    def name(self) -> str:
        return "".join(self._random.choices(string.ascii_letters + string.digits, k=self.letters))

    def come_and_go(self) -> None:
        """All bytes pass unchanged, or `played` says so."""
        asked, answered = [], []
        for number in range(1, AT_ONCE + 1):
            asked.append(
                command_frame(
                    4, "subscribe", topic="persistent://public/default/orders",
                    subscription="billing", sub_type=1, consumer_id=number, request_id=number,
                    consumer_name=self.name(),
                )
            )  # fmt: skip
            answered.append(command_frame(13, "success", request_id=number))
            for producer in range(PRODUCERS):
                topic = f"persistent://public/default/{self.name()}"
                request = 100 * number + producer
                told = {"producer_id": producer, "request_id": request}
                asked.append(command_frame(5, "producer", topic=topic, **told))
                answered.append(command_frame(17, "producer_success", request_id=request))
        self._say(asked, answered)
        numbers = range(1, AT_ONCE + 1)
        self._say(
            [command_frame(16, "close_consumer", consumer_id=n, request_id=n) for n in numbers],
            [command_frame(13, "success", request_id=n) for n in numbers],
        )

    def _say(self, asked: list[bytes], answered: list[bytes]) -> None:
        self.played.to_broker(b"".join(asked))
        self.played.to_client(b"".join(answered))
        self.commands += len(asked) + len(answered)


def wait_for_observer(trace: Path) -> None:
    """Until less lies unsealed than what the relay would begin to drop."""
    eventually(lambda: sum(map(size_of, journals(trace))) < 2 * MIB, 60)


def size_of(journal: Path) -> int:
    """Of one that may be sealed, and deleted, just now."""
    try:
        return journal.stat().st_size
    except FileNotFoundError:
        return 0


@pytest.mark.parametrize(
    ("rounds", "letters", "waits"),
    [
        pytest.param(700, 900, True, id="a pace", marks=pytest.mark.slow),
        pytest.param(
            12_000, 100, False, id="a flood", marks=[pytest.mark.slow, pytest.mark.timeout(900)]
        ),
    ],
)
def test_max_bytes_is_reached_and_kept_and_nothing_is_lost_unseen(tmp_path, rounds, letters, waits):
    trace = tmp_path / "t"
    options = ("-o", "jsonl", "--trace", str(trace), "--max-bytes", "16MiB")
    with tapped(*options) as played, Look(trace) as look:
        names = Nameless(played, letters)
        for number in range(rounds):
            names.come_and_go()
            if waits:
                wait_for_observer(trace)
            if number == rounds // 2:
                played.tap.send(signal.SIGUSR2)  # what is kept stays beside the ring
                eventually(lambda: kept_in(trace), 60)
        for peer in (played.client, played.broker):
            peer.sock.close()
        memory = resident_bytes(played.tap.child("pulsar_doctor.parts.tap.observer"), "VmHWM")
        played.tap.end()
    own = names.commands + EVENTS
    found = verify(trace)  # seen: written, dropped and expired
    gone = found.expired
    kept_rows = found.seen - found.dropped - (gone.rows - gone.gaps) - gone.dropped
    print(
        f"{own} commands: {kept_rows} kept, "
        f"{gone.rows - gone.gaps} expired, {found.dropped + gone.dropped} dropped; "
        f"{look.most / MIB:.2f} MiB at most in {look.looks} looks; observer {memory // MIB} MiB"
    )
    assert look.most <= ALLOWED
    assert look.most > ALLOWED * 2 // 3, "it was not reached"
    assert found.problems == []
    assert gone.rows > 0
    assert found.seen == own
    assert found.dropped + gone.dropped == played.tap.events[-1]["dropped"]
    (kept,) = kept_in(trace)
    assert verify(kept).problems == []
