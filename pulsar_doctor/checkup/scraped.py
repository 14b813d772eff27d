"""Judges what a broker's metrics show, where nothing else of the cluster can be reached."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.samples.asking import NO_DISTANCE, NO_TIME, of_plain
from pulsar_doctor.broker.scraping import MetricsAddress, scrapes
from pulsar_doctor.checkup.judge import Judge
from pulsar_doctor.checkup.kinds import Recognised
from pulsar_doctor.checkup.one_by_one import Progress
from pulsar_doctor.checkup.recorded import of_recognised
from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.trace.opening import Say


def of_metrics(
    address: MetricsAddress,
    topics: Sequence[str],
    window_seconds: float,
    judge: Judge,
    say: Say,
    progress: Progress,
) -> Checkup:
    """The verdicts on topics of one broker, or on all. Raises AdminError, DoctorError."""
    try:
        samples, notes = asyncio.run(
            scrapes(address, window_seconds, lambda at, of: progress(at, of, "scrapes"))
        )
    finally:
        progress.stop()
    files = SampleFiles((address.url,), named=topics)
    read = of_plain(samples, files, None)
    kept = tuple(each for each in read.notes if each not in (NO_TIME, NO_DISTANCE))
    found = Recognised(replace(read, notes=(*notes, *kept)), ())
    return of_recognised(found, files, judge, say, progress)
