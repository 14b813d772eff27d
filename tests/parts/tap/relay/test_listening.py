"""Who can reach a tap: this machine, unless somebody says otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.parts.tap.relay.__main__ import listen
from pulsar_doctor.parts.tap.relay.dialling import Dialler
from pulsar_doctor.parts.tap.relay.migrations import Listeners
from pulsar_doctor.parts.tap.relay.targets import Targets
from tests.parts.tap.tapped import found, tapping
from tests.support import eventually
from tests.support.command_line import environment, pulsar_doctor
from tests.support.processes import family, linux, listening

pytestmark = linux
BOTH: Any = ["127.0.0.1", "::1"]  # as if a name had both


@pytest.mark.parametrize(
    ("listen", "address"),
    [("127.0.0.1:0", "127.0.0.1"), ("localhost:0", None), ("[::1]:0", "::1")],
)
def test_the_relay_listens_on_loopback_and_in_one_place(tmp_path, listen, address):
    with tapping(tmp_path / "t", listen=listen) as tapped:
        found = listening(tapped.relay.pid)
        assert found
        assert all(one.is_loopback for one in found)
        assert address is None or [str(one) for one in found] == [address]


@pytest.mark.usefixtures("outside")
def test_a_name_of_several_addresses_has_one_port():
    """Also where a free one is taken: the name is told with one port, whatever it resolves to."""

    async def listens() -> set[tuple[str, int]]:
        listeners = Listeners(None, "localhost")
        dialler = Dialler(Targets([("127.0.0.1", 1)]), None)
        server = await listen(listeners, dialler, BOTH, 0)
        found = {sock.getsockname()[:2] for sock in server.sockets}
        listeners.close()
        return found

    found = asyncio.run(listens())
    assert {host for host, _ in found} == set(BOTH)
    assert len({port for _, port in found}) == 1


@contextlib.contextmanager
def tap(trace_dir: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """`pulsar-doctor tap` as a process of its own, once it says where it listens."""
    with found() as url:
        process = subprocess.Popen(
            [sys.executable, "-m", "pulsar_doctor", "--service-url", url,
             "tap", "--trace", str(trace_dir), *more],
            env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("pulsar://")
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=20)


def places(process: subprocess.Popen[str]) -> list[str]:
    return [str(place) for pid in family(process.pid) for place in listening(pid)]


def test_no_process_of_a_tap_listens_beyond_loopback(tmp_path):
    with tap(tmp_path / "t", "--listen", "127.0.0.1:0") as process:
        eventually(lambda: len(family(process.pid)) >= 3)  # itself, relay, observer
        assert places(process) == ["127.0.0.1"]


WIDE = ["0.0.0.0:0", "[::]:0"]


@pytest.mark.parametrize("listen", [*WIDE, "192.0.2.1:0", ":0"])
def test_any_other_address_has_to_be_asked_for(tmp_path, listen):
    run = pulsar_doctor("tap", "--listen", listen, "--trace", str(tmp_path / "t"))
    assert (run.returncode, run.stdout) == (2, "")
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("listen", WIDE)
def test_what_is_asked_for_is_given(tmp_path, listen):
    with tap(tmp_path / "t", "--listen", listen, "--allow-remote") as process:
        assert places(process) == [listen[:-2].strip("[]")]
