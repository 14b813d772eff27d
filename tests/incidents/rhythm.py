"""Law 3, steady: a state that does not change is judged the same at every phase of its rhythm.

A rhythm is an incident without surprises: all workers need the same time for a message, and there
is enough to do (or nothing at all, or one that has hung for long). It is asked at many phases, with
windows of 0 to 60 s. Only the age of a trouble may change a verdict, so a hang is asked when it is
older than all thresholds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random

from pulsar_doctor.diagnosis.answers import Finding
from pulsar_doctor.model.consumer import refill_threshold
from pulsar_doctor.model.scenario import ProducedEntry
from tests.incidents.asking import Samples
from tests.incidents.laws import Broken
from tests.incidents.moments import Incident, Moment, played
from tests.incidents.questions import ALL, BOTH_STATS, STATS, WIRE, Asked, answer
from tests.incidents.script import SECOND, Acks, Script, Worker

PHASES = 50
FACTOR = 1.5
OFFSETS = (60, 30, 10, 5, 0)
WINDOWS = ((0,), (5, 0), (10, 5, 0), (30, 0), OFFSETS)
QUEUES = (1, 2, 3, 5, 10, 20, 50, 100, 100, 200, 500, 1000, 1000, 2000, 5000)
COUNTS = (1, 1, 2, 3, 5, 10, 20)
REFILLS, TAKEN_MOST = 4, 12_000  # before the first phase; messages of all consumers, about
KINDS = ("messages", "messages", "refills", "refills", "hung", "idle")
WORSE = ("healthy", "unknown", "warning", "stalled")
QUESTIONS = (
    *((sources, Samples(window)) for sources in (STATS, BOTH_STATS) for window in WINDOWS),
    (WIRE, Samples(())),
    (ALL, Samples()),
)


def rhythm(seed: int) -> Script:
    """The rhythm of this seed: its trouble says which kind it is."""
    random = Random(seed)
    kind = random.choice(KINDS)
    type_ = random.choice(("shared", "shared", "shared", "exclusive", "failover", "key_shared"))
    queue = random.choice(QUEUES)
    work_ns = int(0.1 * 6000 ** random.random() * SECOND)  # 0.1 s to 10 min, as often short as long
    client = random.choice(("java", "pulsar-client", "go"))
    count = random.choice(COUNTS) if type_ != "exclusive" else 1
    count = min(count, max(1, TAKEN_MOST // (REFILLS * queue)))
    acks: Acks = "each"
    if type_ in ("exclusive", "failover"):
        acks = random.choice(("each", "cumulative"))
    worker = Worker("", client, queue, work_ns, acks=acks)
    workers = tuple(
        replace(worker, name=f"worker-{n + 1}", attach_ns=n * 7_000_003) for n in range(count)
    )
    script = Script(seed, type_, workers, (), (), trouble=f"rhythm of {kind}")
    return _set(random, script, kind)


def _set(random: Random, script: Script, kind: str) -> Script:
    worker = script.workers[0]
    threshold, active = refill_threshold(worker.queue), len(script.workers)
    if script.type == "failover":
        active = 1
    refills = 2 if worker.queue > 100 else REFILLS
    done = refills * threshold + threshold // 2 + random.randrange(threshold)
    period_ns = worker.work_ns * (threshold if kind == "refills" else 1)
    from_ns = done * worker.work_ns + 11_111_111
    messages = active * (done + threshold + 2 * worker.queue + 10)
    if kind == "hung":
        script = replace(
            script,
            workers=(replace(worker, hangs_ns=from_ns), *script.workers[1:]),
        )
        from_ns += 2000 * SECOND
        period_ns = 600 * SECOND
    if kind == "idle":
        messages = active * min(done, 100)
        from_ns += 2000 * SECOND + done * worker.work_ns
        period_ns = 600 * SECOND
    keys = 8 * len(script.workers)
    return replace(
        script,
        entries=tuple(ProducedEntry(n, 0, 0, n, 1, n % keys) for n in range(messages)),
        moments_ns=tuple(from_ns + period_ns * phase // PHASES for phase in range(PHASES)),
    )


def unsteady(seed: int) -> Iterator[Broken]:
    """Messages differently of one unchanged state, and forecasts that do not come true."""
    script = rhythm(seed)
    incident = played(script, OFFSETS)
    for sources, those in _said(incident).items():
        for each in (*_differs(those), *_forecasts(those)):
            yield replace(each, pair=f"{sources}: {each.pair}")


def _said(incident: Incident) -> dict[str, list[tuple[Moment, Asked]]]:
    found: dict[str, list[tuple[Moment, Asked]]] = {}
    for moment in incident.moments:
        for sources, samples in QUESTIONS:
            asked = answer(sources, moment, samples)
            if asked is not None:
                found.setdefault(asked.who, []).append((moment, asked))
    return found


def _differs(those: list[tuple[Moment, Asked]]) -> Iterator[Broken]:
    statuses = {asked.status for _, asked in those}
    kind = those[0][0].incident.script.trouble
    decided = statuses - {"unknown"}
    if len(statuses) == 1 or not decided:
        return
    worst = max(statuses, key=WORSE.index)
    if _by_age(those):
        yield _broken("(3 by the age of the last delivery alone)", those, worst, kind)
        return
    if {"stalled", "healthy"} <= statuses:
        yield _broken("3 steady: opposite", those, "stalled", kind)
    elif len(decided) > 1:
        yield _broken("3 steady: differs", those, worst, kind)
    if "unknown" in statuses:
        yield _broken("3 steady: unknown at times", those, "unknown", kind)


def _by_age(those: list[tuple[Moment, Asked]]) -> bool:
    """Whether what is milder is told before what is worse, where nothing tells the whole wait.

    Plain stats of Exclusive and Failover do not tell how much a consumer holds, so neither how long
    it takes for a message nor how long it is without permits. Then all that a reader sees of the
    trouble is its age: for how long nothing has been sent.
    """
    ages: dict[str, list[int]] = {}
    worst = max((asked.status for _, asked in those), key=WORSE.index)
    for _, asked in those:
        served = [each for each in asked.seen.served if each.without_permits]
        ages_ms = [each.since_last_delivery.ms for each in served if each.since_last_delivery]
        told = any(each.seconds_of_waiting is not None for each in served)
        if (told and asked.status != worst) or not ages_ms:
            return False
        ages.setdefault(asked.status, []).append(max(ages_ms))
    undecided = ages.pop("unknown", [])
    ranked = [ages[status] for status in WORSE if status in ages]
    in_order = all(max(milder) <= min(worse) for milder, worse in pairwise(ranked))
    return in_order and max(undecided, default=0) <= min(ranked[-1])


def _broken(law: str, those: list[tuple[Moment, Asked]], status: str, kind: str) -> Broken:
    asked = next(asked for _, asked in those if asked.status == status)
    code = asked.said.findings[0].code if asked.said.findings else ""
    code = code or asked.said.unknowns[0].partition(":")[0]
    statuses = "/".join(sorted({asked.status for _, asked in those}))
    return Broken(law, code, kind, statuses)


def _forecasts(those: list[tuple[Moment, Asked]]) -> Iterator[Broken]:
    """Times to the next FLOW, and paces, against what came."""
    found: dict[tuple[str, str], Broken] = {}
    for moment, asked in those:
        script = moment.incident.script
        for finding in asked.said.findings:
            each = moment.truth.consumers.get(finding.consumer or "")
            if each is None or each.hangs or "idle" in script.trouble:
                continue
            for law in _wrong(finding, each.flow_in, script.workers[0].work_ns):
                key = (law, finding.code)
                found.setdefault(key, Broken(law, finding.code, script.trouble))
    yield from found.values()


def _wrong(finding: Finding, flow_in: int | None, work_ns: int) -> Iterator[str]:
    told = {measure.name: measure.value for measure in finding.evidence}
    ahead, pace = told.get("next_flow_in"), told.get("pace")
    if isinstance(pace, int | float) and pace > 0:
        off = max(pace * SECOND / work_ns, work_ns / (pace * SECOND))
        if off > FACTOR:
            yield "3 pace off by more than 1.5"
    if not isinstance(ahead, int | float) or flow_in is None:
        return
    foretold = ahead * SECOND
    if flow_in > FACTOR * foretold + work_ns:
        yield "3 forecast too short"
    if foretold > FACTOR * flow_in + work_ns:
        bound = "at most" in finding.summary
        yield "(3 forecast far off, but told as at most)" if bound else "3 forecast too long"
