"""The behaviours that are measured, by name, and what a measurement is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.driver import Client
from tests.conformance.stage import Stage


@dataclass(frozen=True, slots=True)
class Measured:
    """text: for the table. values: the numbers of it, by name."""

    text: str
    values: dict[str, Any] = field(default_factory=dict)


Measure = Callable[[Stage, Client], Measured]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One row of the table. needs: a feature without which a client has no such behaviour."""

    name: str
    title: str
    measure: Measure
    needs: str | None
    module: str


BEHAVIOURS: dict[str, Behaviour] = {}
NOT_THERE = "–"


def behaviour(name: str, title: str, *, needs: str | None = None) -> Callable[[Measure], Measure]:
    """Enters the decorated function into BEHAVIOURS."""

    def enter(measure: Measure) -> Measure:
        assert name not in BEHAVIOURS, name
        module = getattr(measure, "func", measure).__module__
        BEHAVIOURS[name] = Behaviour(name, title, measure, needs, module)
        return measure

    return enter


def measure(name: str, stage: Stage, client: Client) -> Measured:
    """Measures one; a client without the feature gives NOT_THERE."""
    wanted = BEHAVIOURS[name]
    if wanted.needs is not None and wanted.needs not in client.can:
        return Measured(NOT_THERE)
    return wanted.measure(stage, client)


def balance(imbalance: int | None) -> str:
    """An imbalance in words."""
    if imbalance is None:
        return "stands still"
    if imbalance == 0:
        return "balanced"
    return f"{-imbalance} lost" if imbalance < 0 else f"{imbalance} too many"
