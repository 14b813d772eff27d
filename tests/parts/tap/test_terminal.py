"""A tap on a terminal: what is said stays to be read, and another size leaves nothing behind."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.parts.tap.tapped import CONNECT, be_looked_for
from tests.parts.tap.test_watching import SOON, Played
from tests.support import eventually
from tests.support.terminals import Pane, on_terminal

TAP = (sys.executable, "-m", "pulsar_doctor", "tap", "--listen", "127.0.0.1:0")


@contextmanager
def watched(*arguments: str, columns: int = 120, lines: int = 24) -> Iterator[tuple[Pane, Played]]:
    """A tap on a terminal, with a client and a broker of ours."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        server.settimeout(20)
        url = f"pulsar://127.0.0.1:{server.getsockname()[1]}"
        command = (*TAP, *arguments)
        pane = stack.enter_context(
            on_terminal(command, columns=columns, lines=lines, service_url=url)
        )
        be_looked_for(server)
        yield pane, Played(pane, server, stack)


def another_client(pane: Pane) -> None:
    """One that comes when the broker is gone, and is sent away."""
    host, port = pane.service_url.removeprefix("pulsar://").split(":")
    with socket.create_connection((host, int(port)), 20) as sock:
        sock.sendall(CONNECT)
        assert sock.recv(1) == b""


@pytest.mark.parametrize("quiet", [(), ("-q",)], ids=["", "quiet"])
def test_what_is_wrong_with_the_broker_is_drawn_above_the_picture_and_stays(quiet):
    with watched(*quiet) as (pane, played):
        played.subscribe()
        pane.says("1 consumer: 1 healthy")
        played.server.close()
        another_client(pane)
        said = pane.says("cannot be reached: Connection refused")
        _drawn_again(pane)
        seen = pane.seen
        assert [line for line in seen if "cannot be reached" in line] == said
        assert said[0].startswith("pulsar-doctor: the broker 127.0.0.1:")
        title = next(at for at, line in enumerate(seen) if line.startswith("1 consumer"))
        assert seen.index(said[0]) < title
        assert seen[title + 1].startswith("consumer ")
        assert seen[title + 2].startswith("slow ")
        assert len(seen) == title + 3
        assert pane.end() == 0


def _drawn_again(pane: Pane) -> None:
    """Some pictures later."""
    before = pane.writings
    eventually(lambda: pane.writings >= before + 2)


def test_another_size_leaves_no_ghosts_and_what_was_said_is_still_there():
    with watched(*SOON) as (pane, played):
        played.stall()
        pane.says("STALLED  billing on orders")
        pane.says("✖ permits-exhausted")
        for columns, lines in [(60, 24), (40, 24), (200, 24), (100, 12), (120, 60)]:
            pane.resize(columns, lines)
            eventually(lambda columns=columns: _fits(pane, columns))
            _drawn_again(pane)
            eventually(lambda: _each_once(pane))  # a ghost stays; half a screen does not
        assert pane.end() == 1
        assert pane.count("1 consumer: 1 stalled") == 1


def _each_once(pane: Pane) -> bool:
    """Whether the screen shows its summary, heading, cause and status, and each of them once."""
    shown = [
        pane.count(each) for each in ("1 consumer: 1 stalled", "✖ permits-exhausted", "STALLED")
    ]
    return [*shown, sum(line.startswith("consumer ") for line in pane.seen)] == [1, 1, 1, 1]


def _fits(pane: Pane, columns: int) -> bool:
    """Whether the heading is that of this width."""
    last = {60: "last FLOW  verdict", 40: "available  verdict", 200: "acked  next FLOW after"}
    heading = [line for line in pane.seen if line.startswith("consumer ")][-1:]
    return bool(heading) and last.get(columns, "last FLOW") in heading[0]
