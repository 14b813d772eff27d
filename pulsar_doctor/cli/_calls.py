"""What every subcommand needs while it runs: settings, thresholds, verbosity."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pulsar_doctor import installed
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.wording.addresses import bare
from pulsar_doctor.wording.gate import complain, warn
from pulsar_doctor.wording.printable import many

if TYPE_CHECKING:
    from pulsar_doctor.broker.sampling import SamplingPlan
    from pulsar_doctor.broker.settings import Settings
    from pulsar_doctor.checkup.live import LiveRequest
    from pulsar_doctor.checkup.result import Checkup
    from pulsar_doctor.diagnosis.cause import Cause
    from pulsar_doctor.diagnosis.status import AcceptUnknown
    from pulsar_doctor.diagnosis.weighing import CauseLimits


WHICH_CLUSTER = ("context", "admin_url", "client_conf", "tls_trust_certs")
PARTIAL = "stopped by Ctrl-C: the verdicts use what was read until then"


def settings(*, headed: bool = False) -> Settings:
    """The settings of this call: options, context, environment, client.conf, defaults.

    headed: the answer has a header that names the context; otherwise it is named here.
    """
    from pulsar_doctor.broker.settings import load

    found = load(click.get_current_context().find_root().ensure_object(dict), os.environ)
    if how_much("verbose") > 1:
        _show_origins(found)
        _show_requests()
    elif found.context and not headed:
        say(f"context {found.context}: {bare(found.admin_url)}")
    return found


def reach() -> str:
    """The options of this call that say which cluster is meant, for a shell; none is a secret."""
    from pulsar_doctor.diagnosis.actions.commands import quoted

    typed = click.get_current_context().find_root().ensure_object(dict)
    return " ".join(
        f"--{name.replace('_', '-')} {quoted(bare(str(typed[name])))}"
        for name in WHICH_CLUSTER
        if typed.get(name)
    )


def _show_origins(found: Settings) -> None:
    from pulsar_doctor.broker.settings import NAMES

    for name in sorted(NAMES):
        value, origin = getattr(found, name), found.origins.get(name, "default")
        if value or name in found.origins:
            shown = "given" if name == "auth_params" else bare(str(value))
            say(f"{name.replace('_', '-')} {shown} ({origin})")


def _show_requests() -> None:
    import logging

    class Lines(logging.Handler):
        """Each record is a line on stderr."""

        def emit(self, record: logging.LogRecord) -> None:
            """One line."""
            warn(record.getMessage())

    log = logging.getLogger("pulsar_doctor")
    log.handlers = [Lines()]
    log.setLevel(logging.DEBUG)
    log.propagate = False


@contextmanager
def connected(where: Settings | None = None) -> Iterator[Settings]:
    """The settings of this call, or these; with --sandbox a real broker runs meanwhile."""
    where = where or settings()
    if not where.sandbox:
        yield where
        return
    with installed.load("sandbox", "lifetime").connected(where, say) as there:
        yield there


def outlives(where: Settings) -> bool:
    """Whether the broker of these settings is there when we have ended."""
    return not where.sandbox or installed.load("sandbox", "lifetime").outlives(where)


def live_request(where: Settings, plan: SamplingPlan, save: Path | None = None) -> LiveRequest:
    """How topics of a live broker are read, with a progress bar on stderr."""
    from pulsar_doctor.checkup.live import LiveRequest
    from pulsar_doctor.report.progress import ProgressBar

    progress = ProgressBar(quiet=is_given("quiet"))
    return LiveRequest(where, plan, save=save, say=say, progress=progress)


def addresses_here() -> Callable[[], frozenset[str]]:
    """What finds, once, the clients' ends of connections on this machine, as brokers report them.

    Nothing where a client could not be examined: elsewhere than on Linux, or without that part.
    """
    for part in installed.having("by_client") if sys.platform == "linux" else ():
        return cache(installed.load(part, "by_client").addresses_here)
    return frozenset


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file, wholly or not at all, that its owner alone may read. Raises DoctorError."""
    from pulsar_doctor.trace.folder import write_file

    try:
        write_file(path, content)
    except OSError as error:
        raise DoctorError(
            f"cannot write {path}: {error.strerror}; name another file with -o"
        ) from None


def checks(changes: Sequence[str] = ()) -> tuple[Sequence[Cause], CauseLimits]:
    """Every cause and its thresholds, with the changes of --set. InputError for a wrong one."""
    from pulsar_doctor.diagnosis.causes import load
    from pulsar_doctor.diagnosis.limits import limits_of

    causes = load()
    return causes, limits_of(causes, changes)


def end_as_with_ctrl_c() -> None:
    """So that what has to be done at the end is done where a signal ends us, too."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, signal.SIGTERM)
        if signal.getsignal(number) is signal.SIG_DFL:  # not under nohup
            signal.signal(number, interrupt)


def given(table: str, *parts: str) -> dict[str, Any]:
    """The values of options that these parts offer, or all, by their names; those given."""
    offered = installed.offered("offers", table, parts)
    names = (name.strip("-").replace("-", "_") for name in offered)
    values = click.get_current_context().find_root().ensure_object(dict)
    return {name: values[name] for name in names if name in values}


def how_much(name: str) -> int:
    """How often --verbose or --quiet was given."""
    return int(click.get_current_context().find_root().ensure_object(dict).get(name) or 0)


def is_given(name: str) -> bool:
    """Whether one of --verbose and --quiet was given."""
    return how_much(name) > 0


def say(text: str) -> None:
    """Talk, on stderr; nothing under --quiet."""
    if not is_given("quiet"):
        warn(text)


def talk() -> Callable[[str], object]:
    """The same for any thread: click's context belongs to one."""
    return (lambda text: None) if is_given("quiet") else warn


def say_more(text: str) -> None:
    """Talk that only --verbose wants to hear."""
    if is_given("verbose"):
        say(text)


def ended(checkup: Checkup, code: int, *, shown: bool = False) -> int:
    """The exit code: 130 where Ctrl-C ended the window early, which is then printed on stderr.

    shown: what was written says so itself.
    """
    from pulsar_doctor.checkup.result import INTERRUPTED

    if not checkup.stopped:
        return code
    if not shown:
        complain(PARTIAL)
    return INTERRUPTED


def accepted(unknown: int, accept: AcceptUnknown | None) -> None:
    """Says that so many verdicts that are unknown count as healthy."""
    if accept and unknown:
        warn(f"{many(unknown, 'verdict')} unknown: accepted (--accept-unknown {accept})")
