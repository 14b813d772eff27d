"""One cause: everything that its file in causes/ defines, as one value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pulsar_doctor import PAGES
from pulsar_doctor.diagnosis.answers import CauseAnswer, Probe
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView

OfSubscription = Callable[[SubscriptionView], str | None]
OfConsumer = Callable[[SubscriptionView, ConsumerView], str | None]
# What people meet first, and how it is headed; the order in which causes are listed.
SYMPTOMS = {
    "nothing comes": "Nothing comes, or some messages never do",
    "too slow": "Messages come, and too slowly",
    "again and again": "The same comes again and again",
    "wrong backlog": "The backlog looks wrong, or does not shrink",
    "unknown": "The verdict is unknown",
}
MakesProbe = Callable[[SubscriptionView, ConsumerView | None], Probe | None]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A cause as a suspect, where its check could not decide."""

    # One sentence without its full stop; `{who}` is replaced by the consumer.
    says: str
    # Keys of clues. How much each of them says is fitted: see fitted.json.
    speaks_for: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    # What rules it out for the whole subscription: keys of observations, or tests of its own.
    excluded: tuple[str | OfSubscription, ...] = ()
    # Where the cause concerns one consumer: what rules that one out.
    not_by: tuple[str | OfConsumer, ...] = ()
    # Names of numbers that would help to decide.
    missing: tuple[str, ...] = ()
    # Whether it can be a stall; otherwise it is a warning at most.
    stalls: bool = True
    # Whether the check finds it as soon as it is so: then a healthy verdict cannot hide it.
    found_at_once: bool = False
    # Whether it is suspected only where its check was made and could not decide.
    if_undecided: bool = False
    # Whether something ordinary that happens once shows the same: then it has even odds at most.
    alike_once: bool = False
    # Which other cause nobody can tell from it from outside: they share one probability.
    alike: OfConsumer | None = None
    # What another sample shows if it is this cause; None: acknowledgements and FLOWs show it, and
    # what is sent shows nothing of a client.
    confirmed: str | None = None
    # A cheaper way to decide than another sample; None: another sample.
    probe: MakesProbe | None = None
    code: str = ""


@dataclass(frozen=True, slots=True, eq=False)  # each is the only one, and a key
class Cause:
    """One file of causes/."""

    # The file's name with hyphens.
    code: str
    # What `pulsar-doctor explain CODE` prints.
    text: str
    check: Callable[[SubscriptionView, Limits], Iterable[CauseAnswer]]
    # Any one of these sources lets the check decide.
    needs: frozenset[str]
    # A key of SYMPTOMS.
    symptom: str
    thresholds: tuple[Threshold, ...] = ()
    # Codes of causes that are consequences of this one.
    explains: frozenset[str] = frozenset()
    # Whether its warnings rest on a silence, which may be the first minutes of a stall.
    by_silence: bool = False
    # What to do, where that is the same for everybody.
    remedy: str | None = None
    # None: it is never suspected, only found.
    hypothesis: Hypothesis | None = None

    @property
    def title(self) -> str:
        """What is wrong, in one sentence."""
        return self.text.strip().partition("\n")[0]

    @property
    def page(self) -> str:
        """The page about it."""
        return page_of(self.code)


def page_of(code: str) -> str:
    """The page about a cause: an address, or a path in the repository while there is none."""
    return f"{PAGES}docs/causes/{code}.md"
