"""What is recorded of a subscription: one row, with its verdict and its numbers.

A subscription has a row whenever its status, cause or certainty changes, in the round after that,
when it is read no more, when it is read again, and in the first round of each quarter of an hour.
So in every round up to the next row, or up to the end of the quarter, it was as its row says.
None is not reported.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.evidence.account import sum_of
from pulsar_doctor.evidence.balance import FlowRate
from pulsar_doctor.evidence.numbers import ReportedConsumer
from pulsar_doctor.evidence.values import least, most
from pulsar_doctor.evidence.whereabouts import Whereabouts

SCHEMA_VERSION = 1
NUMBERS_SECONDS = 900  # from one row of a subscription to the next one, at most
ROUND, SEEN, GONE, UNREAD = "round", "seen", "gone", "unread"  # kinds of rows
RATES = ("comes_in", "sent_out", "acknowledged", "redelivered", "growth")

RecordRow = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NamedCause:
    """What a verdict names first."""

    code: str | None = None
    certainty: float | None = None
    consumer: str | None = None

    @property
    def compared(self) -> tuple[str | None, float | None, str | None]:
        """A change of this is recorded: of a probability only a tenth."""
        certainty = None if self.certainty is None else round(self.certainty, 1)
        return self.code, certainty, self.consumer


NO_CAUSE = NamedCause()


def cause_of(diagnosis: Diagnosis) -> NamedCause:
    """The first finding; of an undecided verdict the likeliest cause."""
    if diagnosis.status in ("stalled", "warning"):
        first = diagnosis.findings[0]
        return NamedCause(first.code, first.confidence, _name(diagnosis, first.consumer))
    suspect = diagnosis.likeliest if diagnosis.status == "unknown" else None
    if suspect is None:
        return NO_CAUSE
    return NamedCause(suspect.code, suspect.probability, _name(diagnosis, suspect.consumer))


def _name(diagnosis: Diagnosis, label: str | None) -> str | None:
    """The name of a consumer without the address beside it, which may be no host to record."""
    there = (each.name for each in diagnosis.consumers or () if each.label == label)
    return next(there, None) or label


def round_row(checkup: Checkup, subscriptions: int, every: float) -> RecordRow:
    """The row of a whole round."""
    unread = len(checkup.unreachable)
    return _head(checkup, ROUND) | {
        "subscriptions": subscriptions,
        "unread": unread,
        "every_seconds": every,
    }


def missing_row(checkup: Checkup, kind: str, topic: str, subscription: str) -> RecordRow:
    """The row of a subscription that is no more, though its topic could be read, or is not read."""
    return _head(checkup, kind) | {"topic": topic, "subscription": subscription}


def row_of(
    checkup: Checkup, diagnosis: Diagnosis, cause: NamedCause, key: bytes | None
) -> RecordRow:
    """The row of a subscription. key: of pseudonyms of hosts; None: hosts as they are."""
    topic, subscription = diagnosis.key
    steady, balance = diagnosis.steady, diagnosis.balance
    of_now = steady is None or steady.alone == diagnosis.status
    rates = {name: _rate(getattr(balance, name)) for name in RATES} if balance else {}
    consumers = diagnosis.consumers
    return {
        **_head(checkup, SEEN),
        "topic": topic,
        "subscription": subscription,
        "type": diagnosis.type,
        "status": diagnosis.status if steady is None else steady.status,
        "cause": cause.code,
        "certainty": _short(cause.certainty),
        "consumer": cause.consumer,
        "backlog": diagnosis.backlog,
        "oldest_seconds": _known(diagnosis.oldest_seconds),
        "pace": balance.pace if balance else None,
        **rates,
        "account": list(_account(diagnosis)) if of_now and diagnosis.account else None,
        "limits": list(_limits(diagnosis)),
        "consumers": None if consumers is None else [_consumer(each, key) for each in consumers],
    }


def _head(checkup: Checkup, kind: str) -> RecordRow:
    cluster = checkup.cluster
    return {
        "schema_version": SCHEMA_VERSION,
        "seen_at": micros(checkup.checked_at),
        "kind": kind,
        "broker_version": cluster.broker_version if cluster else None,
    }


def _account(diagnosis: Diagnosis) -> Iterator[RecordRow]:
    """Entries in each place; a place that is not here is empty."""
    account = diagnosis.account
    for name in dict.fromkeys(each.name for each in account.places) if account else ():
        entries = account.entries_in(name) if account else sum_of(())
        yield {"place": name, "least": entries.least, "most": entries.most}


def _limits(diagnosis: Diagnosis) -> Iterator[RecordRow]:
    """How far it is from each limit that it has. seconds: at the pace of now, where it is known."""
    soon = {each.limit: each.seconds for each in diagnosis.deadlines}
    view, ranges = diagnosis.view, diagnosis.ranges
    policies = view.policies if view is not None else None
    oldest = _known(policies.oldest_seconds if policies else diagnosis.oldest_seconds)
    known = {"acknowledged-ranges": (ranges.count, ranges.known_limit)} if ranges else {}
    if policies is not None:
        known["backlog-quota-size"] = (policies.used_bytes or 0, policies.quota_bytes)
        known["backlog-quota-age"] = (oldest or 0, policies.quota_seconds)
        known["message-ttl"] = (oldest or 0, policies.ttl_seconds)
    if view is not None and view.unacked_limit is not None:
        known["unacked-messages"] = (most(view.unacked) or 0, view.unacked_limit.most)
    for name, (level, limit) in known.items():
        if limit and level > 0:
            seconds = {str(key): value for key, value in soon.items()}.get(name)
            yield {"name": name, "level": level, "most": limit, "seconds": _short(seconds)}


def _consumer(of: ReportedConsumer, key: bytes | None) -> RecordRow:
    where = Whereabouts(of.address, of.client_version, of.connected_since)
    return {
        "name": of.name,
        "version": where.client_version,
        "host": host_of(where.address, key),
        "connected": moment_of(where.connected_since),
        "permits": most(of.available_permits),
        "unacked": least(of.unacked_messages),
        "rate": _short(of.msg_rate_out),
        "queue_size": most(of.receiver_queue_size),
    }


def host_of(address: str | None, key: bytes | None) -> str | None:
    """The host of `/10.0.0.7:41312`; the same pseudonym each time if there is a key."""
    if not address:
        return None
    host = address.strip("/").rpartition(":")[0] or address.strip("/")
    return host if key is None else hmac.digest(key, host.encode(), "sha256")[:4].hex()


def moment_of(text: str | None) -> int | None:
    """Microseconds since the epoch; None for what is not a time."""
    try:
        return micros(datetime.fromisoformat(text)) if text else None
    except (ValueError, OverflowError):
        return None


def micros(moment: datetime) -> int:
    """Microseconds since the epoch."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1e6)


def _rate(rate: FlowRate | None) -> float | None:
    return None if rate is None else _short(rate.about)


def _short(number: float | None) -> float | None:
    """To two digits: more would be noise, and takes room."""
    return None if number is None else float(f"{number:.2g}")


def _known(seconds: int | None) -> int | None:
    return None if seconds is None or seconds < 0 else seconds
