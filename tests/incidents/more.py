"""Further incidents, from seeds of their own: troubles of the broker, dead machines, lost permits.

Those of `making` stay as they are: what is known of them is kept by seed. These show what those
never show, so that each suspect is weighed by incidents in which it is the cause, too.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from pulsar_doctor.model.scenario import ProducedEntry
from tests.incidents.making import Trouble, healthy, log, moments
from tests.incidents.script import SECOND, Face, Fault, Goes, Script

HOUR = 3600.0
DAYS = 10 * 24 * HOUR
FACES: tuple[Face, ...] = ("none", "none", "lost", "asleep")
SEVERAL = ("shared", "shared", "shared", "key_shared", "failover")
SHARING = ("shared", "shared", "key_shared")
OLDEST = {"restarts": 600.0, "everybody left": DAYS, "nobody ever came": DAYS, "read stuck": DAYS}


def made_more(seed: int, soonest: float = 2) -> Script:
    """The script of this seed; the same one, always. soonest: seconds before anybody looks."""
    random = Random(f"more {seed}")
    script = replace(healthy(random, seed), redelivers=True)
    at_ns = int(log(random, 1, 600) * SECOND)
    trouble = random.choice(list(MORE))
    script = replace(MORE[trouble](random, script, at_ns), trouble=trouble)
    oldest = OLDEST.get(trouble, 7200)
    return replace(script, moments_ns=moments(random, at_ns, oldest, soonest))


def _busy(random: Random, script: Script, least: int = 20) -> Script:
    """As it is, with work that takes up to a few seconds, and at least so many messages."""
    work_ns = int(log(random, 0.1, 10) * SECOND)
    workers = tuple(replace(each, work_ns=work_ns) for each in script.workers)
    return extended(replace(script, workers=workers), max(0, least - len(script.entries)), 0)


def extended(script: Script, count: int, at_ns: int, step_ns: int = 0) -> Script:
    """With so many more entries, from a moment on."""
    old = script.entries
    first, batch = (old[-1].first + old[-1].messages, old[-1].messages) if old else (0, 1)
    at_ns = max(at_ns, old[-1].arrives_ns if old else 0)
    more = tuple(
        ProducedEntry(
            len(old) + n, at_ns + n * step_ns, at_ns + n * step_ns, first + n * batch, batch, n % 8
        )
        for n in range(count)
    )
    return replace(script, entries=(*old, *more))


def typed(random: Random, script: Script, types: tuple[str, ...], least: int = 1) -> Script:
    """On a subscription of one of these types, with at least so many consumers."""
    type_ = script.type if script.type in types else random.choice(types)
    workers = list(script.workers)
    while len(workers) < least:
        workers.append(replace(workers[0], name=f"worker-{len(workers) + 1}"))
    acks = "each" if any(each.acks == "cumulative" for each in workers) else workers[0].acks
    return replace(script, type=type_, workers=tuple(replace(each, acks=acks) for each in workers))


# The broker.


def _read_stuck(random: Random, script: Script, at_ns: int) -> Script:
    """It reads no more, for good as a rule; more comes, as a rule."""
    until_ns = at_ns + int(log(random, 10, 1000) * SECOND) if random.random() < 0.1 else None
    fault = Fault(stuck_ns=at_ns, until_ns=until_ns, face=random.choice(FACES))
    script = _busy(random, replace(script, fault=fault))
    if random.random() < 0.9:
        step_ns = int(log(random, 0.01, 60) * SECOND)
        script = extended(script, random.choice((1, 5, 50, 300)), at_ns, step_ns)
    return script


def _throttled(random: Random, script: Script, at_ns: int) -> Script:
    """A limit of messages a second, below what its consumers could do as a rule."""
    script = _busy(random, script, 300)
    per_second = sum(each.hands * SECOND / each.work_ns for each in script.workers)
    rate = max(1, int(per_second * log(random, 0.05, 1.5)))
    count = min(1500, int(rate * log(random, 10, 2000)))
    return extended(replace(script, fault=Fault(rate=rate)), count, at_ns, SECOND // (2 * rate))


def _miscounts(random: Random, script: Script, at_ns: int) -> Script:
    """The counter is off by a little or by far, to either side, and everything works."""
    off = int(log(random, 1, 100_000)) * random.choice((1, 1, -1))
    return replace(_busy(random, script), fault=Fault(drift=(at_ns, off)))


def _delayed(random: Random, script: Script, at_ns: int) -> Script:
    """A share of what comes is not due for long; on Exclusive and Failover it is sent at once."""
    script = _busy(random, script)
    share = random.choice((0.1, 0.5, 0.9, 1.0))
    due_ns = at_ns + int(log(random, 10, DAYS) * SECOND)
    late = {each.number: due_ns for each in script.entries if random.random() < share}
    return replace(script, fault=Fault(due=late))


def _active_gone(random: Random, script: Script, at_ns: int) -> Script:
    """The active consumer of a Failover leaves, and the broker chooses no other one."""
    script = _busy(random, typed(random, script, ("failover",), 2), 50)
    goes: Goes = random.choice(("closes", "loses"))
    first, *others = script.workers
    first = replace(first, attach_ns=0, leave_ns=at_ns, goes=goes)
    others = [replace(each, attach_ns=each.attach_ns + 1) for each in others]
    script = replace(script, workers=(first, *others), fault=Fault(keeps_active=True))
    return extended(script, random.choice((0, 50)), at_ns, SECOND)


def _active_hangs(random: Random, script: Script, at_ns: int) -> Script:
    """The active consumer of a Failover hangs, or never acknowledges, and others stand by."""
    script = _busy(random, typed(random, script, ("failover",), 2), 50)
    first, *others = script.workers
    hangs_ns = random.choice((0, at_ns))
    acks = "never" if random.random() < 0.2 else first.acks
    first = replace(first, attach_ns=0, hangs_ns=hangs_ns, acks=acks)
    others = [replace(each, attach_ns=each.attach_ns + 1) for each in others]
    return extended(replace(script, workers=(first, *others)), random.choice((0, 50)), at_ns)


# Nobody, or a dead one.


def _everybody_left(random: Random, script: Script, at_ns: int) -> Script:
    goes: Goes = random.choice(("closes", "loses"))
    workers = [
        replace(each, leave_ns=at_ns + n, goes=goes) for n, each in enumerate(script.workers)
    ]
    script = replace(script, workers=tuple(workers))
    return extended(
        script, random.choice((0, 1, 20, 400)), at_ns, int(log(random, 0.01, 60) * SECOND)
    )


def _nobody_ever_came(random: Random, script: Script, at_ns: int) -> Script:
    return replace(extended(script, random.choice((1, 20)), 0), workers=())


def _dead(random: Random, script: Script, at_ns: int) -> Script:
    """A machine is gone without a word, its successor has the same name; it is dropped, or not."""
    script = _busy(random, typed(random, script, SEVERAL), 50)
    again_ns = at_ns + int(log(random, 1, 30) * SECOND)
    drop_ns = at_ns + random.randrange(30, 60) * SECOND if random.random() < 0.3 else None
    first, *others = script.workers
    dead = replace(first, attach_ns=0, dies_ns=at_ns, leave_ns=drop_ns, goes="loses")
    others = [replace(each, attach_ns=each.attach_ns + 1) for each in others]
    script = replace(script, workers=(dead, *others, replace(first, attach_ns=again_ns)))
    return extended(script, random.choice((0, 50, 300)), at_ns, SECOND)


# The client, and the application.


def _leaks(random: Random, script: Script, at_ns: int) -> Script:
    """A client loses some of its permits, each time it takes a message, or nearly."""
    script = _busy(random, script)
    share = random.choice((0.02, 0.1, 0.3, 1.0))
    queue = max(each.queue for each in script.workers) or 10
    workers = [replace(each, queue=each.queue or 10) for each in script.workers]
    chosen = random.randrange(len(workers))
    workers[chosen] = replace(workers[chosen], leaks=share)
    enough = min(1500, int(3 * queue / share) + 20)
    return extended(replace(script, workers=tuple(workers)), enough, 0)


def _nacks_all(random: Random, script: Script, at_ns: int) -> Script:
    """An application gives back all that it gets, or nearly, and soon."""
    script = _singles(typed(random, script, SHARING))
    nack_ns = random.choice((1, 1, 5, 60)) * SECOND
    share = random.choice((0.6, 0.9, 1.0, 1.0))
    workers = [
        replace(each, nacks=share, nack_ns=nack_ns, work_ns=min(each.work_ns, 2 * SECOND))
        for each in script.workers
    ]
    most = random.choice((5, 20, 60))
    return replace(script, workers=tuple(workers), entries=script.entries[:most])


def _singles(script: Script) -> Script:
    entries = tuple(replace(each, first=each.number, messages=1) for each in script.entries or ())
    return extended(replace(script, entries=entries), max(0, 20 - len(entries)), 0)


def _restarts(random: Random, script: Script, at_ns: int) -> Script:
    """Each consumer crashes some seconds after it came, and comes back."""
    script = _singles(script)
    stays_ns, again_ns = int(log(random, 5, 60) * SECOND), int(log(random, 0.2, 10) * SECOND)
    hangs_ns = random.choice((0, 0, None))  # on the first message, or before it has done much
    workers = [
        replace(each, queue=min(each.queue, 100), stays_ns=stays_ns, again_ns=again_ns,
                hangs_ns=hangs_ns, work_ns=max(each.work_ns, stays_ns // 2), goes="loses")
        for each in script.workers
    ]  # fmt: skip
    return replace(script, workers=tuple(workers), followed_ns=600 * SECOND)


def _skips(random: Random, script: Script, at_ns: int) -> Script:
    """A few messages are never acknowledged; what comes later is."""
    script = _busy(random, script, random.choice((20, 100, 400)))
    ordinal = max(1, len(script.entries) // 2)
    skips = tuple(
        sorted(random.randrange(1, ordinal + 1) for _ in range(random.choice((1, 1, 3, 20))))
    )
    workers = [replace(each, acks="each", group=1) for each in script.workers]
    everybody = random.random() < 0.3
    chosen = random.randrange(len(workers))
    workers = [
        replace(each, skips=skips) if everybody or n == chosen else each
        for n, each in enumerate(workers)
    ]
    return replace(script, workers=tuple(workers))


def _works(random: Random, script: Script, at_ns: int) -> Script:
    """Quick work and enough to do: healthy, often without permits at the moment."""
    script = _busy(random, script, 200)
    work_ns = script.workers[0].work_ns // max(1, sum(each.hands for each in script.workers))
    return extended(script, 400, 0, max(1, work_ns))


MORE: dict[str, Trouble] = {
    "read stuck": _read_stuck,
    "throttled": _throttled,
    "miscounts": _miscounts,
    "delayed": _delayed,
    "active gone": _active_gone,
    "active hangs": _active_hangs,
    "everybody left": _everybody_left,
    "nobody ever came": _nobody_ever_came,
    "dead": _dead,
    "leaks": _leaks,
    "nacks all": _nacks_all,
    "restarts": _restarts,
    "skips": _skips,
    "works": _works,
}
