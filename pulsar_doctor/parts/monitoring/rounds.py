"""`stall-check --watch --listen`: publishes each round of a watch when it has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from pulsar_doctor.cli._calls import say
from pulsar_doctor.wording.addresses import shown
from pulsar_doctor.wording.gate import complain

if TYPE_CHECKING:
    from pulsar_doctor.checkup.result import Checkup

RoundHook = Callable[["Checkup"], AbstractContextManager[None]]


@contextmanager
def beside(options: Mapping[str, Any], *, named: bool, every_seconds: float) -> Iterator[RoundHook]:
    """Listens as long as the watch lasts; yields what each round is shown within.

    options: of the call. named: healthy subscriptions have series, too.
    """
    from pulsar_doctor.parts.monitoring.server import LastRound, address_of, is_loopback, served
    from pulsar_doctor.report.stall_check.metrics import Metrics

    host, port = address_of(options["listen"])
    last = LastRound(every_seconds)
    with served(last, host, port) as bound:
        say(f"metrics at http://{shown(bound)}/metrics, after the first round")
        if not is_loopback(bound[0]):
            complain(
                f"{shown(bound)} is not on loopback: whoever reaches it reads the names of topics "
                "and subscriptions, without a password"
            )
        before: Metrics | None = None

        @contextmanager
        def published(checkup: Checkup) -> Iterator[None]:
            """Counts verdicts while others read them; a round that is cut off is not published."""
            nonlocal before
            metrics = Metrics(named=named, before=before)
            checkup.diagnoses = metrics.through(checkup.diagnoses)
            yield
            last.publish(metrics.text(checkup))
            before = metrics

        yield published
