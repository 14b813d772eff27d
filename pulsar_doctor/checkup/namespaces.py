"""Judges whole namespaces of a live broker, one topic after another.

They come as they are made, so that ten thousand subscriptions need no more memory than one wave of
those that are watched.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import ExitStack, aclosing, nullcontext
from dataclasses import replace

from pulsar_doctor.broker.admin.topics import namespace_path
from pulsar_doctor.broker.fleet import LIST_RENEWED_SECONDS, Fleet, Scope
from pulsar_doctor.broker.samples import Recorder
from pulsar_doctor.broker.sampling import SamplingPlan, Watch
from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.checkup.costs import fall_behind, with_policies
from pulsar_doctor.checkup.identity import identified
from pulsar_doctor.checkup.judge import Judge, Triage
from pulsar_doctor.checkup.live import LiveRequest, by_version, deciding_of, say_missing
from pulsar_doctor.checkup.one_by_one import Stopping, begun
from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.checkup.topic_notes import TopicNotes
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.errors import DoctorError

AT_ONCE = 256  # verdicts: to enter the event loop takes as long as to judge


def of_fleet(request: LiveRequest, scope: Scope, judge: Judge) -> Checkup:
    """The verdicts on whole namespaces, as they come; what could not be read is reported by the
    end.

    Raises DoctorError where nothing can be known of the cluster, or where all could be read and no
    topic has the subscription that is requested. InputError for what is not a namespace.
    """
    _ = [namespace_path(each) for each in scope.namespaces]
    checkup = Checkup("broker", ())
    checkup.diagnoses = begun(_of_fleet(request, scope, judge, checkup), checkup, 1)
    return checkup


def _of_fleet(
    request: LiveRequest, scope: Scope, judge: Judge, checkup: Checkup
) -> Iterator[Diagnosis]:
    found, notes = False, TopicNotes()
    admin = request.admin()  # wrong credentials are reported before a file is replaced
    with ExitStack() as stack:
        recorder = stack.enter_context(Recorder(request.save)) if request.save else None
        stack.callback(request.no_more_progress)
        triage, keep = (
            Triage(judge, request.plan.window_seconds),
            recorder.add if recorder else None,
        )
        stopping = Stopping()
        until = nullcontext if request.kept is not None else stopping.window
        fleet = Fleet(
            admin,
            scope,
            triage.needs_no_watching,
            request.plan,
            until,
            keep,
            request.progress,
            judge.subscription,
        )
        for diagnosis in _out_of_the_loop(
            _judged(fleet, triage, recorder, checkup, request, stopping, notes)
        ):
            found = True
            yield diagnosis
    for note in fleet.notes:
        request.say(note)
    if fleet.metrics_unread is not None:
        checkup.read_once_seconds_ago = LIST_RENEWED_SECONDS
    checkup.stopped = fleet.stopped and request.decide_seconds is None
    checkup.not_loaded += fleet.not_loaded
    checkup.notes += notes.of_letters(judge.subscription)
    if judge.subscription is None and judge.process is None:
        checkup.notes += notes.of_unused()
    checkup.unreachable += [(unread.topic, unread.reason) for unread in fleet.unread]
    if judge.subscription is not None and not found:
        say_missing(_nowhere(judge.subscription, fleet), request, alone=not fleet.unread)


def _nowhere(subscription: str, fleet: Fleet) -> str:
    asleep = len(fleet.not_loaded)
    not_read = f"; {asleep} that no broker has loaded were not read (see --load-topics)"
    missing = f"no topic that was read has a subscription {subscription!r}"
    return missing + not_read if asleep else missing


async def _judged(
    fleet: Fleet,
    triage: Triage,
    recorder: Recorder | None,
    checkup: Checkup,
    request: LiveRequest,
    stopping: Stopping,
    notes: TopicNotes,
) -> AsyncGenerator[Diagnosis, None]:
    async with (
        fleet.admin,
        identified(fleet.admin) as identify,
        aclosing(fleet.windows()) as windows,
    ):
        watch = Watch(fleet.keep, progress=request.of_samples)
        deciding = request.decide_seconds and deciding_of(request, fleet.admin, triage.judge, watch)
        if deciding:
            deciding.stopping = stopping
        async for window in windows:
            if checkup.cluster is None:
                checkup.cluster = await identify()  # each line of a report may name it
            (window,) = by_version([window], checkup.cluster)  # noqa: PLW2901
            notes.add(window)
            if request.kept is not None and _is_watched(window, request.plan):
                window = request.kept.window(window)  # noqa: PLW2901
            verdicts = triage.verdicts(window)
            if fall_behind(verdicts):
                window = await with_policies(fleet.admin, window)  # noqa: PLW2901
                verdicts = triage.verdicts(window)
            if recorder:
                version = checkup.cluster.broker_version
                recorder.limits(window.full_topic, window.limits, version, window)
            if deciding and any(each.status == "unknown" for each in verdicts):
                deciding.windows.append(window)
                continue
            checkup.took(window.window)
            for diagnosis in verdicts:
                yield replace(diagnosis, decide_steps=()) if deciding else diagnosis
        if deciding and deciding.windows:
            await deciding.run()
            for diagnosis in deciding.verdicts():
                yield diagnosis
            for window in deciding.windows:
                checkup.took(window.window)
        checkup.cluster = await identify()


def _is_watched(window: TopicWindow, plan: SamplingPlan) -> bool:
    """Whether its samples are those of the plan: it was not looked at once and left at that."""
    samples = window.window.samples
    return samples[-1].taken_ms is not None and len(samples) >= min(plan.samples, 2)


def _out_of_the_loop(coming: AsyncGenerator[Diagnosis, None]) -> Iterator[Diagnosis]:
    """What an event loop gives, outside of it; Ctrl-C ends both."""
    with asyncio.Runner() as runner:
        interrupted = False
        try:
            error: DoctorError | None = None
            while error is None:
                some, error = runner.run(_some(coming))
                yield from some
                if not some:
                    break
        except KeyboardInterrupt:
            interrupted = True  # within a step, which cannot be closed: the runner cancels it
            raise
        finally:
            if not interrupted:
                runner.run(coming.aclose())
    if error is not None:
        raise error


async def _some(
    coming: AsyncIterator[Diagnosis],
) -> tuple[list[Diagnosis], DoctorError | None]:
    """The next few, none at the end; and what came instead of another one."""
    some: list[Diagnosis] = []
    try:
        async for diagnosis in coming:
            some.append(diagnosis)
            if len(some) == AT_ONCE:
                break
    except DoctorError as error:
        return some, error
    return some, None
