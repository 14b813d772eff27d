"""What to do about a transaction that stays open: find it, wait for its time-out, or abort it."""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.broker.stats.transactions import SlowTransaction
from pulsar_doctor.diagnosis.actions.commands import cluster_line
from pulsar_doctor.diagnosis.answers import Action, Probe
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import Sentence, say

LATE_SECONDS = 10.0  # a coordinator aborts within a second after the time-out, if it is not busy
LIST = cluster_line("transactions slow-transactions", "-t", "10s")
SHOWS = (
    "List the open transactions with a time-out longer than 10 s: each with its partitions, "
    "openTimestamp, and timeoutAt, the milliseconds after which its coordinator aborts it."
)
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


def end_of(
    known: SlowTransaction | None, check: str | None, *, publishes: bool
) -> Iterator[Action]:
    """How the transaction is ended. known: its number, where that is reported."""
    yield Action("now", SHOWS, command=LIST)
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
        check=check,
    )
    yield Action("later", SHORTER, check=check)


def oldest(view: SubscriptionView, subscription: str | None) -> SlowTransaction | None:
    """The one that has been open for longest. subscription: it acknowledges; None: it publishes."""
    slow = (each for each in view.slow_transactions if each.subscription == subscription)
    return next(slow, None)


def age_of(view: SubscriptionView, known: SlowTransaction) -> float:
    """Seconds for which it has been open."""
    return known.open_seconds(view.moment_ms or known.opened_ms)


def is_over(view: SubscriptionView, known: SlowTransaction | None) -> bool:
    """Whether its coordinator should have aborted it."""
    return known is not None and age_of(view, known) > known.timeout_seconds + LATE_SECONDS


def lasts(view: SubscriptionView, known: SlowTransaction | None) -> str | Sentence:
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
