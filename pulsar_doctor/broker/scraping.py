"""Reads the metrics of one broker a few times, where nothing else of the cluster can be reached."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from pulsar_doctor.broker.admin import refusals
from pulsar_doctor.broker.admin.cluster import bases_of, origin_of
from pulsar_doctor.broker.admin.http import Http, clock_ms
from pulsar_doctor.broker.samples.plain import Plain
from pulsar_doctor.broker.scrapes import samples_of
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.broker.stats.metrics import MetricsReader
from pulsar_doctor.errors import InputError

TIMEOUT_SECONDS = 10.0
SCRAPES = 3  # of a buffer that is renewed each minute two are the same
WHAT = "the metrics"
BUFFERED = (
    "the broker buffers its metrics (metricsBufferResponse): they may be a minute old, and all "
    "ages are lower bounds"
)


@dataclass(frozen=True, slots=True)
class MetricsAddress:
    """Where metrics are: the settings that lead there, and the path."""

    url: str
    settings: Settings
    path: str


def address_of(url: str, settings: Settings) -> MetricsAddress:
    """An address of `--metrics`. Credentials go there only if it is at the admin URL's origin.

    Raises InputError.
    """
    try:
        bases = bases_of(url)
    except InputError:
        bases = []
    if len(bases) != 1 or bases[0].query:
        raise InputError(
            "--metrics takes http://HOST:PORT/metrics/, without credentials or a query"
        )
    [base] = bases
    known = {origin_of(each) for each in bases_of(settings.admin_url)}
    if origin_of(base) not in known:
        settings = replace(settings, auth_plugin=None, auth_params=None,
                           tls_certificate=None, tls_key=None)  # fmt: skip
    path = base.raw_path.decode() if base.path != "/" else "/metrics/"
    origin = str(base.copy_with(raw_path=b"/"))
    return MetricsAddress(url, replace(settings, admin_url=origin.rstrip("/")), path)


async def scrapes(
    address: MetricsAddress, window_seconds: float, progress: Callable[[int, int], None]
) -> tuple[list[Plain], tuple[str, ...]]:
    """The samples, the oldest first, and notes. Raises AdminError, InputError."""
    count = SCRAPES if window_seconds > 0 else 1
    found: dict[bytes, Plain] = {}  # by what was read
    http = Http(address.settings, concurrency=1, timeout_seconds=TIMEOUT_SECONDS, alone=True)
    try:
        began = asyncio.get_running_loop().time()
        for at in range(count):
            due = began + window_seconds * at / (SCRAPES - 1)
            await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
            digest, plain = await _scrape(http, address)
            found.setdefault(digest, plain)
            progress(at + 1, count)
    finally:
        await http.close()
    samples = list(found.values())
    if len(found) == count:
        return samples, ()
    return [each.at(None) for each in samples], (BUFFERED,)


async def _scrape(http: Http, address: MetricsAddress) -> tuple[bytes, Plain]:
    reader, digest = MetricsReader(), hashlib.blake2b()
    async with http.stream(address.path, WHAT) as stream:
        clock, url = clock_ms(stream.response), stream.response.url
        async for lines in stream.lines():
            digest.update(lines)
            reader.feed(lines)
    if not reader.lines:
        raise refusals.BrokerFailed(
            f"what {refusals.place(url)} answers is not the metrics of a broker"
        )
    return digest.digest(), samples_of(reader, address.url)[-1].at(clock)
