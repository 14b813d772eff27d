"""How often a finding is right, by its code and by how sure its rule is: measured, not chosen.

A rule says how well it knows by a grade of its own, from 0 to 1. What a person reads is the share
of states in which a finding of that code and grade was right. Written by
`python -m bench.calibration --write`, over generated incidents and recorded states.
"""

from __future__ import annotations

from collections.abc import Mapping

Measured = Mapping[str, Mapping[float, float]]


def sure(code: str, grade: float) -> float:
    """The share for this code and grade; the grade itself where nothing was measured."""
    known = MEASURED.get(code)
    if not known:
        return grade
    return known[min(known, key=lambda each: (abs(each - grade), each))]


MEASURED: dict[str, dict[float, float]] = {
    "ack-hole": {0.5: 0.99, 0.7: 0.99, 0.8: 0.99},
    "backlog-counter-wrong": {0.6: 0.79, 0.8: 0.97, 0.95: 0.99},
    "blocked-on-unacked-consumer": {0.7: 0.99, 0.9: 0.99},
    "blocked-on-unacked-subscription": {0.7: 0.99, 0.9: 0.99},
    "broker-read-stuck": {0.75: 0.99, 0.9: 0.99},
    "dispatch-throttled": {0.9: 0.98},
    "exclusive-zombie": {0.3: 0.99, 0.5: 0.99},
    "holes-over-limit": {0.9: 0.99},
    "inactive-failover": {0.4: 0.98, 0.6: 0.99, 0.8: 0.99},
    "key-shared-blocked": {0.65: 0.89, 0.85: 0.93},
    "negative-permits": {0.6: 0.5, 0.8: 0.55},
    "no-consumer": {0.6: 0.99, 0.9: 0.99},
    "not-acknowledging": {0.6: 0.98},
    "permit-leak": {0.6: 0.97, 0.85: 0.98},
    "permits-exhausted": {
        0.3: 0.8,
        0.4: 0.8,
        0.5: 0.82,
        0.6: 0.87,
        0.7: 0.87,
        0.8: 0.96,
        0.95: 0.99,
    },
    "prefetch-hogging": {0.5: 0.94, 0.6: 0.94, 0.7: 0.94, 0.8: 0.94, 0.9: 0.95},
    "redelivery-storm": {0.6: 0.99, 0.7: 0.99, 0.8: 0.99, 0.9: 0.99},
    "slow-but-progressing": {0.3: 0.96, 0.5: 0.96, 0.6: 0.97, 0.7: 0.97, 0.8: 0.97},
    "zero-queue-unsupported": {0.4: 0.7, 0.6: 0.7},
}
