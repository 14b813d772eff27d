"""The rules: each file is one root cause, and its presence is its registration.

A rule's file has the docstring that `pulsar-doctor explain CODE` prints, THRESHOLDS, NEEDS,
EXPLAINS (codes that are its consequences), and `check(evidence, limits)`.
"""

from __future__ import annotations

import importlib
import pkgutil

from pulsar_doctor.diagnosis import Rule


def load() -> tuple[Rule, ...]:
    """All rules, by code."""
    return tuple(_rule(module.name) for module in pkgutil.iter_modules(__path__))


def _rule(name: str) -> Rule:
    module = importlib.import_module(f"{__name__}.{name}")
    return Rule(
        code=name.replace("_", "-"),
        text=module.__doc__ or "",
        check=module.check,
        needs=module.NEEDS,
        thresholds=module.THRESHOLDS,
        explains=module.EXPLAINS,
    )
