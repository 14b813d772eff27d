"""`stall-check --watch --listen`: publishes each round of a watch when it has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pulsar_doctor.cli._calls import say
from pulsar_doctor.wording.addresses import shown
from pulsar_doctor.wording.gate import complain

if TYPE_CHECKING:
    from pulsar_doctor.checkup.result import Checkup
    from pulsar_doctor.diagnosis.weighing import Diagnosis

    Published = Callable[[Checkup, Iterable[Diagnosis]], Iterator[Diagnosis]]


@contextmanager
def beside(options: Mapping[str, Any], *, named: bool, every: float) -> Iterator[Published]:
    """Listens as long as the watch lasts; yields what the verdicts of each round pass through.

    options: of the call. named: healthy subscriptions have series, too. every: seconds.
    """
    from pulsar_doctor.parts.monitoring.server import LastRound, address_of, is_loopback, served
    from pulsar_doctor.report.stall_check.metrics import Metrics

    host, port = address_of(options["listen"])
    last = LastRound(every)
    before: Metrics | None = None

    def published(checkup: Checkup, diagnoses: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
        nonlocal before
        metrics = Metrics(named=named, before=before)
        yield from metrics.through(diagnoses)
        last.publish(metrics.text(checkup))  # not of a round that is cut off
        before = metrics

    with served(last, host, port) as bound:
        say(f"metrics at http://{shown(bound)}/metrics, after the first round")
        if not is_loopback(bound[0]):
            complain(
                f"{shown(bound)} is not on loopback: whoever reaches it reads the names of topics "
                "and subscriptions, without a password"
            )
        yield published
