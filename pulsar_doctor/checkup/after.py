"""Whether a remedy has worked: compares an earlier sample with the present one.

Verdicts are compared, and beside them the numbers that moved. A consumer that connected anew is
another one to the broker: its counters began again, which is reported and never taken for progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pulsar_doctor.broker.samples.plain import UNKNOWN
from pulsar_doctor.broker.samples.plain_windows import consumer_fell
from pulsar_doctor.broker.samples.reading import is_called
from pulsar_doctor.broker.stats.observed import SHARING, Observed
from pulsar_doctor.broker.stats.positions import ranges_of
from pulsar_doctor.broker.stats.topic import ConsumerStats
from pulsar_doctor.broker.stats.values import Position
from pulsar_doctor.broker.stats.window import connections
from pulsar_doctor.diagnosis.followup import After, Became, ConsumerAfter, Outcome, Shift
from pulsar_doctor.diagnosis.short_form import in_short, place
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.errors import InputError
from pulsar_doctor.evidence.stats_moved import returned_in_life
from pulsar_doctor.wording.addresses import at
from pulsar_doctor.wording.printable import listed, many, printable

RANKS = {"healthy": 0, "warning": 1, "stalled": 2}
NAMED_MOST = 3
Remains = Literal["none", "all"] | None  # of the messages that waited at the first check


@dataclass(frozen=True, slots=True)
class Earlier:
    """The verdicts on the statistics that a file kept, by topic or partition and subscription."""

    file: str  # its name
    known: Mapping[tuple[str, str], tuple[Observed, Diagnosis]]
    lacks: tuple[str, ...] = ()  # a sentence on requested topics that it has not

    def after(self, observed: Observed, now: Diagnosis) -> After:
        """What became of a subscription since."""
        found = self._of(observed)
        if found is None:
            why = f"{self.file} has no subscription {printable(now.subscription)} of this topic"
            return After("cannot be compared", why)
        return compared(*found, observed, now, file=self.file)

    def gone(
        self, there: Sequence[Observed], topics: Iterable[str], subscription: str | None
    ) -> Iterator[tuple[str, str]]:
        """What it has of these topics and is not there any more: the topic, and a sentence.

        subscription: only this one. Raises InputError where it has none of these topics, or
        where that is not certain.
        """
        found = {self._topic(topic) for topic in topics} - {None}
        if not found:
            has = listed(sorted({topic for topic, _ in self.known}), NAMED_MOST)
            why = f"is of other topics ({printable(has)})" if has else "holds no subscription"
            raise InputError(f"{self.file} {why}; --after takes a file of what is judged now")
        pairs = ((self._of(o), o) for o in there)
        doubts = [_perhaps_another_topic(was[0], o, self.file) for was, o in pairs if was]
        if doubts and all(doubts):
            raise InputError(f"nothing to compare with: {doubts[0]}")
        now = {(self._topic(o.full_topic), o.subscription) for o in there}
        for topic, name in self.known:
            if topic in found and (topic, name) not in now and subscription in (None, name):
                yield topic, f"{place((topic, name))} was in {self.file} and is not there any more"

    def _of(self, observed: Observed) -> tuple[Observed, Diagnosis] | None:
        topic = self._topic(observed.full_topic)
        return None if topic is None else self.known.get((topic, observed.subscription))

    def _topic(self, full: str) -> str | None:
        """What it calls a topic or partition; it may not name it whole, or at all."""
        named = {topic for topic, _ in self.known}
        if full in named or len(named) != 1:
            return full if full in named else None
        [topic] = named
        unnamed = UNKNOWN in (topic, full)
        return topic if unnamed or is_called(full, topic) or is_called(topic, full) else None


def compared(
    was: Observed, before: Diagnosis, observed: Observed, now: Diagnosis, *, file: str
) -> After:
    """What became of one subscription. file: which has the earlier state."""
    seconds = _seconds(was, observed)
    why_not = _incomparable(was, observed, seconds, file)
    if why_not:
        return After("cannot be compared", why_not, before.status)
    shift = Shift("backlog", before.backlog, now.backlog)
    shifts = (shift,) if shift.before is not None or shift.now is not None else ()
    consumers = tuple(_consumers(was, observed))
    rest = _rest(was, before, observed, now, consumers)
    outcome, why = _outcome(before, now, rest)
    blamed = "; ".join(_blamed(was, before, observed))
    return After(outcome, why, before.status, seconds, shifts, consumers, blamed)


def _outcome(before: Diagnosis, now: Diagnosis, rest: Remains) -> tuple[Outcome, str]:
    turned = f"{in_short(before)} -> {in_short(now)}"
    if "unknown" in (before.status, now.status):
        return _of_undecided(before, now, turned, rest)
    was, is_ = RANKS[before.status], RANKS[now.status]
    if is_ > was:
        return "worse", turned
    if is_ == 0:
        return (
            ("worked", turned) if was else ("was well", f"healthy at both checks{_first(before)}")
        )
    return "not yet", f"still {in_short(now)}" if in_short(before) == in_short(now) else turned


def _of_undecided(
    before: Diagnosis, now: Diagnosis, turned: str, rest: Remains
) -> tuple[Outcome, str]:
    """Where one verdict is undecided: by what became of the messages that waited then."""
    if now.status == "healthy" and before.backlog:
        why = _reason(before).partition("; ")[0]
        outcome: Outcome = "worked" if rest == "none" else "cannot be compared"
        return outcome, f"healthy now; the first check was undecided ({why})"
    if now.status == "unknown":
        both = "undecided at both checks" if before.status == "unknown" else turned
        text = f"{both}: {_reason(now)}"
    else:
        text = f"{turned}; the first check was undecided ({_reason(before)})"
    if rest == "all" and not now.reader_rests:
        return "not yet", f"nothing is acknowledged since; {text}"
    if rest == "none":
        return "cannot be compared", f"nothing is left of what waited then; {text}"
    return ("cannot be compared" if now.status in ("unknown", "healthy") else "not yet"), text


def _rest(
    was: Observed,
    before: Diagnosis,
    observed: Observed,
    now: Diagnosis,
    consumers: Sequence[ConsumerAfter],
) -> Remains:
    """What of the messages that waited then is not acknowledged; None: some, or nothing tells."""
    if not before.backlog or now.backlog is None:
        return None
    end = was.internal.last_confirmed_entry if was.internal else None
    (begun, _), (done, _) = states = [_acknowledged(each) for each in (was, observed)]
    if (now.backlog == 0 and not _held(now)) or (end and done and begun and begun < end <= done):
        return "none"
    acked = {each.acked for each in consumers if each.became != "gone"}
    still = states[0] == states[1] and now.backlog >= before.backlog
    return "all" if acked == {False} and still else None


def _acknowledged(observed: Observed) -> tuple[Position | None, object]:
    """Mark-delete, and the acknowledged ranges behind it."""
    cursor = observed.cursor_now
    return (None, None) if cursor is None else (cursor.mark_delete_position, ranges_of(cursor))


def _blamed(was: Observed, before: Diagnosis, observed: Observed) -> Iterator[str]:
    """Whether the consumers that the first check names were restarted, by their addresses."""
    first = before.likeliest if before.status == "unknown" else None
    found = [first] if first else [each for each in before.findings if each.severity != "info"]
    there = {_identity(each): each for each in observed.now.consumers or ()}
    then = [_identity(each) for each in was.now.consumers or ()]
    fates: dict[str, dict[str, None]] = {}
    for each in found:
        address = each.where.address if each.where else None
        called = (key for key in then if each.consumer in (key[0], at(key[0] or "", address)))
        if not address or (one := next((k for k in called if k[2] == address), None)) is None:
            continue
        again = [key[2] for key in there if key[0] == one[0] and key not in then]
        if one in there:
            fate = "{} not restarted: {} still connected"
        elif address in {key[2] for key in there}:
            fate = "{} not restarted: {} still on the same connection"
        elif again:
            fate = f"{{}} restarted: {at(one[0] or '', again[0])} is new"
        else:
            fate = "{} gone"
        fates.setdefault(fate, {})[at(printable(each.consumer or ""), address)] = None
    for fate, those in fates.items():
        few, who = len(those) == 1, listed([*those], NAMED_MOST)
        verb = ("has" if few else "have") if "gone" in fate else ("was" if few else "were")
        text = fate.format(verb, "it is" if few else "they are")
        yield printable(f"the blamed consumer{'' if few else 's'} {who} {text}")


def _held(diagnosis: Diagnosis) -> int:
    """Messages that its consumers held, at least, by its account."""
    places = diagnosis.account.places if diagnosis.account else ()
    counts = [each.messages or each.entries for each in places if each.name == "held"]
    return sum(count.least or 0 for count in counts if count)


def _first(before: Diagnosis) -> str:
    held = _held(before)
    return f" (it held {many(held, 'message')} at the first)" if held else ""


def _reason(diagnosis: Diagnosis) -> str:
    first = diagnosis.unknowns[0] if diagnosis.unknowns else "not decided"
    return printable(first.removeprefix("healthy: "))


def _incomparable(
    was: Observed, observed: Observed, seconds: float | None, file: str
) -> str | None:
    """Why the two cannot be compared; None where both are readings of one thing in their order."""
    earlier, later = was.window.last, observed.window.last
    if earlier.topic == later.topic and not seconds:
        return f"{file} holds the very reading that is judged; take another one"
    if why := _perhaps_another_topic(was, observed, file):
        return why
    if (seconds is not None and seconds < 0) or consumer_fell(earlier, later):
        return f"{file} was taken later than what is judged; --after takes the earlier one"
    return None


def _perhaps_another_topic(was: Observed, observed: Observed, file: str) -> str | None:
    """Why the two may be of different topics: a name is missing, and no connection is in both."""
    before, now = ({*connections(of.window.last.topic)} for of in (was, observed))
    named = {was.topic, observed.topic} - {UNKNOWN}
    certain = UNKNOWN not in (was.topic, observed.topic) or not before.isdisjoint(now)
    if certain or not (named or (before and now)):
        return None
    names = (
        f"only one of {file} and what is judged names"
        if named
        else f"neither {file} nor what is judged names"
    )
    known = printable(*named) if named else "one topic"
    return (
        f"{names} its topic, and no consumer or producer is in both; if both are of {known}, give "
        f"{'that' if named else 'its'} name on the command line"
    )


def _seconds(was: Observed, observed: Observed) -> float | None:
    earlier, later = was.window.last, observed.window.last
    if (
        not (earlier.now_known and later.now_known)
        or earlier.now_ms is None
        or later.now_ms is None
    ):
        return None
    return (later.now_ms - earlier.now_ms) / 1000


def _consumers(was: Observed, observed: Observed) -> Iterator[ConsumerAfter]:
    """Everybody of now, in the broker's order, then those that have gone."""
    counted = observed.type in SHARING
    before = {_identity(each): each for each in was.now.consumers or ()}
    now = {_identity(each): each for each in observed.now.consumers or ()}
    left = {key: each for key, each in before.items() if key not in now}
    for key, consumer in now.items():
        again = None if key in before else next((k for k in left if k[0] and k[0] == key[0]), None)
        earlier = before.get(key) or (left.pop(again) if again is not None else None)
        yield _became(key in before, earlier, consumer, counted=counted)
    for consumer in left.values():
        yield ConsumerAfter(_label(consumer), "gone", consumer.address)


def _became(
    same: bool, earlier: ConsumerStats | None, now: ConsumerStats, *, counted: bool
) -> ConsumerAfter:
    began = earlier if same else None  # where counters began again, they began at 0
    permits = earlier.available_permits if earlier else None
    shifts = [Shift("available_permits", permits, now.available_permits)]
    if counted:
        held = earlier.unacked_messages if earlier else None
        shifts.append(Shift("unacked_messages", held, now.unacked_messages))
    became: Became = "same" if same else "reconnected" if earlier else "new"
    returned = _returned(began, now) if counted else None
    acked = _acked(began, now)
    return ConsumerAfter(_label(now), became, now.address, tuple(shifts), returned, acked)


def _returned(began: ConsumerStats | None, now: ConsumerStats) -> int | None:
    then, since = (returned_in_life(began) if began else 0), returned_in_life(now)
    return None if then is None or since is None else max(0, since - then)


def _acked(began: ConsumerStats | None, now: ConsumerStats) -> bool | None:
    if now.last_acked_timestamp_ms is None:
        return False if "last_acked_timestamp_ms" in now.never else None
    if began is None or "last_acked_timestamp_ms" in began.never:
        return True
    then = began.last_acked_timestamp_ms
    return None if then is None else now.last_acked_timestamp_ms > then


def _identity(consumer: ConsumerStats) -> tuple[str | None, str | None, str | None]:
    return consumer.consumer_name, consumer.connected_since or None, consumer.address


def _label(consumer: ConsumerStats) -> str:
    return printable(consumer.consumer_name or consumer.address or "a consumer")
