"""Ranks possible causes: adds up their clues, as probabilities that sum to 1.

Each hypothesis that nothing excludes has a sum: its weight without any clue, plus those of its
clues. The share of each is the exponential of its sum, of all of them together: a multinomial logit
model, the weights of which bench/calibration fits to states of which the cause is known. A
cause of a single consumer is represented by the one with the highest sum.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from pulsar_doctor.diagnosis import fitted
from pulsar_doctor.diagnosis.actions.processes import CONSEQUENCES
from pulsar_doctor.diagnosis.answers import (
    HEALTHY,
    NONE_OF_THESE,
    POSSIBLE,
    UNDECIDED,
    Clue,
    SilentHolder,
    Suspect,
    Unknown,
)
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.consumer_clues import of_consumers
from pulsar_doctor.diagnosis.fitted import Weights, weight
from pulsar_doctor.diagnosis.healthy import EVERY_CONSUMER, NOTHING_FOUND, SETTLED
from pulsar_doctor.diagnosis.key_waits import waiting_for_silent
from pulsar_doctor.diagnosis.observing import Clues, Observation, first_of
from pulsar_doctor.diagnosis.probes import missing_of, probe_of
from pulsar_doctor.diagnosis.subscription_clues import of_subscription
from pulsar_doctor.diagnosis.thresholds import QUIET_AFTER
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.sentences import joined, values_in

Undecided = Mapping[str, Sequence[Unknown]]  # what checks could not decide, by code
MIN_WEIGHT = 0.05  # of a clue that is worth naming
SHOWN_LEAST = 0.02  # of the shares; what has less is one of NONE_OF_THESE
SHOWN_MOST = 6
EVEN = 0.5
FAR = 0.2  # that nothing is wrong, where something rests for longer than nearly all work takes


@dataclass(frozen=True, slots=True)
class Suspicion:
    """One hypothesis on one consumer (None: on the subscription), and its clues by key."""

    of: Hypothesis
    consumer: ConsumerView | None
    clues: Clues
    concerned: Sequence[ConsumerView] = ()  # who would have to be seen longer to decide

    @property
    def signs(self) -> Iterator[tuple[str, int]]:
        """The clues that are seen, and whether each speaks for (1) or against (-1) it."""
        yield from ((key, 1) for key in self.of.speaks_for if key in self.clues)
        yield from ((key, -1) for key in self.of.against if key in self.clues)

    @property
    def is_early(self) -> bool:
        """Whether its consumer, or each of them, has only just connected: all begin like that."""
        ages = [each.connected_for for each in self.concerned]
        just = (age is not None and age.exact and age.seconds < QUIET_AFTER.default for age in ages)
        return bool(ages) and all(just)

    def at_most(self, well: float) -> float:
        """The share that it has at most. well: of "nothing is wrong"."""
        if self.of.code == HEALTHY:
            return well
        return EVEN if self.is_early or self.of.alike_once else 1.0

    def settled_apart_from(self, resting: Collection[str | None]) -> Suspicion:
        """The same, without the clue that no check finds anything if it is about one of these."""
        if self.consumer is None or self.consumer.label not in resting:
            return self
        clues = {key: clue for key, clue in self.clues.items() if key != NOTHING_FOUND}
        return replace(self, clues=clues)

    def total(self, weights: Weights) -> float:
        """What its clues say together."""
        return total_of(self.of.code, self.signs, weights)


def total_of(code: str, signs: Iterable[tuple[str, int]], weights: Weights) -> float:
    """What these clues say together of that cause."""
    own = weights.get(code, {})
    return weight(own, "") + sum(sign * weight(own, key) for key, sign in signs)


def suspects_of(
    view: SubscriptionView,
    hypotheses: Sequence[Hypothesis],
    undecided: Undecided,
    found: Collection[str] = (),
    well: float = 1.0,
) -> tuple[Suspect, ...]:
    """What it may be, most likely first; nothing where the view holds nothing to judge by.

    found: codes of what is decided already. Then these are what it may be besides, and "none of
    these" is that nothing else is wrong. well: the share of "nothing is wrong", at most.
    """
    weights = fitted.weights()
    open_ones = [each for each in hypotheses if each.code not in found]
    ranked = _ranked(cases_of(view, open_ones, undecided), weights, well)
    if not ranked:
        return ()
    if found:
        ranked = [each for each in ranked if each[1].of.code != HEALTHY]
    return _named(view, ranked, weights)


@dataclass(frozen=True, slots=True)
class Odds:
    """What it may be where no check finds or misses anything."""

    view: SubscriptionView
    # each possible cause, and that nothing is wrong, with its probability, most likely first
    ranked: Sequence[tuple[float, Suspicion]]
    weights: Weights

    @property
    def problem(self) -> float:
        """How probable it is that anything is wrong."""
        well = sum(share for share, case in self.ranked if case.of.code == HEALTHY)
        return 1 - well if self.ranked else 0.0

    def suspects(self, well: float = 1.0) -> tuple[Suspect, ...]:
        """The suspects worth naming, with their clues in words. well: as in `suspects_of`."""
        ranked = _ranked([[case] for _, case in self.ranked], self.weights, well)
        return _named(self.view, ranked, self.weights) if ranked else ()

    @property
    def hidden(self) -> tuple[Suspect, ...]:
        """Suspects that are shown beside a healthy verdict: what is possible, if anything is."""
        suspects = tuple(
            _suspect(self.view, case, share, self.weights)
            for share, case in self.ranked
            if share >= POSSIBLE and case.of.code != HEALTHY
        )
        if not suspects:
            return ()
        rest = max(0.0, 1 - sum(each.probability for each in suspects))
        return (*suspects, Suspect(NONE_OF_THESE, None, round(rest, 3), "no known cause applies"))

    @property
    def culprit(self) -> str | None:
        """The consumer that the likeliest problem concerns."""
        wrong = (case for _, case in self.ranked if case.of.code != HEALTHY)
        who = next((case.consumer for case in wrong), None)
        return None if who is None else who.label


def odds_of(
    view: SubscriptionView,
    hypotheses: Sequence[Hypothesis],
    known: Collection[str] = (),
    weights: Weights | None = None,
    resting: Collection[str | None] = (),
) -> Odds:
    """How probable a problem is where no check finds or misses anything, and which one.

    known: codes of what is reported as information. resting: as in `hidden_cases`.
    """
    weights = fitted.weights() if weights is None else weights
    return Odds(view, _ranked(hidden_cases(view, hypotheses, known, resting), weights), weights)


def hidden_cases(
    view: SubscriptionView,
    hypotheses: Sequence[Hypothesis],
    known: Collection[str] = (),
    resting: Collection[str | None] = (),
) -> list[list[Suspicion]]:
    """What nothing excludes though no check finds it; nothing where no check would report it.

    resting: labels of consumers with which messages rest for too long: of these no check speaks.
    """
    if view.nothing_to_move:
        return []
    hidden = [each for each in hypotheses if not each.found_at_once and each.code not in known]
    groups = cases_of(view, hidden, {}, settled=True)
    return [[case.settled_apart_from(resting) for case in group] for group in groups]


def _ranked(
    groups: Iterable[Sequence[Suspicion]], weights: Weights, well: float = 1.0
) -> list[tuple[float, Suspicion]]:
    cases = [best(group, weights) for group in groups]
    totals, most = [case.total(weights) for case in cases], [case.at_most(well) for case in cases]
    return sorted(zip(limited(totals, most), cases, strict=False), key=lambda each: -each[0])


def _named(
    view: SubscriptionView, ranked: Sequence[tuple[float, Suspicion]], weights: Weights
) -> tuple[Suspect, ...]:
    """The suspects that are worth naming; the others count as no known cause."""
    likely = [(p, case) for p, case in ranked[:SHOWN_MOST] if p >= SHOWN_LEAST]
    named = [_suspect(view, case, p, weights) for p, case in likely]
    rest = max(0.0, 1 - sum(suspect.probability for suspect in named))
    return (*named, Suspect(NONE_OF_THESE, None, round(rest, 3), "no known cause applies"))


def cases_of(
    view: SubscriptionView,
    hypotheses: Iterable[Hypothesis],
    undecided: Undecided,
    *,
    settled: bool = False,
) -> list[list[Suspicion]]:
    """What nothing excludes: of each hypothesis a case for each consumer that it may concern.

    settled: no cause has found or missed anything.
    """
    reported = view.consumers or view.backlog or view.left or view.own or view.closed
    if view.refused or view.gap or not reported:
        return []
    whole = dict(of_subscription(view))
    seen = of_consumers(view, _silent(undecided))
    whole |= _of_all([clues for _, clues in seen])
    if settled:
        whole[NOTHING_FOUND] = SETTLED
    groups = []
    for hypothesis in hypotheses:
        if not _concerns(hypothesis, view, whole, undecided):
            continue
        group = list(_cases(view, hypothesis, whole, seen, undecided.get(hypothesis.code, ())))
        groups += [group] if group else []
    return groups


def _silent(undecided: Undecided) -> frozenset[str | None]:
    """Labels of consumers that a check found to be silent for longer than usual."""
    answers = (one for answers in undecided.values() for one in answers)
    return frozenset(one.consumer for one in answers if isinstance(one, SilentHolder))


def _concerns(of: Hypothesis, view: SubscriptionView, whole: Clues, undecided: Undecided) -> bool:
    """Whether it may be that: of a cursor of the broker's own, only what its checks left open."""
    of_own = view.own is not None and of.code != HEALTHY
    if (of.if_undecided or of_own) and of.code not in undecided:
        return False
    return first_of(of.excluded, whole, view) is None


def _cases(
    view: SubscriptionView,
    hypothesis: Hypothesis,
    whole: Clues,
    seen: Sequence[tuple[ConsumerView, Clues]],
    unknown: Sequence[Unknown],
) -> Iterator[Suspicion]:
    if not hypothesis.not_by or view.consumers is None:
        yield Suspicion(hypothesis, None, {**whole, **_undecided(unknown)}, view.served)
        return
    first: dict[str | None, tuple[int, Unknown]] = {}  # by the consumer that it is about
    for place, one in enumerate(unknown):
        first.setdefault(one.consumer, (place, one))
    for each, clues in seen:
        if first_of(hypothesis.not_by, clues, view, each) is None:
            about = [first[label] for label in {None, each.label} if label in first]
            concerns = [one for _, one in sorted(about, key=itemgetter(0))]
            known = {**whole, **clues, **_undecided(concerns)}
            yield Suspicion(hypothesis, each, known, (each,))


def _undecided(unknown: Sequence[Unknown]) -> dict[str, Clue]:
    return {UNDECIDED: Clue(UNDECIDED, unknown[0].reason)} if unknown else {}


def _of_all(seen: Sequence[Clues]) -> dict[str, Observation | Clue]:
    """What each consumer shows, seen of the whole subscription."""
    everybody = {key: _shown(seen, keys) for key, keys in EVERY_CONSUMER.items()}
    return {key: clues[0] for key, clues in everybody.items() if clues and len(clues) == len(seen)}


def _shown(seen: Sequence[Clues], keys: Sequence[str]) -> list[Observation | Clue]:
    """The first case of each consumer that shows one of these."""
    first = (next((clues[key] for key in keys if key in clues), None) for clues in seen)
    return [clue for clue in first if clue is not None]


def best(group: Sequence[Suspicion], weights: Weights) -> Suspicion:
    """The case that represents its hypothesis."""
    return max(group, key=lambda case: case.total(weights)) if len(group) > 1 else group[0]


def shares_of(totals: Sequence[float]) -> list[float]:
    """Shares of each and, last, of none of them; together 1."""
    highest = max(*totals, 0.0) if totals else 0.0
    powers = [math.exp(total - highest) for total in (*totals, 0.0)]
    whole = sum(powers)
    return [power / whole for power in powers]


def limited(totals: Sequence[float], at_most: Sequence[float]) -> list[float]:
    """Shares of each and, last, of none of them, where each has so much at most.

    So it is with "nothing is wrong" where a fact forbids it, and with a suspect that has only just
    connected: of the states to which the weights are fitted few are like that. What one may not
    have is shared by the others.
    """
    shares, most = shares_of(totals), [*at_most, 1.0]
    full: set[int] = set()
    while over := {at for at, share in enumerate(shares) if at not in full and share > most[at]}:
        full |= over
        left = 1 - sum(most[at] for at in full)
        free = sum(share for at, share in enumerate(shares) if at not in full)
        if free == 0:  # the others round to 0
            return [*(most[at] * (at in full) for at in range(len(totals))), left]
        shares = [most[at] if at in full else s * left / free for at, s in enumerate(shares)]
    return shares


def _suspect(view: SubscriptionView, case: Suspicion, share: float, weights: Weights) -> Suspect:
    each, own = case.consumer, weights.get(case.of.code, {})
    heard = sorted(case.signs, key=lambda sign: -weight(own, sign[0]))
    clues = {
        sign: tuple(
            Clue(seen.name, seen.text)
            for key, s in heard
            if s == sign and weight(own, key) > MIN_WEIGHT
            for seen in (case.clues[key],)
        )
        for sign in (1, -1)
    }
    says = case.of.says.format(who=each.label if each else "a consumer")
    keys = waiting_for_silent(view, each) if each and case.of.code in CONSEQUENCES else ""
    return Suspect(
        code=case.of.code,
        consumer=None if each is None else each.label,
        probability=round(share, 3),
        summary=joined("; ", (_sentence(says, clues[1]), keys)),
        speaks_for=clues[1],
        against=clues[-1],
        missing=missing_of(case.of.missing, view, each),
        decide=probe_of(view, case.of, each),
        where=None if each is None else each.whereabouts,
        stalls=case.of.stalls,
        alike=case.of.alike(view, each) if case.of.alike and each is not None else None,
    )


def _sentence(says: str, clues: Sequence[Clue]) -> str:
    """What it would mean, and the two clues that say most, each number once."""
    plain = [clue.text for clue in clues if clue.name != UNDECIDED]
    words = [{*" ".join(values_in(text)).split()} for text in plain]  # with the units
    pairs = zip(plain, words, strict=True)
    news = [text for text, own in pairs if len(own) < 2 or not any(own < each for each in words)]
    return joined("; ", (says, *news[:2]))
