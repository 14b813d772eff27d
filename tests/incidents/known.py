"""Laws that are broken today, by law, rule and sources: to be shortened, never lengthened.

Written by `python -m tests.incidents --known tests/incidents/known.py`. A law, rule and pair of
sources that is not in it fails the tests; one that is in it and does not occur any more fails the
slow one.
"""

from __future__ import annotations

KNOWN: dict[str, dict[str, tuple[str, ...]]] = {
    "1 opposite": {
        "permits-exhausted": (
            "stats+internal stalled, stats healthy",
            "stats+internal stalled, stats+internal healthy",
            "wire stalled, stats healthy",
            "wire stalled, stats+internal healthy",
            "wire+internal stalled, stats healthy",
            "wire+internal stalled, stats+internal healthy",
            "wire+stats+internal stalled, stats healthy",
            "wire+stats+internal stalled, stats+internal healthy",
        ),
        "prefetch-hogging": (
            "wire stalled, stats healthy",
            "wire stalled, stats+internal healthy",
            "wire+stats stalled, stats healthy",
            "wire+stats stalled, stats+internal healthy",
            "wire+stats+internal stalled, stats healthy",
            "wire+stats+internal stalled, stats+internal healthy",
        ),
        "zero-queue-unsupported": (
            "wire stalled, stats healthy",
            "wire stalled, stats+internal healthy",
            "wire stalled, wire+stats healthy",
            "wire stalled, wire+stats+internal healthy",
            "wire+stats+internal stalled, wire+stats healthy",
            "wire+stats+internal stalled, wire+stats+internal healthy",
        ),
    },
    "2 decided -> unknown": {
        "not-acknowledging": (
            "stats -> wire+stats+internal",
            "stats+internal -> wire+stats+internal",
        ),
        "permits-exhausted": (
            "stats -> stats",
            "stats -> stats+internal",
            "stats -> wire+stats",
            "stats -> wire+stats+internal",
            "stats+internal -> stats+internal",
            "stats+internal -> wire+stats+internal",
        ),
    },
    "2 less sure": {
        "ack-hole": (
            "stats -> wire+stats",
            "stats -> wire+stats+internal",
            "stats+internal -> wire+stats+internal",
        ),
        "no-consumer": (
            "stats -> stats",
            "stats -> stats+internal",
            "stats -> wire+stats",
            "stats -> wire+stats+internal",
            "stats+internal -> stats+internal",
            "stats+internal -> wire+stats+internal",
        ),
        "permits-exhausted": (
            "stats -> stats",
            "stats -> stats+internal",
            "stats -> wire+stats+internal",
            "stats+internal -> stats+internal",
            "stats+internal -> wire+stats+internal",
        ),
    },
    "3 steady: differs": {
        "slow-but-progressing": (
            "stats+internal: rhythm of messages",
            "stats: rhythm of messages",
        ),
    },
    "3 steady: unknown at times": {
        "healthy": (
            "stats+internal: rhythm of refills",
            "stats: rhythm of refills",
            "wire+stats+internal: rhythm of refills",
        ),
        "key-shared-blocked": (
            "stats+internal: rhythm of messages",
            "stats+internal: rhythm of refills",
            "stats: rhythm of messages",
            "stats: rhythm of refills",
        ),
    },
    "4 a rate above 0": {
        "blocked-on-unacked-subscription": (
            "stats+internal: stalled",
            "stats: stalled",
        ),
    },
    "truth: stalled, goes on soon": {
        "blocked-on-unacked-consumer": (
            "stats",
            "stats+internal",
            "wire",
            "wire+stats+internal",
        ),
        "blocked-on-unacked-subscription": (
            "stats",
            "stats+internal",
            "wire+stats",
            "wire+stats+internal",
        ),
        "key-shared-blocked": (
            "stats",
            "stats+internal",
            "wire+stats+internal",
        ),
        "permits-exhausted": (
            "stats",
            "stats+internal",
        ),
    },
}
