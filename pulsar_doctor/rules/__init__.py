"""The rules: each file is one root cause, and its presence is its registration.

A rule's file has the docstring that `pulsar-doctor explain CODE` prints, THRESHOLDS, NEEDS,
EXPLAINS (codes that are its consequences, if there are any), and `check(view, limits)`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence

from pulsar_doctor.diagnosis.weighing import Rule
from pulsar_doctor.errors import InputError
from pulsar_doctor.wording.spelling import near


def load() -> tuple[Rule, ...]:
    """All rules, by code."""
    return tuple(_rule(module.name) for module in pkgutil.iter_modules(__path__))


def named(codes: Sequence[str]) -> list[Rule]:
    """The rules of these codes; InputError, with those that are written alike, for any other."""
    known = {rule.code: rule for rule in load()}
    for code in codes:
        if code not in known:
            raise InputError(f"there is no rule {code!r}; {near(code, known)}")
    return [known[code] for code in codes]


def _rule(name: str) -> Rule:
    module = importlib.import_module(f"{__name__}.{name}")
    return Rule(
        code=name.replace("_", "-"),
        text=module.__doc__ or "",
        check=module.check,
        needs=module.NEEDS,
        thresholds=module.THRESHOLDS,
        explains=getattr(module, "EXPLAINS", frozenset()),
        remedy=getattr(module, "REMEDY", None),
    )
