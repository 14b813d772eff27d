"""A transaction that stays open: what is found, and what to do: find it, wait, or abort it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pulsar_doctor.broker.stats.transactions import SlowTransaction
from pulsar_doctor.diagnosis.actions.commands import check, cluster_line
from pulsar_doctor.diagnosis.answers import Action, Finding, Probe, Severity
from pulsar_doctor.diagnosis.thresholds import Threshold
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.measures import Measure
from pulsar_doctor.evidence.subscription import SubscriptionView, backlog_measure
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import Sentence, say

OPEN_FOR = Threshold("open_for", 60.0, "seconds", "a younger transaction is information")
LATE_SECONDS = 10.0  # a coordinator aborts within a second after the time-out, if it is not busy
LIST = cluster_line("transactions slow-transactions", "-t", "10s")
SHOWS = (
    "List the open transactions with a time-out longer than 10 s: each with its partitions, "
    "openTimestamp, and timeoutAt, the milliseconds after which its coordinator aborts it."
)
ENDS = "Lists them. The application of one has to commit or abort it; if it is gone, see -v"
ABORTED = (
    "what it has published is never delivered, what it has acknowledged is delivered again, and "
    "its application cannot commit it any more"
)
SHORTER = (
    "Commit or abort each transaction, also after an error, and give it a time-out that is not "
    "much longer than the work takes (withTransactionTimeout, 1 min by default)."
)


def list_slow(view: SubscriptionView, each: ConsumerView | None) -> Probe:
    """The cheapest way to see which transaction is open, and for how long."""
    return Probe(SHOWS, LIST, 2)


def found(
    view: SubscriptionView,
    text: Sentence,
    *counts: Measure,
    publishes: bool,
    within: float,
    least: float | None,
    is_young: Callable[[SlowTransaction | None], bool],
) -> Finding | None:
    """What waits for the end of a transaction; None where it is not known whether it is young.

    publishes: of a producer, else it acknowledges. within: seconds for which it is information.
    least: seconds for which it has been open at least, where its age is not reported. is_young:
    whether one that is listed, or None, explains all that waits.
    """
    known = oldest(view, publishes=publishes)
    severity: Severity = "info"
    if publishes and known is not None and is_over(view, known):
        severity = "stalled"
    elif ((least or 0) if known is None else age_of(view, known)) >= within:
        severity = "warning"
    elif not is_young(known):
        return None
    return Finding(
        severity=severity,
        confidence=0.95 if publishes else 0.9,
        summary=say("{}{}", text, _lasts(view, known)),
        evidence=(*counts, backlog_measure(view)),
        actions=tuple(_end_of(view, known, publishes=publishes)),
    )


def _end_of(
    view: SubscriptionView, known: SlowTransaction | None, *, publishes: bool
) -> Iterator[Action]:
    """How the transaction is ended. known: its number, where that is reported."""
    shows = check(view, "healthy, and messages are sent" if publishes else "the backlog falls")
    yield Action("now", SHOWS, command=LIST, brief=ENDS)
    first = "Drop what it has published, and abort it," if publishes else "Abort it"
    most, _, least = known.number.partition(",") if known else ("", "", "")
    yield Action(
        "today",
        f"{first} if its application is gone or has forgotten it. Nothing else helps before its "
        "time-out.",
        command=cluster_line("transactions abort-transaction", "-m", most, "-l", least)
        if least
        else None,
        side_effect=ABORTED,
        check=shows,
    )
    yield Action("later", SHORTER, check=shows)


def oldest(view: SubscriptionView, *, publishes: bool) -> SlowTransaction | None:
    """The one that has been open for longest: of producers, or of the subscription."""
    of = None if publishes else view.subscription
    return next((each for each in view.slow_transactions if each.subscription == of), None)


def age_of(view: SubscriptionView, known: SlowTransaction) -> float:
    """Seconds for which it has been open."""
    return known.open_seconds(view.moment_ms or known.opened_ms)


def is_over(view: SubscriptionView, known: SlowTransaction) -> bool:
    """Whether its coordinator should have aborted it."""
    return age_of(view, known) > known.timeout_seconds + LATE_SECONDS


def _lasts(view: SubscriptionView, known: SlowTransaction | None) -> str | Sentence:
    """For how long it has been open, and when it ends at the latest; nothing where not reported."""
    if known is None:
        return ""
    age, number = age_of(view, known), known.number
    if is_over(view, known):
        until = say("its time-out of {} has passed", duration(known.timeout_seconds))
    else:
        left = max(0.0, known.timeout_seconds - age)
        until = say("its time-out ends it within {}", duration(left))
    return say("; transaction {} has been open for {}, and {}", number, duration(age), until)
