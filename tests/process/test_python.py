"""What py-spy's answer says of the threads of a Python consumer."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from pulsar_doctor.process.child import CannotAttach, in_time
from pulsar_doctor.process.python import _output, _sitting
from tests.support.wanting import wanting

PULSAR = "/x/lib/python3.11/site-packages/pulsar/__init__.py"


@pytest.mark.skipif(sys.platform != "linux", reason=wanting("/proc"))
@pytest.mark.usefixtures("outside")
def test_a_program_that_prints_without_end_is_ended():
    script = "while True: print('[' * 1000)"
    with pytest.raises(CannotAttach, match=r"code|File too large"):
        in_time(lambda: _output([sys.executable, "-c", script]))
    assert in_time(lambda: _output([sys.executable, "-c", "print('[]')"])) == b"[]\n"


def frame(name: str, file: str, line: int = 7) -> dict[str, Any]:
    return {"name": name, "filename": file, "short_filename": file.rpartition("/")[2], "line": line}


CHARGE = frame("charge", "/app/billing.py", 88)
SLEEP = frame("wait", "/x/lib/python3.11/threading.py", 327)


@pytest.mark.parametrize(
    ("frames", "role", "where"),
    [
        ([CHARGE], "application", "charge (billing.py:88)"),
        (
            [SLEEP, frame("get", "/x/lib/python3.11/site-packages/requests/api.py"), CHARGE],
            "application",
            "wait in get under charge (billing.py:88)",
        ),
        ([SLEEP, CHARGE], "application", "wait under charge (billing.py:88)"),
        (
            [CHARGE, frame("_listener_wrapper.<locals>.wrapper", PULSAR)],
            "listens",
            "charge (billing.py:88)",
        ),
        (
            [frame("Consumer.receive", PULSAR), CHARGE],
            "receives",
            "Consumer.receive under charge (billing.py:88)",
        ),
        (
            [frame("acknowledge", PULSAR), CHARGE],
            "acknowledges",
            "acknowledge under charge (billing.py:88)",
        ),
        ([frame("receive", "/app/billing.py")], "application", "receive (billing.py:7)"),
        ([], "application", "no frame"),
    ],
)
def test_what_a_thread_is_there_for_follows_from_pulsars_own_frames(frames, role, where):
    told = _sitting({"frames": frames, "os_thread_id": 12, "active": False}, 3.0)
    assert (told.role, told.where) == (role, where)
    assert (told.thread, told.seconds) == ("12", 3.0)
