"""Logs one line for each HTTP request, for -vv."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable

import httpx2

from pulsar_doctor.wording.addresses import bare

LOG = logging.getLogger("pulsar_doctor.requests")


async def logged(answer: Awaitable[httpx2.Response], request: httpx2.Request) -> httpx2.Response:
    """The answer. Its line has neither credentials nor a query, and the time until its headers."""
    began = time.perf_counter()
    outcome = "interrupted"
    try:
        response = await answer
        outcome = str(response.status_code)
        return response
    except httpx2.HTTPError as error:
        outcome = type(error).__name__
        raise
    finally:
        milliseconds = (time.perf_counter() - began) * 1000
        url = bare(str(request.url))
        LOG.debug("%s %s: %s in %.0f ms", request.method, url, outcome, milliseconds)
