"""The causes, one file each. A file is registered by its presence.

A file has the docstring that `pulsar-doctor explain CODE` prints, NEEDS, SYMPTOM (what people meet
first), `check(view, limits)`, and where they apply THRESHOLDS, EXPLAINS (codes of consequences),
REMEDY (the same for everybody; the only action of a finding that lists none), CHECK (what
`stall-check` shows once an action has worked, for each action that says nothing else), BY_SILENCE
(whether its warnings rest on a silence) and HYPOTHESIS (how it is suspected and ruled out).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pulsar_doctor.diagnosis.actions.commands import check as check_line
from pulsar_doctor.diagnosis.answers import Action, CauseAnswer, Finding
from pulsar_doctor.diagnosis.cause import Cause
from pulsar_doctor.diagnosis.thresholds import Limits
from pulsar_doctor.errors import InputError
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.spelling import near

# Codes that users may have in scripts and that no file has any more, each with the code of the
# cause that finds it now. Such a code is never used again for anything else.
RETIRED: Mapping[str, str] = {}


def load() -> tuple[Cause, ...]:
    """Loads every cause, by code."""
    return tuple(_cause(module.name) for module in pkgutil.iter_modules(__path__))


def named(codes: Sequence[str], retired: Mapping[str, str] = RETIRED) -> list[Cause]:
    """The causes of these codes; InputError, with those that are written alike, for any other."""
    known = {cause.code: cause for cause in load()}
    for code in codes:
        if code in retired:
            raise InputError(f"the cause {code!r} is now called {retired[code]!r}")
        if code not in known:
            raise InputError(f"there is no cause {code!r}; {near(code, known, most=3)}")
    return [known[code] for code in codes]


def _cause(name: str) -> Cause:
    module = importlib.import_module(f"{__name__}.{name}")
    code, hypothesis = name.replace("_", "-"), getattr(module, "HYPOTHESIS", None)
    return Cause(
        code=code,
        text=module.__doc__ or "",
        check=_whole(module, code),
        needs=module.NEEDS,
        symptom=module.SYMPTOM,
        thresholds=getattr(module, "THRESHOLDS", ()),
        explains=getattr(module, "EXPLAINS", frozenset()),
        by_silence=getattr(module, "BY_SILENCE", False),
        remedy=getattr(module, "REMEDY", None),
        hypothesis=hypothesis and replace(hypothesis, code=code),
    )


def _whole(module: Any, code: str) -> Callable[[SubscriptionView, Limits], Iterator[CauseAnswer]]:
    """The check of a file: its findings have the code, and what they do not say themselves."""

    def check(view: SubscriptionView, limits: Limits) -> Iterator[CauseAnswer]:
        for each in module.check(view, limits):
            yield _completed(each, module, code, view) if isinstance(each, Finding) else each

    return check


def _completed(finding: Finding, module: Any, code: str, view: SubscriptionView) -> Finding:
    remedy, shows = finding.remedy or getattr(module, "REMEDY", ""), getattr(module, "CHECK", None)
    line = None if shows is None else check_line(view, shows)
    actions = finding.actions or (Action("now", remedy),)
    actions = tuple(replace(each, check=each.check or line) for each in actions)
    return replace(finding, code=code, remedy=remedy, actions=actions)
