"""Who suffers from what was found, and how much: what waits, who is idle, what runs out when.

Only what the view knows, bounds as bounds, and no number that the finding's summary has said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pulsar_doctor.broker.stats.observed import SHARING
from pulsar_doctor.broker.stats.sample import Age
from pulsar_doctor.evidence.answers import Finding
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import Count, least, told
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import listed

NAMED_MOST = 3
IDLE_LEAST_MS = 1000  # between two messages everybody is
SHARE_LEAST = 0.01  # of a limit: below that it tells nothing


@dataclass(frozen=True, slots=True)
class _Case:
    """named: the consumer of the finding. summary: without names, which may have digits."""

    view: SubscriptionView
    named: ConsumerView | None
    names: str
    summary: str

    def news(self, number: int | None) -> bool:
        """Whether it is a number above 0 that the summary has not said."""
        if number is None or number <= 0:
            return False
        return str(number) not in re.findall(r"\d+", self.summary)


def impact_of(view: SubscriptionView, finding: Finding, named: ConsumerView | None) -> str | None:
    """One sentence without its stop; None where there is nothing to add. named: its consumer."""
    if finding.severity == "info":
        return None
    summary = finding.summary
    for label in sorted((each.label for each in view.consumers or ()), key=len, reverse=True):
        summary = summary.replace(label, "")
    case = _Case(view, named, finding.summary, summary)
    drain = () if any(each.name == "time_to_drain" for each in finding.evidence) else _drain(case)
    parts = (*_waiting(case), *_idle(case), *drain, *_limit(case))
    return "; ".join(parts) or None


def _waiting(case: _Case) -> Iterator[str]:
    view = case.view
    backlog = view.backlog.entries if view.backlog else None
    behind, left = case.news(backlog), _left(case, backlog)
    if left is not None and left.exact is not None and left.exact == backlog:
        if behind:
            yield f"{_entries(left)} in the backlog {_wait(left)} to be sent"
    elif left is not None and behind:
        yield f"{left} of the {backlog} entries in the backlog {_wait(left)} to be sent"
    elif left is not None:
        yield f"{_entries(left)} {_wait(left)} to be sent"
    elif behind:
        entries = Count(backlog, backlog)
        yield f"{_entries(entries)} {'is' if backlog == 1 else 'are'} not acknowledged"
    replay = told(view.replay)
    if case.news(replay) and (left is None or replay != left.least):
        yield f"{replay} {'waits' if replay == 1 else 'wait'} to be sent again"


def _left(case: _Case, backlog: int | None) -> Count | None:
    """What is left to send, as far as it is news; no upper bound that the backlog is, too."""
    left = case.view.left
    if left is None or not case.news(left.least):
        return None
    bounded = left.exact is None and left.most is not None
    if bounded and (not case.news(left.most) or (backlog is not None and left.most == backlog)):
        return Count(left.least, None)
    return left


def _entries(count: Count) -> str:
    return f"{count} {'entry' if _is_one(count) else 'entries'}"


def _wait(count: Count) -> str:
    return "waits" if _is_one(count) else "wait"


def _is_one(count: Count) -> bool:
    """Whether the last number of its words is 1."""
    return (count.least if count.most is None else count.most) == 1


def _idle(case: _Case) -> Iterator[str]:
    """Who could work on something and has nothing, while not all is done."""
    view = case.view
    if view.quiet_is_fine or not _waits(case):
        return
    others = [
        (each.label, each.idle)
        for each in view.consumers or ()
        if each is not case.named
        and each.idle is not None
        and each.active is not False
        and each.idle.ms >= IDLE_LEAST_MS
    ]
    if not others or any(label in case.names for label, _ in others):
        return
    names = listed([label for label, _ in others], NAMED_MOST)
    since: Age = min((idle for _, idle in others), key=lambda age: age.ms)
    yield f"{names} {'has' if len(others) == 1 else 'have'} had nothing to do for {since}"


def _waits(case: _Case) -> bool:
    """Whether there is certainly something that others could work on."""
    if case.view.backlog is not None:
        return case.view.backlog.empty is False
    return case.named is not None and bool(least(case.named.held))


def _drain(case: _Case) -> Iterator[str]:
    seconds = case.named.drain_seconds if case.named else None
    if seconds and duration(seconds) not in case.names:
        yield f"what it holds takes it at least {duration(seconds)} at its pace of now"


def _limit(case: _Case) -> Iterator[str]:
    """How much of its limit of unacknowledged messages is used; only where one is enforced."""
    named = case.named
    if named is None or case.view.type not in SHARING or named.blocked:
        return
    limit, held = named.unacked_limit, least(named.held)
    if limit is None or held is None or not case.news(limit):
        return
    share = held / limit
    if share >= SHARE_LEAST:
        bound = "" if told(named.held) is not None else "at least "
        used = f"it has used {bound}{share:.0%} of its limit of {limit} unacknowledged messages"
        yield f"{used}{_reached(case.view, named, limit - held)}"


def _reached(view: SubscriptionView, named: ConsumerView, room: int) -> str:
    """When, if it is sent and acknowledges as in the window."""
    done = 0 if named.acked is False else named.done
    if not view.watched_seconds or named.delivered is None or done is None or room <= 0:
        return ""
    more = named.delivered - done
    if more <= 0 or told(named.held) is None:
        return ""
    return f", all of it in about {duration(room / more * view.watched_seconds)} at the pace of now"
