"""Reads how the broker stores acknowledgements, for the trace of a tap.

A thread of its own, begun when the tap listens: who is refused, or gets no answer in time, has a
trace that does not know. Nothing is printed of it, and nothing waits for it but the tap's end.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pulsar_doctor.broker.settings import Settings, guessed
from pulsar_doctor.errors import DoctorError

ANSWER_SECONDS = 2.0


@contextmanager
def asking(settings: Settings | None, record: Callable[[dict[str, Any]], object]) -> Iterator[None]:
    """Hands the broker's answer to `record`, once, in another thread, within the with-block.

    None is queried where the REST API is a default that may be another broker's. One that was named
    is queried, whichever broker is tapped: it only reads, and the user knows which it is.
    """
    if settings is None or guessed(settings) == "admin_url":
        yield
        return
    over, recording = threading.Event(), threading.Lock()

    def ask() -> None:
        with suppress(DoctorError, OSError):  # TimeoutError is one, and so is a full disk
            settings_of_broker = asyncio.run(_ask(settings))
            with recording:
                if (
                    settings_of_broker["configuration"] or settings_of_broker["version"]
                ) and not over.is_set():
                    record(settings_of_broker)

    thread = threading.Thread(target=ask, daemon=True, name="broker-settings")
    thread.start()
    until = time.monotonic() + ANSWER_SECONDS
    try:
        yield
    finally:
        thread.join(max(0.0, until - time.monotonic()))  # a short run is over before the answer
        with recording:
            over.set()


async def _ask(settings: Settings) -> dict[str, Any]:
    from pulsar_doctor.broker.admin import Admin  # here: the tap listens already, and need not wait
    from pulsar_doctor.broker.admin.broker_settings import broker_settings

    async with asyncio.timeout(ANSWER_SECONDS), Admin(settings) as admin:
        return await broker_settings(admin)
