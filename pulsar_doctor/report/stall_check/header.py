"""The line above the verdicts: cluster or files, time, and length of the window."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pulsar_doctor.checkup.result import STOPPED, Checkup, Cluster
from pulsar_doctor.wording.durations import duration, moment_of
from pulsar_doctor.wording.printable import listed, many, printable

FILES_NAMED_MOST = 5
SAMPLES, DATE = (
    re.compile(r", \d+ samples?(?=;|$)"),
    re.compile(r"(?<=; )\d{4}-\d\d-\d\d (?=[\d:]+ UTC)"),
)


def header(checkup: Checkup, width: int | None = None) -> str:
    """`standalone at http://broker:8080, Pulsar 4.0.8; 2026-05-01 12:00:00 UTC; watched 10 s`.

    width: of a screen. Where it is too narrow, the number of samples and today's date are left out.
    """
    whole = printable("; ".join(_parts(checkup)))
    if width is None or checkup.cluster is None:
        return whole
    fewer = SAMPLES.sub("", whole)
    return next((each for each in (whole, fewer, DATE.sub("", fewer)) if len(each) <= width), whole)


def _parts(checkup: Checkup) -> Iterator[str]:
    if checkup.cluster is not None:
        yield cluster_words(checkup.cluster)
    if checkup.files:
        yield listed(checkup.files, FILES_NAMED_MOST)
    yield from _when(checkup)
    yield from _how(checkup)
    if checkup.stopped:
        yield STOPPED


def _how(checkup: Checkup) -> Iterator[str]:
    """How long it was watched; of a fleet how many topics, and how many were read once only."""
    if checkup.read_once:
        ago = checkup.read_once_seconds_ago
        when = f", as of up to {duration(ago)} ago" if ago else ""
        yield f"{many(checkup.read_once, 'topic')} read once{when}"
    each = f"{many(checkup.watched, 'topic')} " if checkup.watched else ""
    if checkup.window_seconds:
        watched = f"{each}watched {duration(checkup.window_seconds)}"
        yield f"{watched}, {many(checkup.samples, 'sample')}" if checkup.samples else watched
    elif checkup.samples:
        yield f"{each}{many(checkup.samples, 'sample')}"
    if checkup.skipped:
        yield f"skipped: {', '.join(checkup.skipped)}"


def cluster_words(cluster: Cluster) -> str:
    """`context prod, eu-1 at http://broker:8080, Pulsar 4.0.8`."""
    named = f"{cluster.name} at {cluster.admin_url}" if cluster.name else cluster.admin_url
    context = f"context {cluster.context}, " if cluster.context else ""
    version = f", Pulsar {cluster.broker_version}" if cluster.broker_version else ""
    return f"{context}{named}{version}"


def _when(checkup: Checkup) -> Iterator[str]:
    """When the files were taken, by the broker's clock; otherwise when it was read.

    Where no file has its time, they are as old as the newest moment in them, or younger; somebody
    may have saved the last one much later.
    """
    saved = None if checkup.guess_ms is None else moment_of(checkup.guess_ms)
    if checkup.taken is not None:
        first, last = (moment_of(ms) for ms in (checkup.taken.first_ms, checkup.taken.last_ms))
        if first and last:
            later = "" if checkup.taken.exact else " or later (its newest event)"
            yield f"{_span(_read(first), _read(last))} UTC{later}"
    elif checkup.cluster is not None:
        yield f"{checkup.checked_at:%Y-%m-%d %H:%M:%S} UTC"
    if saved:
        yield f"saved at {_read(saved)} UTC; --at TIME makes ages exact"


def _span(first: str, last: str) -> str:
    """The day once, where it is the same one."""
    if first == last:
        return first
    return f"{first} to {last[11:] if first[:10] == last[:10] else last}"


def _read(moment: str) -> str:
    return moment[:19].replace("T", " ")
