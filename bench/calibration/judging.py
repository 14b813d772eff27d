"""Holds what is said of states against what is true: named first, within three, reliability."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pulsar_doctor.diagnosis.answers import HEALTHY, NONE_OF_THESE
from pulsar_doctor.diagnosis.fitted import Weights
from pulsar_doctor.diagnosis.healthy import PROBLEM_AT_MOST

from .fitting import Certainties
from .state import State, best, shares_of

APART = ("posted", "internal alone")  # told for themselves: parts of documents


@dataclass(slots=True)
class Claim:
    """One thing that was said of a state: its share, whether it is true, and whether a root."""

    share: float
    right: bool
    kind: str
    root: bool


def claims(weights: Weights, sure: Certainties, each: State) -> list[Claim]:
    """Messages first, second, third … of a state, as a reader meets it."""
    said = [
        Claim(sure.get(code, {}).get(raw, raw), right, "finding", right)
        for code, raw, right, _ in each.findings
    ]
    if status_of(each, weights) == "healthy":
        return [Claim(1.0, each.healthy, "healthy", each.healthy)]
    cases = [best(group, weights) for group in each.groups]
    if not cases:
        return said
    shares = shares_of(cases)
    roots = any(case.root for case in cases)
    found = {code for code, *_ in each.findings}
    beside = {*found, HEALTHY} if found else found  # as the program: what it may be besides
    ranked = [
        Claim(share, case.right, "suspect", case.root if roots else case.right)
        for share, case, (code, _) in zip(shares, cases, each.groups, strict=False)
        if code not in beside
    ]
    nothing_else = not any(claim.right for claim in ranked)
    rest = max(0.0, 1 - sum(claim.share for claim in ranked))
    ranked.append(Claim(rest, nothing_else, NONE_OF_THESE, nothing_else))
    return said + sorted(ranked, key=lambda claim: -claim.share)


def status_of(each: State, weights: Weights) -> str:
    """As the program says it: healthy only where no fact forbids it, and a problem is improbable.

    Without any suspect nothing can be wrong.
    """
    if each.status != "healthy":
        return each.status
    shares = shares_of([best(group, weights) for group in each.groups])
    well = sum(
        share for share, (code, _) in zip(shares, each.groups, strict=False) if code == HEALTHY
    )
    improbable = not each.groups or 1 - well <= PROBLEM_AT_MOST.default
    return "healthy" if improbable and not each.forbidden else "unknown"


def judged(states: Sequence[State], weights: Weights, sure: Certainties) -> None:
    """Prints all that is asked for."""
    table: Counter[tuple[str, str]] = Counter()
    numbers: list[Claim] = []
    firsts: list[Claim] = []
    for each in states:
        said, status = claims(weights, sure, each), status_of(each, weights)
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
            f"({status})",
            *(f"truth: {code}" for code in each.truths),
        )
        for group in groups:
            table[group, "n"] += 1
            table[group, "first"] += bool(said) and said[0].right
            table[group, "three"] += any(claim.right for claim in said[:3])
            table[group, "bare"] += status == "unknown" and not said
            table[group, "unknown"] += status == "unknown"
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
    green(states, weights)
    print("\nEverything that is said:")
    reliability(numbers)
    print("\nWhat is named first:")
    reliability(firsts)


def green(states: Sequence[State], weights: Weights) -> None:
    """How many healthy states are called so, and of how many that are called so that is wrong.

    A state is healthy where nothing is wrong. One in which trouble has just begun, or in which a
    message was skipped, may be called either. Whole documents and fragments apart.
    """
    table: Counter[tuple[str, str]] = Counter()
    for each in states:
        status = status_of(each, weights)
        part = "fragments" if each.asked in APART else "whole"
        for group in (f"{part}, {each.kind}", f"{part} (all)", f"{each.asked}"):
            called, well = status == "healthy", not each.ill
            table[group, "well"] += well
            table[group, "well called"] += well and called
            table[group, "called"] += called
            table[group, "wrong"] += called and not each.healthy
            table[group, "sick"] += not each.healthy
            table[group, "well unknown"] += well and status == "unknown"
            table[group, "sick unknown"] += not each.healthy and status == "unknown"
    head = ("healthy", " called", "unknown", "   sick", "unknown", "  green", "  wrong")
    print(f"\n{'':30}{''.join(f'{name:>9}' for name in head)}")
    for group in sorted({key[0] for key in table}):

        def share(part: str, of: str, group: str = group) -> str:
            return f"{100 * table[group, part] / max(1, table[group, of]):.1f}%"

        print(
            f"{group:30}{table[group, 'well']:9,}{share('well called', 'well'):>9}"
            f"{share('well unknown', 'well'):>9}{table[group, 'sick']:9,}"
            f"{share('sick unknown', 'sick'):>9}{table[group, 'called']:9,}"
            f"{share('wrong', 'called'):>9}"
        )


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
            status = status_of(each, weights)
            named = each.findings[0][0] if each.findings else status
            if status == "unknown" and not each.findings:
                shares = shares_of([best(group, weights) for group in each.groups])
                named = f"? {max(zip(shares, each.groups, strict=False))[1][0]}"
            rights = sorted({g[0] for g in each.groups if any(case[0] for case in g[1])})
            true = ",".join(rights[:3]) or ("healthy" if each.healthy else "-")
            pairs[named, true, each.kind] += 1
    for (named, true, kind), count in pairs.most_common(40):
        print(f"{count:7,}  {kind:10} said {named:32} true {true}")
