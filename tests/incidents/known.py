"""Laws that are broken today, by law, rule and sources: to be shortened, never lengthened.

Written by `python -m incidents --known tests/incidents/known.py`. A law, rule and pair of sources
that is not in it fails the tests; one that is in it and does not occur any more fails the slow one.
"""

from __future__ import annotations

KNOWN: dict[str, dict[str, tuple[str, ...]]] = {
    "1 opposite": {
        "blocked-on-unacked-subscription": (
            "stats stalled, wire healthy",
            "stats stalled, wire+internal healthy",
            "stats+internal stalled, wire healthy",
            "stats+internal stalled, wire+internal healthy",
            "wire+stats stalled, wire healthy",
            "wire+stats stalled, wire+internal healthy",
            "wire+stats+internal stalled, wire healthy",
            "wire+stats+internal stalled, wire+internal healthy",
        ),
        "inactive-failover": (
            "stats stalled, wire healthy",
            "stats+internal stalled, wire healthy",
            "wire+stats+internal stalled, wire healthy",
        ),
        "key-shared-blocked": (
            "stats stalled, stats+internal healthy",
            "stats stalled, wire healthy",
            "stats stalled, wire+internal healthy",
            "stats+internal stalled, stats+internal healthy",
            "stats+internal stalled, wire healthy",
            "stats+internal stalled, wire+internal healthy",
        ),
        "permits-exhausted": (
            "wire stalled, stats healthy",
            "wire stalled, stats+internal healthy",
            "wire+stats+internal stalled, stats healthy",
            "wire+stats+internal stalled, stats+internal healthy",
        ),
        "prefetch-hogging": (
            "stats stalled, wire healthy",
            "stats stalled, wire+internal healthy",
            "stats stalled, wire+stats+internal healthy",
            "stats+internal stalled, wire healthy",
            "stats+internal stalled, wire+internal healthy",
            "stats+internal stalled, wire+stats+internal healthy",
        ),
        "zero-queue-unsupported": (
            "wire stalled, wire healthy",
            "wire+internal stalled, wire healthy",
            "wire+stats+internal stalled, wire healthy",
        ),
    },
    "2 decided -> unknown": {
        "broker-read-stuck": ("wire -> wire+stats",),
    },
    "3 steady: differs": {
        "inactive-failover": (
            "stats+internal: rhythm of messages",
            "stats: rhythm of messages",
            "wire+stats+internal: rhythm of messages",
        ),
        "permits-exhausted": (
            "stats+internal: rhythm of messages",
            "stats+internal: rhythm of refills",
            "stats: rhythm of messages",
            "stats: rhythm of refills",
        ),
    },
    "4 never in its life": {
        "inactive-failover": (
            "stats+internal: unknown",
            "stats: unknown",
        ),
        "permits-exhausted": (
            "stats+internal: unknown",
            "stats: unknown",
        ),
    },
    "5 null": {
        "inactive-failover": (
            "held by stats",
            "held by wire+stats",
        ),
        "permits-exhausted": (
            "next_flow_after by stats",
            "next_flow_after by stats+internal",
            "receiver_queue_size by stats",
            "receiver_queue_size by stats+internal",
            "unacked_messages by stats",
            "unacked_messages by stats+internal",
        ),
        "prefetch-hogging": (
            "acknowledged by stats",
            "acknowledged by stats+internal",
        ),
        "slow-but-progressing": (
            "next_flow_after by stats",
            "next_flow_after by stats+internal",
            "receiver_queue_size by stats",
            "receiver_queue_size by stats+internal",
            "unacked_messages by stats",
            "unacked_messages by stats+internal",
        ),
        "zero-queue-unsupported": (
            "next_flow_after by stats",
            "next_flow_after by stats+internal",
            "receiver_queue_size by stats",
            "receiver_queue_size by stats+internal",
            "unacked_messages by stats",
            "unacked_messages by stats+internal",
        ),
    },
    "truth: healthy, never acknowledges": {
        "(none)": (
            "stats",
            "stats+internal",
            "wire",
            "wire+internal",
            "wire+stats+internal",
        ),
    },
    "truth: healthy, stands still": {
        "no permits": (
            "stats+internal",
            "wire",
        ),
        "permits left": (
            "stats+internal",
            "wire",
        ),
    },
}
