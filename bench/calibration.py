"""How often what is said is true: fits the weights of suspects and findings, and judges them.

`python -m bench.calibration` plays incidents of which the cause is known (generated: those of the
laws; more: troubles that these never show; large: documents of subscriptions as in production),
takes the recorded states beside them, and asks of each what a user would have in hand: one document
or two, with a clock or without, a window, internal stats, old brokers' fields, a trace, or what
people post when they ask for help, with parts left out. Half of the incidents and scenarios
fit, the other half judges, so that nothing is judged by what it was fitted to. It prints a
reliability table, the Brier score, and the share of truths that are named first, and within the
first three. `--write` also writes pulsar_doctor/suspects/weights.py and diagnosis/certainty.py.

One share of states is one state each: a moment asked in one way. A moment at which several causes
are true is right with any of them, by name and consumer.
"""

from __future__ import annotations

import argparse
import math
import pickle
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from pulsar_doctor.broker.samples import read
from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.diagnosis import certainty
from pulsar_doctor.diagnosis.weighing import weighed_by
from pulsar_doctor.evidence import by_stats
from pulsar_doctor.evidence.answers import HEALTHY, NONE_OF_THESE
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.suspects.hypotheses import HYPOTHESES
from pulsar_doctor.suspects.ranking import POSSIBLE, cases_of, hidden_cases, shares_of
from pulsar_doctor.suspects.weights import WEIGHTS
from tests.incidents.asking import LIMITS, RULES, Samples, untellable, view
from tests.incidents.causes import Cause, causes, is_right, roots
from tests.incidents.large import large
from tests.incidents.making import made
from tests.incidents.moments import Incident, Moment, played
from tests.incidents.more import made_more
from tests.incidents.posted import posted
from tests.incidents.questions import ALL, BOTH_STATS, INTERNAL, STATS, WIRE
from tests.scenarios import SCENARIOS
from tests.states.known import truth_of_recorded

ROOT = Path(__file__).parents[1]
STATES = ROOT / "tests" / "states"
QUESTIONS = {
    "one document": (STATS, Samples((0,), clock=False)),
    "one document, --at": (STATS, Samples((0,))),
    "one document, internal": (BOTH_STATS, Samples((0,), clock=False)),
    "one document, internal, --at": (BOTH_STATS, Samples((0,))),
    "two documents": (STATS, Samples((60, 0), clock=False)),
    "two documents, --interval": (STATS, Samples((10, 0), clock=False, interval=10)),
    "window 10 s": (BOTH_STATS, Samples((10, 5, 0))),
    "window 60 s": (BOTH_STATS, Samples((60, 30, 10, 5, 0))),
    "window, stats alone": (STATS, Samples((10, 5, 0))),
    "3.3.5": (STATS, Samples((0,), clock=False, version="3.3.5")),
    "2.11.0": (STATS, Samples((0,), clock=False, version="2.11.0")),
    "internal alone": (INTERNAL, Samples((0,))),
    "trace": (WIRE, Samples(())),
    "trace and window": (ALL, Samples()),
}  # fmt: skip
APART = ("posted", "internal alone")  # told for themselves: parts of documents
CHUNK = 25
SOONEST = 20  # seconds after something went wrong; sooner nobody asks
EPOCHS, RATE, PRIOR = 30, 0.1, 0.005
HEAD = '''"""How much each clue says, in natural logarithms of odds: fitted, not chosen.

Written by `python -m bench.calibration --write`. "": without any clue.
"""

from __future__ import annotations

'''
SUREST = 0.99  # no number of states makes it certain
FOLLOWS = 0.7  # of the worth of a root
ENOUGH = 20.0  # states that weigh as much as what all codes have in common

POSTED = 3  # ways of posting it

True_ = tuple[frozenset[Cause], frozenset[Cause]]  # every cause, and the roots
Signs = tuple[tuple[str, int], ...]
Group = tuple[str, list[tuple[bool, bool, Signs]]]  # code, [(right, root, signs)]


@dataclass(slots=True)
class State:
    """One state, asked in one way. half: 0 fits, 1 judges. groups: what nothing excludes.

    findings: code, grade, whether it is right, severity. A case is right where its cause is true,
    and root where it is not only what follows from another cause.
    """

    half: int
    kind: str
    asked: str
    status: str
    healthy: bool
    ill: bool
    findings: Sequence[tuple[str, float, bool, str]]
    groups: list[Group]
    none_right: bool


def state(
    half: int,
    kind: str,
    asked: str,
    seen: SubscriptionView,
    true: True_,
) -> State:
    """What is said of it, and what of that is right. true: every cause, and the roots."""
    every, root = true
    said, undecided = weighed_by(seen, RULES, LIMITS)
    found = [
        (f.code, f.confidence, is_right((f.code, f.consumer), every), f.severity)
        for f in said.findings
        if f.severity != "info"
    ]
    groups: list[Group] = []
    if said.status == "healthy":
        left = hidden_cases(seen, {finding.code for finding in said.findings})
    else:
        left = cases_of(seen, undecided) if undecided else []
    for group in left:
        code = group[0].of.code
        cases = []
        for case in group:
            cause = (code, case.consumer.label if case.consumer else None)
            signs = tuple(case.signs)
            cases.append((is_right(cause, every), is_right(cause, root), signs))
        groups.append((code, cases))
    right = any(ok for _, cases in groups for ok, _, _ in cases)
    healthy = (HEALTHY, None) in every
    only = all(code in (HEALTHY, "ack-hole") for code, _ in every)
    return State(half, kind, asked, said.status, healthy, not only, found, groups, not right)


def generated(seeds: Sequence[int]) -> list[State]:
    """The states of these incidents; odd seeds judge."""
    return [
        each
        for seed in seeds
        for each in states_of(played(made(seed, SOONEST)), seed % 2, "generated")
    ]


def generated_more(seeds: Sequence[int]) -> list[State]:
    """Likewise of the further ones."""
    return [
        each
        for seed in seeds
        for each in states_of(played(made_more(seed, SOONEST)), seed % 2, "more")
    ]


def states_of(incident: Incident, half: int, kind: str) -> Iterator[State]:
    """Each of its moments, asked in each way."""
    older = incident.script.type != "key_shared"
    for moment in incident.moments:
        true = causes(moment), roots(moment)
        codes = {code for code, _ in true[1]}
        there = {(moment.at_ns - taken.at_ns) // 10**9 for taken in moment.taken}
        for asked, (sources, samples) in QUESTIONS.items():
            if samples.version != "4.0.8" and not older:
                continue
            if codes <= untellable(sources):
                continue  # nothing of it can be seen there
            cut = replace(samples, offsets=tuple(o for o in samples.offsets if o in there))
            seen = view(sources, moment, cut)
            if seen is not None:
                yield state(half, kind, asked, seen, true)
        yield from posted_states(moment, half, kind, true)


def posted_states(moment: Moment, half: int, kind: str, true: True_) -> Iterator[State]:
    """The last reading of it, as somebody might post it."""
    drawn = random.Random(f"{moment.at_ns} {moment.incident.script.seed}")
    for _ in range(POSTED):
        seen = by_stats.subscription_view(posted(moment.taken[-1], drawn))
        yield state(half, kind, "posted", seen, true)


def generated_large(seeds: Sequence[int]) -> list[State]:
    """The states of subscriptions as in production."""
    found: list[State] = []
    for seed in seeds:
        each, half = large(seed), seed % 2
        true = each.causes, each.roots
        for asked, (sources, samples) in QUESTIONS.items():
            if "wire" not in sources:
                seen = view(sources, each.moment, samples)
                assert seen is not None
                found.append(state(half, "large", asked, seen, true))
        found += posted_states(each.moment, half, "large", true)
    return found


def recorded() -> Iterator[State]:
    """The states of real brokers, by scenario; every other scenario judges."""
    names = sorted(SCENARIOS)
    for path in sorted(STATES.glob("*/*.jsonl.gz")):
        version, name = path.parent.name, path.name.partition(".")[0]
        half = names.index(name) % 2
        [window] = read([str(path)]).windows
        for observed in window.subscriptions():
            true = (truth_of_recorded(version, name),) * 2
            for asked, cut in cuts(observed):
                yield state(half, "recorded", asked, by_stats.subscription_view(cut), true)


def cuts(observed: Observed) -> Iterator[tuple[str, Observed]]:
    """The window as it was kept, and what is left of it where somebody has less in hand."""
    samples = observed.window.samples
    last = samples[-1]
    for asked, kept, clock in (
        ("window 10 s", samples, True),
        ("window, stats alone", [replace(s, internal=None) for s in samples], True),
        ("two documents", [replace(s, internal=None) for s in (samples[0], last)], False),
        ("one document, --at", [replace(last, internal=None)], True),
        ("one document, internal, --at", [last], True),
        ("one document", [replace(last, internal=None)], False),
        ("one document, internal", [last], False),
    ):
        yield asked, _of(observed, [s if clock else replace(s, taken_ms=None) for s in kept])


def _of(observed: Observed, samples: Sequence[Sample]) -> Observed:
    window = Window(tuple(samples))
    return Observed(observed.topic, observed.partition, observed.subscription, window)


# Fitting.


Weights = dict[str, dict[str, float]]


def prior() -> Weights:
    """Before anything is measured each clue weighs the same."""
    return {
        each.code: {"": -2.0, **dict.fromkeys((*each.speaks_for, *each.against), 1.0)}
        for each in HYPOTHESES
    }


def total(weights: Weights, code: str, signs: Iterable[tuple[str, int]]) -> float:
    """What the clues of one case say together."""
    own = weights[code]
    return own[""] + sum(sign * own.get(key, 1.0) for key, sign in signs)


@dataclass(frozen=True, slots=True)
class Best:
    """Of one hypothesis the case with the highest sum."""

    total: float
    right: bool
    root: bool
    signs: Signs


def best(weights: Weights, group: Group) -> Best:
    """The case that stands for its hypothesis."""
    code, cases = group
    return max((Best(total(weights, code, case[2]), *case) for case in cases), key=_total)


def _total(each: Best) -> float:
    return each.total


def fitted(states: Sequence[State], seed: int = 1) -> Weights:
    """Weights with which the true causes have the largest shares. No clue ever weighs below 0."""
    weights, start = prior(), prior()
    squares: dict[tuple[str, str], float] = defaultdict(lambda: 1e-3)
    order, shuffled = [s for s in states if s.groups], random.Random(seed)
    for _ in range(EPOCHS):
        shuffled.shuffle(order)
        for each in order:
            _step(weights, start, squares, each)
    return weights


def _worth(case: Best, *, roots: bool) -> float:
    """How much it is worth to name it: all for a root, less for what follows from one."""
    if case.root or (case.right and not roots):
        return 1.0
    return FOLLOWS if case.right else 0.0


def _step(
    weights: Weights, start: Weights, squares: dict[tuple[str, str], float], each: State
) -> None:
    cases = [best(weights, group) for group in each.groups]
    shares = shares_of([case.total for case in cases])
    roots = any(case.root for case in cases)
    wanted = [_worth(case, roots=roots) for case in cases]
    mass = sum(share * worth for share, worth in zip(shares, wanted, strict=False))
    if not any(wanted):
        mass = shares[-1]
    for group, share, case, worth in zip(each.groups, shares, cases, wanted, strict=False):
        signs = case.signs
        slope = share - share * worth / max(mass, 1e-9)
        if abs(slope) < 1e-4:
            continue
        own, first = weights[group[0]], start[group[0]]
        for key, sign in (("", 1), *signs):
            pull = slope * sign + PRIOR * (own[key] - first[key])
            squares[group[0], key] += pull * pull
            own[key] -= RATE * pull / math.sqrt(squares[group[0], key])
            if key and own[key] < 0:
                own[key] = 0.0


def certainties(states: Sequence[State]) -> dict[str, dict[float, float]]:
    """How often a finding is right, by code and by how sure its rule is; never falling with that.

    Where a code has few states, what all codes have in common weighs in.
    """
    everybody: dict[float, list[int]] = defaultdict(list)
    own: dict[str, dict[float, list[int]]] = defaultdict(lambda: defaultdict(list))
    for each in states:
        for code, raw, right, _ in each.findings:
            everybody[raw].append(right)
            own[code][raw].append(right)
    common = {raw: (sum(r) + 1) / (len(r) + 2) for raw, r in everybody.items()}
    return {
        code: _rising(
            {
                raw: ((sum(r) + ENOUGH * common[raw]) / (len(r) + ENOUGH), float(len(r)))
                for raw, r in sorted(by.items())
            }
        )
        for code, by in sorted(own.items())
    }


def _rising(shares: dict[float, tuple[float, float]]) -> dict[float, float]:
    """Neighbours that fall are taken together, weighted by their states."""
    blocks: list[tuple[list[float], float, float]] = []
    for raw, (share, count) in shares.items():
        blocks.append(([raw], share, max(count, 1.0)))
        while len(blocks) > 1 and blocks[-2][1] > blocks[-1][1]:
            (those, a, n), (these, b, m) = blocks[-2:]
            blocks[-2:] = [(those + these, (a * n + b * m) / (n + m), n + m)]
    return {raw: min(SUREST, round(share, 2)) for raws, share, _ in blocks for raw in raws}


# Judging.


@dataclass(slots=True)
class Claim:
    """One thing that was said of a state: its share, whether it is true, and whether a root."""

    share: float
    right: bool
    kind: str
    root: bool


def claims(weights: Weights, sure: dict[str, dict[float, float]], each: State) -> list[Claim]:
    """What is said first, second, third … of a state, as a reader meets it."""
    said = [
        Claim(sure.get(code, {}).get(raw, raw), right, "finding", right)
        for code, raw, right, _ in each.findings
    ]
    cases = [best(weights, group) for group in each.groups]
    well = [Claim(1.0, each.healthy, "healthy", each.healthy)] if each.status == "healthy" else []
    if not cases:
        return said or well
    shares = shares_of([case.total for case in cases])
    roots = any(case.root for case in cases)
    ranked = [
        Claim(share, case.right, "suspect", case.root if roots else case.right)
        for share, case, group in zip(shares, cases, each.groups, strict=False)
        if not well or (share >= POSSIBLE and group[0] != HEALTHY)
    ]
    if well:
        return well + sorted(ranked, key=lambda claim: -claim.share)
    ranked.append(Claim(shares[-1], each.none_right, NONE_OF_THESE, each.none_right))
    return said + sorted(ranked, key=lambda claim: -claim.share)


def judged(states: Sequence[State], weights: Weights, sure: dict[str, dict[float, float]]) -> None:
    """Prints all that is asked for."""
    table: Counter[tuple[str, str]] = Counter()
    numbers: list[Claim] = []
    firsts: list[Claim] = []
    for each in states:
        said = claims(weights, sure, each)
        told = [claim for claim in said if claim.kind != "healthy"]
        numbers += told
        firsts += told[:1]
        apart = each.asked in APART or each.asked.startswith("trace")
        groups = (
            "(by themselves)" if apart else "(documents, windows)",
            each.asked,
            f"({each.kind})",
            "(all)",
            "(ill)" if each.ill else "(well)",
            f"({each.status})",
        )
        for group in groups:
            table[group, "n"] += 1
            table[group, "first"] += bool(said) and said[0].right
            table[group, "three"] += any(claim.right for claim in said[:3])
            table[group, "bare"] += each.status == "unknown" and not said
            table[group, "unknown"] += each.status == "unknown"
            table[group, "false"] += each.status == "stalled" and each.healthy and not any(
                right for *_, right, _ in each.findings
            )  # fmt: skip
    head = f"{'':30}{'states':>9}{'first':>8}{'three':>8}{'unknown':>9}{'bare':>6}{'false':>6}"
    print(head)
    for group in sorted({key[0] for key in table}):
        n = table[group, "n"]
        shares = "".join(f"{100 * table[group, name] / n:7.1f}%" for name in ("first", "three"))
        print(f"{group:30}{n:9,}{shares}{100 * table[group, 'unknown'] / n:8.1f}%"
              f"{table[group, 'bare']:6}{table[group, 'false']:6}")  # fmt: skip
    print("\nEverything that is said:")
    reliability(numbers)
    print("\nWhat is named first:")
    reliability(firsts)


def reliability(numbers: Sequence[Claim]) -> None:
    """How often what is said with a share is true, and the root of it; and the Brier scores."""
    for kinds in (("finding",), ("suspect", NONE_OF_THESE), ("finding", "suspect", NONE_OF_THESE)):
        those = [claim for claim in numbers if claim.kind in kinds]
        true = sum((c.share - c.right) ** 2 for c in those) / max(1, len(those))
        root = sum((c.share - c.root) ** 2 for c in those) / max(1, len(those))
        named = " and ".join(kinds)
        print(f"\n{named}: {len(those):,} shares, Brier {true:.3f} (roots {root:.3f})")
        bins: dict[int, list[Claim]] = defaultdict(list)
        for claim in those:
            bins[min(9, int(claim.share * 10 + 0.5))].append(claim)
        for _, each in sorted(bins.items()):
            said, right, at_root = (
                100 * sum(column) / len(each)
                for column in zip(*((c.share, c.right, c.root) for c in each), strict=True)
            )
            print(
                f"  said {said:5.1f} %   true {right:5.1f} %   root {at_root:5.1f} %"
                f"   {len(each):8,}"
            )


def wrong(states: Sequence[State], weights: Weights) -> None:
    """Which truths and claims go apart most often: for whoever improves it."""
    pairs: Counter[tuple[str, str, str]] = Counter()
    for each in states:
        said = claims(weights, {}, each)
        if said and not said[0].right:
            named = each.findings[0][0] if each.findings else each.status
            if each.status == "unknown" and not each.findings:
                cases = [(best(weights, g), g[0]) for g in each.groups]
                named = f"? {max(cases, key=lambda c: c[0].total)[1]}"
            rights = sorted({g[0] for g in each.groups if any(case[0] for case in g[1])})
            true = ",".join(rights[:3]) or ("healthy" if each.healthy else "-")
            pairs[named, true, each.kind] += 1
    for (named, true, kind), count in pairs.most_common(40):
        print(f"{count:7,}  {kind:10} said {named:32} true {true}")


def collected(seeds: int, more: int, processes: int) -> list[State]:
    """All states there are."""
    chunks = [
        (asks, range(at, min(at + CHUNK, count)))
        for asks, count in (
            (generated, seeds),
            (generated_more, more),
            (generated_large, more),
        )
        for at in range(0, count, CHUNK)
    ]
    with get_context("spawn").Pool(processes) as pool:
        found = [each for chunk in pool.imap(_chunk, chunks) for each in chunk]
    return found + list(recorded())


def _chunk(chunk: tuple[Callable[[Sequence[int]], list[State]], Sequence[int]]) -> list[State]:
    asks, seeds = chunk
    return asks(seeds)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=2000, help="incidents to play")
    options.add_argument("--more", type=int, help="further ones; as many, unless told")
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--write", action="store_true", help="keep what was fitted")
    options.add_argument("--as-is", action="store_true", help="judge what is kept, fit nothing")
    options.add_argument("--keep", type=Path, help="states, kept there and taken from there")
    options.add_argument("--wrong", action="store_true", help="also print what goes apart")
    asked = options.parse_args()
    began = time.monotonic()
    if asked.keep and asked.keep.exists():
        states = pickle.loads(asked.keep.read_bytes())
    else:
        more = asked.seeds if asked.more is None else asked.more
        states = collected(asked.seeds, more, asked.processes)
        if asked.keep:
            asked.keep.write_bytes(pickle.dumps(states))
    fit = [each for each in states if each.half == 0]
    judging = [each for each in states if each.half == 1]
    weights: Weights = {code: dict(own) for code, own in WEIGHTS.items()}
    sure: dict[str, dict[float, float]] = {c: dict(o) for c, o in certainty.MEASURED.items()}
    if not asked.as_is:
        weights, sure = fitted(fit), certainties(fit)
    print(f"{len(states):,} states: {len(fit):,} fit, {len(judging):,} judge\n")
    judged(judging, weights, sure)
    if asked.wrong:
        wrong(judging, weights)
    if asked.write:
        write(weights, sure)
    print(f"\n{time.monotonic() - began:.0f} s")


def write(weights: Weights, sure: dict[str, dict[float, float]]) -> None:
    """Keeps what was fitted where the program looks for it."""
    lines = [*HEAD.splitlines(), "WEIGHTS: dict[str, dict[str, float]] = {"]
    for code, own in weights.items():
        told = ", ".join(f'"{key}": {weight:.2f}' for key, weight in own.items())
        lines.append(f'    "{code}": {{{told}}},')
    path = ROOT / "pulsar_doctor" / "suspects" / "weights.py"
    path.write_text("\n".join([*lines, "}"]) + "\n")
    path = ROOT / "pulsar_doctor" / "diagnosis" / "certainty.py"
    head = path.read_text().partition("MEASURED: ")[0]
    body = "".join(f'    "{code}": {by},\n' for code, by in sure.items())
    path.write_text(f"{head}MEASURED: dict[str, dict[float, float]] = {{\n{body}}}\n")


if __name__ == "__main__":
    main()
