"""`stall-check --watch --keep DIR`: records each round of a watch when it has ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pulsar_doctor.errors import DoctorError, InputError, needing
from pulsar_doctor.ledger.topics import split_partition
from pulsar_doctor.parts.fleet.record import (
    GONE,
    NO_CAUSE,
    NUMBERS_SECONDS,
    UNREAD,
    NamedCause,
    RecordRow,
    cause_of,
    micros,
    missing_row,
    round_row,
    row_of,
)
from pulsar_doctor.wording.gate import complain

if TYPE_CHECKING:
    from collections.abc import Callable

    from pulsar_doctor.checkup.result import Checkup
    from pulsar_doctor.diagnosis.verdict import Diagnosis, VerdictKey
    from pulsar_doctor.parts.fleet.journal import Keeper

    Recorded = Callable[[Checkup, Iterable[Diagnosis]], Iterator[Diagnosis]]

DEFAULT_SECONDS, DEFAULT_SIZE = 90 * 86400.0, 10 << 30


class RoundRecorder:
    """Chooses what is written of each round. Changes in place."""

    def __init__(self, every: float, key: bytes | None) -> None:
        self._every, self._hosts_key = every, key
        self._last: dict[VerdictKey, tuple[object, NamedCause]] = {}  # status and cause of each
        self._changed: set[VerdictKey] = set()  # in the round before this one
        self._unread: set[VerdictKey] = set()  # in that round, of those known before
        self._quarter = -1  # in which all numbers were written last
        self.rows: list[RecordRow] = []  # of the round that has ended

    def through(self, checkup: Checkup, diagnoses: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
        """The same verdicts; once they are read to their end, `rows` is what is to be kept."""
        from pulsar_doctor.checkup.result import REST

        quarter = micros(checkup.checked_at) // (NUMBERS_SECONDS * 1_000_000)
        last, due = dict(self._last), self._changed | self._unread
        rows: list[RecordRow] = []
        seen: set[VerdictKey] = set()
        changed: set[VerdictKey] = set()
        for diagnosis in diagnoses:
            key = diagnosis.key
            seen.add(key)
            verdict = self._verdict(key, diagnosis)
            if verdict != last.get(key):
                changed.add(key)
            last[key] = verdict
            if quarter != self._quarter or key in due or key in changed:
                rows.append(row_of(checkup, diagnosis, verdict[1], self._hosts_key))
            yield diagnosis
        unread = {*checkup.not_loaded, *(topic for topic, _ in checkup.unreachable)}
        partly = REST in unread or checkup.stopped
        missing = self._last.keys() - seen
        gone = {key for key in missing if not partly and unread.isdisjoint(names_of(key[0]))}
        for key in sorted(gone):
            del last[key]
            rows.append(missing_row(checkup, GONE, *key))
        rows += [
            missing_row(checkup, UNREAD, *key) for key in sorted(missing - gone - self._unread)
        ]
        self.rows = [round_row(checkup, len(seen), self._every), *rows]
        self._last, self._changed, self._quarter = last, changed, quarter
        self._unread = missing - gone

    def write_all_next(self) -> None:
        """What was to be kept is lost: the next round has every row."""
        self._quarter, self._unread = -1, set()

    def _verdict(self, key: VerdictKey, diagnosis: Diagnosis) -> tuple[object, NamedCause]:
        """What a watch shows. Where that is worse than this round's own, the cause is the last."""
        steady = diagnosis.steady
        status = diagnosis.status if steady is None else steady.status
        before = self._last.get(key, (None, NO_CAUSE))[1]
        cause = cause_of(diagnosis) if status == diagnosis.status else before
        return status, before if cause.compared == before.compared else cause


def names_of(topic: str) -> tuple[str, str]:
    """How a topic may be named where it could not be read: itself, or whole."""
    return topic, split_partition(topic)[0]


@contextmanager
def beside(options: Mapping[str, Any], *, named: bool, every: float) -> Iterator[Recorded]:
    """Records as long as the watch lasts; yields what the verdicts of each round pass through.

    options: of the call. every: seconds.
    """
    folder = options["keep"]
    with needing("trace", "recording a watch"):
        from pulsar_doctor.parts.fleet import journal
    root = Path(folder)
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = None if options.get("keep_hosts") else journal.key_of(root)
    except OSError as error:
        raise InputError(f"cannot record in {folder}: {error.strerror}") from None
    recorder = RoundRecorder(every, key)
    keeper: list[Keeper] = []

    def recorded(checkup: Checkup, diagnoses: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
        yield from recorder.through(checkup, diagnoses)
        try:
            if not keeper:
                name = checkup.cluster.name if checkup.cluster else None
                seconds = options.get("keep_for", DEFAULT_SECONDS)
                size = options.get("keep_size", DEFAULT_SIZE)
                keeper.append(journal.Keeper(root, name, seconds=seconds, size=size))
            keeper[0].append(recorder.rows)
        except OSError as error:
            recorder.write_all_next()
            complain(f"this round is not recorded in {folder}: {error.strerror}")

    try:
        yield recorded
    finally:
        try:
            for each in keeper:
                each.close()
        except OSError as error:
            raise DoctorError(
                f"the last hour is not sealed in {folder}: {error.strerror}"
            ) from None
