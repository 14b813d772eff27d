"""What was found of holes, from whatever source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.checkup.holes.account import CursorAccount, account
from pulsar_doctor.checkup.holes.cursors import broker_cursors_of, subscriptions_of
from pulsar_doctor.checkup.holes.held import BrokerCursor
from pulsar_doctor.checkup.result import Cluster
from pulsar_doctor.errors import InputError
from pulsar_doctor.ledger.acks.biographies import Biography
from pulsar_doctor.ledger.acks.persisting import NOTHING_REPORTED, Storing
from pulsar_doctor.ledger.consumers import full_name


@dataclass(slots=True)
class Acknowledged:
    """What was found."""

    source: str  # broker, files or trace
    accounts: list[CursorAccount] = field(default_factory=list)
    cursors: list[BrokerCursor] = field(default_factory=list)  # that the broker keeps for itself
    not_loaded: list[str] = field(default_factory=list)
    unreachable: list[tuple[str, str]] = field(default_factory=list)  # what was not read, and why
    notes: list[str] = field(default_factory=list)
    # (full name, sentence) of named topics that have no subscription, or store nothing
    kinds: list[tuple[str, str]] = field(default_factory=list)
    # entries in holes by topic and subscription, where a trace has them
    biographies: dict[tuple[str, str], Sequence[Biography]] = field(default_factory=dict)
    cluster: Cluster | None = None  # that was read; None: files or a trace

    def add(self, window: TopicWindow, storing: Storing, subscription: str | None) -> None:
        """The subscriptions of a topic, as its last sample has them.

        Raises InputError where a file holds what a broker cannot have written.
        """
        for observed in subscriptions_of(window, storing):
            if subscription in (None, observed.subscription):
                with self._named(window, observed.subscription):
                    self.accounts.append(account(observed, storing))
        with self._named(window, "a cursor of the broker's own"):
            self.cursors += [
                each
                for each in broker_cursors_of(window, storing)
                if subscription in (None, each.account.subscription)
            ]

    @contextmanager
    def _named(self, window: TopicWindow, what: str) -> Iterator[None]:
        """Names the file with what cannot be read; reports the rest of a broker all the same."""
        try:
            yield
        except InputError as error:
            where = f"{what} on {window.topic}"
            if self.source == "files":
                raise InputError(f"{where}: {error}") from None
            self.unreachable.append(
                (full_name(window.topic, window.partition), f"{where}: {error}")
            )


def holes_in(windows: Iterable[TopicWindow], subscription: str | None) -> Acknowledged:
    """What windows that were read before tell; what cannot be right is in `unreachable`."""
    found = Acknowledged("broker")
    for window in windows:
        found.add(window, NOTHING_REPORTED, subscription)
    return found
