"""The account of a subscription in words: each place, how much is there, and when it last moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pulsar_doctor.evidence.account import Account, Flow, Place, PlaceName, sum_of
from pulsar_doctor.evidence.balance import Balance
from pulsar_doctor.evidence.values import least, most
from pulsar_doctor.wording.durations import duration, rate
from pulsar_doctor.wording.printable import many, printable
from pulsar_doctor.wording.sentences import joined, say

BESIDE_MOST = 3  # places beside the backlog
PLACES_MOST = 8  # rows; the consumers that hold least are only counted
ALWAYS_SHOWN = ("published", "sent", "acknowledged")  # also where it is 0
# What moves a place: when it last did, and that it did not.
SENT = ("last sent", "nothing sent")
TAKEN = ("last taken or acknowledged", "nothing taken or acknowledged")
MARK_DELETE = ("mark-delete last moved", "mark-delete has not moved")
WORDS: Mapping[PlaceName, tuple[str, tuple[str, str]]] = {
    "in-transaction": ("behind an open transaction", SENT),
    "unread": ("unread", SENT),
    "unsent": ("unread, or read and with nobody", SENT),
    "delayed": ("delayed", SENT),
    "replay": ("in the replay queue", SENT),
    "held": ("held", TAKEN),
    "pending-ack": ("acknowledged in an open transaction", MARK_DELETE),
    "unaccounted": ("read, and with nobody", MARK_DELETE),
}

IN_SHORT: Mapping[PlaceName, str] = {"unsent": "with nobody", "unaccounted": "with nobody"}


@dataclass(frozen=True, slots=True)
class AccountTable:
    """The words of an account: a title, a row for each place, and sentences below them."""

    title: str
    rows: tuple[tuple[str, str, str], ...]  # place and who has them, how many, last moved
    below: tuple[str, ...]
    sizes: tuple[int, ...] = ()  # of the rows: at least so many messages

    @property
    def lines(self) -> Iterator[str]:
        """The same without columns, for a terminal."""
        yield self.title
        for place, count, moved in self.rows:
            yield f"{place}: {count}, {moved}"
        yield from self.below


def account_table(account: Account, balance: Balance | None = None) -> AccountTable:
    """The account of every place, safe to print; of many consumers those that hold most."""
    known = [each for each in account.places if each.messages or each.entries]
    unknown = [each for each in account.places if not (each.messages or each.entries)]
    held = sorted((each for each in known if each.consumer), key=_most, reverse=True)
    room = max(1, PLACES_MOST - (len(known) - len(held)))
    shown = [each for each in known if not each.consumer or each in held[:room]]
    rows = tuple((_named(each), _how_many(each), _moved(each)) for each in shown)
    below = (*_below(account, held[room:], unknown), *(_flows(balance) if balance else ()))
    sizes = tuple(least(each.messages or each.entries) or 0 for each in shown)
    return AccountTable(_title(account), rows, below, sizes)


def divided(account: Account | None) -> str:
    """` (1000 held by worker-1, 995 with nobody)`; empty where not all of it is known exactly."""
    places = account.places if account else ()
    counts = [each.entries.exact if each.entries else None for each in places]
    if account is None or account.total is None or not 1 < len(places) <= BESIDE_MOST:
        return ""
    if None in counts or sum(count or 0 for count in counts) != account.total.exact:
        return ""
    names = (_named(each, IN_SHORT.get(each.name)) for each in places)
    return f" ({', '.join(f'{n} {name}' for n, name in zip(counts, names, strict=True))})"


def _most(place: Place) -> int:
    return most(place.messages or place.entries) or 0


def _title(account: Account) -> str:
    if account.total is None:
        return "the backlog is not reported"
    if account.total.most == 0 and not account.places:
        return "nothing waits"
    return say("{:entries} in the backlog", account.total)


def _named(place: Place, name: str | None = None) -> str:
    by = f" by {printable(place.consumer)}" if place.consumer else ""
    return f"{name or WORDS[place.name][0]}{by}"


def _how_many(place: Place) -> str:
    """Messages where they are counted, with their entries where these are known to differ."""
    entries, messages = place.entries, place.messages
    count = say("{:messages}", messages) if messages else say("{:entries}", entries)
    if messages and entries and entries.exact not in (None, messages.exact):
        count = say("{} in {:entries}", count, entries)
    return joined(", ", (count, f"{place.partly} partly acknowledged" if place.partly else ""))


def _moved(place: Place) -> str:
    """When it last did; where only a lower bound is known, for how long it has not."""
    _, (last, never) = WORDS[place.name]
    if place.rest is None or (place.rest.most is None and not place.rest.least):
        return "last moved: not reported"
    fewest, longest = duration(place.rest.least), place.rest.most
    if longest is None:
        return f"{never} for at least {fewest}"
    upper = duration(longest)
    if fewest == upper:
        return f"{last} {upper} ago"
    return f"{last} {f'{fewest} to' if place.rest.least else 'at most'} {upper} ago"


def _below(account: Account, more: Sequence[Place], unknown: Sequence[Place]) -> Iterator[str]:
    if more:
        held = say("{:messages}", sum_of(each.messages or each.entries for each in more))
        yield f"and {many(len(more), 'more consumer')}, {held}"
    if unknown:
        yield f"not reported: {'; '.join(map(_named, unknown))}"
    if flows := [_flow(each) for each in account.flows if _is_shown(each)]:
        yield f"in the window: {', '.join(flows)}"
    if account.contradiction:
        yield f"contradiction: {printable(account.contradiction)}"


def _flows(of: Balance) -> Iterator[str]:
    """`messages a second: 120 come in, 40 sent, 40 acknowledged`; nothing where none move."""
    flows = {"come in": of.comes_in, "sent": of.sent_out, "acknowledged": of.acknowledged}
    known = {name: flow for name, flow in flows.items() if flow is not None}
    if any(flow.about for flow in known.values()):
        known_rates = (f"{rate(flow.about)} {name}" for name, flow in known.items())
        yield f"messages a second: {', '.join(known_rates)}"


def _is_shown(flow: Flow) -> bool:
    return flow.name in ALWAYS_SHOWN or bool(flow.count.least)


def _flow(flow: Flow) -> str:
    """`sent 12 messages`; the unit once."""
    if flow.unit in flow.name:
        return f"{flow.name}: {flow.count}"
    return f"{flow.name} {say('{:' + flow.unit + '}', flow.count)}"
