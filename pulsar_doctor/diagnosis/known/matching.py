"""Which known issues fit a verdict, and how surely. None of them is a verdict by itself.

An issue counts only beside a finding or a suspect of a cause that it can look like, or where the
verdict is unknown and its whole fingerprint holds. It `matches` if every condition of its
fingerprint holds, the version is known and affected, and the fingerprint is proven (see
`Issue.proof`). It is `possible` if nothing reported contradicts it and two thirds of its conditions
hold. Otherwise it is not mentioned.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from typing import Literal

from pulsar_doctor.diagnosis.known.expressions import names_in, truth
from pulsar_doctor.diagnosis.known.issue import BROKER, Issue, load, names_a_consumer
from pulsar_doctor.diagnosis.known.numbers import Numbers, Truth
from pulsar_doctor.diagnosis.known.versions import (
    Version,
    client_of,
    is_line_of,
    may_be,
    next_fix,
    version_of,
    within,
)
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView

Grade = Literal["matches", "possible"]
VENDOR = "which fixes this vendor's build has"


@dataclass(frozen=True, slots=True)
class KnownIssue:
    """An issue beside a verdict."""

    issue: Issue
    consumer: str | None  # the one with numbers that fit; None: it is about no single one
    holds: bool  # the whole fingerprint fits
    unknown: tuple[str, ...]  # names of numbers that are not reported
    version: Version | None = None  # of the broker or the client; None: not known

    @property
    def grade(self) -> Grade:
        """How surely it is this."""
        proven = self.issue.proof and not self.issue.by_hand and not self.missing
        return "matches" if self.holds and proven else "possible"

    @property
    def missing(self) -> tuple[str, ...]:
        """What would decide, as a person says it."""
        more = [*self.unknown, *self.issue.by_hand]
        if self.version is None:
            more.append(f"the version of the {self.issue.component}")
        elif self.version.is_vendors:
            more.append(VENDOR)
        return tuple(more)

    @property
    def affects(self) -> str:
        """Whether the version in use has it, in a sentence without its full stop."""
        return affects(self.issue, self.version)


def affects(issue: Issue, version: Version | None) -> str:
    """Whether a version has it; what is affected, where the version is not known."""
    who = "" if issue.component == BROKER else f" of the {issue.component} client"
    if version is None:
        text = f"affects {' or '.join(issue.affects)}{who}"
        return f"{text}; fixed in {', '.join(issue.fixed_in)}" if issue.fixed_in else text
    sure = has_for_sure(issue, version)
    has = f"your {version.text}{who} has it" if sure else f"{version.text}{who} is in the range"
    fix = next_fix(version, issue.fixed_in)
    return f"{has}, fixed in {fix}" if fix else f"{has}, and no release fixes it yet"


def fix_of(issue: Issue, version: Version | None) -> str:
    """The lowest release above a version that fixes it; of no version the first, of how many."""
    if version is None:
        more = len(issue.fixed_in) - 1
        return f"{''.join(issue.fixed_in[:1])}{f' +{more}' if more > 0 else ''}"
    return next_fix(version, issue.fixed_in) or ""


def has_for_sure(issue: Issue, version: Version) -> bool:
    """Whether it is known that this version has it, and not only later or other ones.

    What was reported of one release line is not known of the next.
    """
    if issue.lower_bound == "assumed" or version.is_vendors:
        return False
    ranges = [text for text in issue.affects if within(version, text)]
    return issue.lower_bound == "proven" or any(is_line_of(version, text) for text in ranges)


def is_affected(issue: Issue, version: Version) -> bool:
    """Whether a version lies in one of its ranges."""
    return any(within(version, text) for text in issue.affects)


def known_issues(
    view: SubscriptionView, codes: Collection[str], *, undecided: bool = False
) -> tuple[KnownIssue, ...]:
    """The issues that fit beside a verdict, the surest first. codes: of its findings and suspects.

    undecided: it is unknown, so that every proven issue counts with a whole fingerprint that holds.
    """
    beside = dict.fromkeys(chain.from_iterable(_by_code().get(code, ()) for code in sorted(codes)))
    others = (issue for issue in load() if issue.proof and issue not in beside)
    shared = _Conditions(Numbers(view))
    found = [each for issue in beside for each in _fitting(issue, shared)]
    if undecided:
        found += (each for issue in others for each in _fitting(issue, shared, whole=True))
    return tuple(sorted(found, key=_surest_first))


def matching(
    view: SubscriptionView, issues: Iterable[Issue] | None = None
) -> tuple[KnownIssue, ...]:
    """The ones of these issues that fit, the surest first. issues: None: all."""
    some, shared = load() if issues is None else issues, _Conditions(Numbers(view))
    found = (each for issue in some for each in _fitting(issue, shared))
    return tuple(sorted(found, key=_surest_first))


def on_broker(found: Sequence[KnownIssue], text: str | None) -> tuple[KnownIssue, ...]:
    """The issues that the broker's version leaves. text: the version as the broker writes it."""
    version = version_of(text or "")
    if version is None:
        return tuple(found)
    brokers = [each for each in found if each.issue.component == BROKER]
    left = [
        replace(each, version=version) if each in brokers else each
        for each in found
        if each not in brokers or is_affected(each.issue, version)
    ]
    return tuple(sorted(left, key=_surest_first))


@cache
def _by_code() -> dict[str, list[Issue]]:
    executable = [issue for issue in load() if issue.when]
    codes = {code for issue in executable for code in issue.codes}
    return {code: [issue for issue in executable if code in issue.codes] for code in codes}


@dataclass(frozen=True, slots=True)
class _Conditions:
    """Evaluates conditions over the same numbers, each once: many issues share them."""

    numbers: Numbers
    known: dict[ast.expr, Truth] = field(default_factory=dict)

    def truths(self, trees: Sequence[ast.expr], least: Truth) -> dict[ast.expr, Truth] | None:
        """Which of them hold. None: one does not, or where `least` is True, one is unknown."""
        truths = {}
        for tree in trees:
            if tree not in self.known:
                self.known[tree] = truth(tree, self.numbers)
            truths[tree] = holds = self.known[tree]
            if holds is False or (least and not holds):
                return None
        return truths


def _fitting(issue: Issue, shared: _Conditions, *, whole: bool = False) -> Iterator[KnownIssue]:
    """For the subscription or each consumer. whole: only where its whole fingerprint holds."""
    view, least = shared.numbers.view, True if whole else None
    trees = [tree for tree in issue.conditions if not names_a_consumer(tree)]
    common = shared.truths(trees, least)  # for all consumers: there may be thousands
    if common is None or not issue.when:
        return
    own = [tree for tree in issue.conditions if tree not in common]
    for consumer in (view.consumers or ()) if issue.of_consumer else (None,):
        version = _client_version(issue, consumer)
        numbers = Numbers(view, consumer)
        theirs = None if version is False else _Conditions(numbers).truths(own, least)
        if theirs is None or version is False:
            continue
        truths = common | theirs
        if not _enough(truths.values()):
            continue
        unknown = tuple(dict.fromkeys(_unknown(issue, truths, numbers)))
        label = consumer.label if consumer else None
        yield KnownIssue(issue, label, None not in truths.values(), unknown, version)


def _client_version(issue: Issue, consumer: ConsumerView | None) -> Version | Literal[False] | None:
    """The version of the client, where the issue is one of clients; False: another one, or not
    affected.

    What a library on top of a client is does not follow from the version of that client.
    """
    if issue.component == BROKER or consumer is None:
        return None
    if not may_be(issue.component, consumer.client_version):
        return False
    named = client_of(consumer.client_version)
    if named is None or named[1] is None or issue.component != named[0]:
        return None
    return named[1] if is_affected(issue, named[1]) else False


def _enough(truths: Collection[Truth]) -> bool:
    """Whether two thirds of it hold, and the rest is not known."""
    return 3 * sum(holds is True for holds in truths) >= 2 * len(truths)


def _unknown(issue: Issue, truths: Mapping[ast.expr, Truth], numbers: Numbers) -> Iterator[str]:
    """Names in conditions that are not decided, as they are written; all, where bounds differ."""
    for tree in issue.conditions:
        if truths[tree] is None:
            names = list(names_in(tree))
            missing = [name for name in names if numbers.value(name) is None]
            yield from missing or names


def _surest_first(found: KnownIssue) -> tuple[bool, bool, int]:
    return found.grade != "matches", not found.holds, len(found.missing)
