"""Asks the broker, while the tap runs, how it keeps acknowledgements, so that the trace knows.

A thread of its own, begun when the tap listens: who is refused, or gets no answer in time, has a
trace that does not know. Nothing is said of it, and nothing waits for it but the tap's end.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pulsar_doctor.errors import DoctorError
from pulsar_doctor.settings import DEFAULTS, Settings

ANSWER_SECONDS = 2.0


@contextmanager
def asking(settings: Settings | None, record: Callable[[dict[str, Any]], object]) -> Iterator[None]:
    """Hands the broker's answer to `record`, once, in another thread, within the with-block.

    None is asked where the settings name no REST API that surely is of the same broker.
    """
    if settings is None or not _is_of_this_broker(settings):
        yield
        return
    over, recording = threading.Event(), threading.Lock()

    def ask() -> None:
        with suppress(DoctorError, OSError):  # TimeoutError is one, and so is a full disk
            told = asyncio.run(_ask(settings))
            with recording:
                if told["configuration"] and not over.is_set():
                    record(told)

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
    from pulsar_doctor.admin import Admin  # here: the tap listens already, and need not wait
    from pulsar_doctor.admin.broker_settings import broker_settings

    async with asyncio.timeout(ANSWER_SECONDS), Admin(settings) as admin:
        return await broker_settings(admin)


def _is_of_this_broker(settings: Settings) -> bool:
    """The default REST API is that of the default broker, and of no other one."""
    named = "admin_url" in settings.told or settings.admin_url != DEFAULTS["admin_url"]
    return named or settings.service_url == DEFAULTS["service_url"]
