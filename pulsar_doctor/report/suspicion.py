"""Text for an unknown verdict: suspects, what supports each, and what would decide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pulsar_doctor.diagnosis.answers import NONE_OF_THESE, UNDECIDED, Clue, Probe, RuledOut, Suspect
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.report.words import READS_AT_WILL, accused, whereabouts
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import listed

IN_DETAIL_MOST = 3  # with what speaks for them
RULED_OUT_SHOWN_MOST = 4  # reasons; each may exclude several
HIDDEN = "not ruled out"  # beside a healthy verdict
SuspicionRow = tuple[str, str]  # what it tells, and the text


def suspect_rows(
    diagnosis: Diagnosis, *, in_short: bool = False, whole: bool = False
) -> Iterator[SuspicionRow]:
    """Rows of every suspect, most likely first, and what is ruled out. in_short: how one decides,
    and names.

    whole: nothing that is ruled out is left away. A row `run` is a whole line for a shell.
    """
    for reader in diagnosis.resting_readers:
        yield from probe_rows(reader.decide) if reader.decide else ()
        yield "else", READS_AT_WILL
    likely = [each for each in diagnosis.suspects if each.likelihood != "unlikely"]
    if diagnosis.status == "healthy":  # that it is nothing is the verdict
        likely = [each for each in likely if each.code != NONE_OF_THESE]
    likely = (likely or list(diagnosis.suspects[:1]))[:IN_DETAIL_MOST]
    probes: list[Probe] = []
    remedies: list[str] = []
    for suspect in likely:
        yield HIDDEN if diagnosis.status == "healthy" else suspect.likelihood, _named(suspect)
        yield from () if in_short else _grounds(suspect)
        if suspect.decide and suspect.decide not in probes and not (in_short and probes):
            probes.append(suspect.decide)
            yield from probe_rows(suspect.decide)
        if suspect.remedy and suspect.remedy not in remedies and not in_short:
            remedies.append(suspect.remedy)
            yield "if so", suspect.remedy
    rest = [each for each in diagnosis.suspects if each not in likely]
    if rest and not in_short:
        yield rest[0].likelihood, "; ".join(f"{accused(each)}, {each.share}" for each in rest)
    if diagnosis.ruled_out and not in_short:
        most = len(diagnosis.ruled_out) if whole else RULED_OUT_SHOWN_MOST
        yield "ruled out", _ruled_out(diagnosis.ruled_out, most)


def probe_rows(probe: Probe) -> Iterator[SuspicionRow]:
    """What to look at, how long that takes, and the line to run."""
    yield "to decide", probe_text(probe)
    if probe.command:
        yield "run", probe.command


def probe_text(probe: Probe) -> str:
    """What to look at, how long that takes, and whether it does more than read."""
    takes = duration(probe.seconds) if probe.seconds else ""
    takes = f" ({takes})" if takes not in probe.text else ""
    if probe.harmless:
        return f"{probe.text}{takes}"
    return f"{probe.text.removesuffix('.')}{takes}; this does more than read"


def undecided(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Why a verdict is unknown; where there are suspects, without what no source here can tell."""
    if not diagnosis.suspects:
        return diagnosis.unknowns
    return diagnosis.unknowns[: len(diagnosis.unknown)]


def sentence_of(suspect: Suspect) -> str:
    """What speaks for it in a sentence, without its name; empty where that is all."""
    name, who = accused(suspect), suspect.consumer
    summary = suspect.summary.removeprefix(f"{name}: ")
    if who and summary.startswith(f"{who} "):
        summary = summary.replace(f"; {who} ", "; it ")
    return "" if summary == name else summary


def _named(suspect: Suspect) -> str:
    text = sentence_of(suspect)
    return f"{accused(suspect)}, {suspect.share}{f': {text}' if text else ''}"


def _grounds(suspect: Suspect) -> Iterator[SuspicionRow]:
    where = whereabouts(suspect.where, suspect.summary) if suspect.where else ""
    missing = ", ".join(name.replace("_", " ") for name in suspect.missing)
    speaks_for = (
        clue
        for clue in suspect.speaks_for
        if clue.name != UNDECIDED and clue.text not in suspect.summary  # shown below: why
    )
    rows = {"where": where, "for": _clues(speaks_for), "against": _clues(suspect.against)}
    rows["missing"] = missing
    yield from ((name, text) for name, text in rows.items() if text)


def _clues(clues: Iterable[Clue]) -> str:
    return "; ".join(clue.text for clue in clues)


def _ruled_out(those: Iterable[RuledOut], most: int) -> str:
    """By what excludes them, numbers first: that nothing is shared says less."""
    reasons: dict[str, list[str]] = {}
    for each in those:
        reasons.setdefault(each.because, []).append(each.code)
    whys = sorted(reasons, key=lambda why: not any(char.isdigit() for char in why))
    texts = [
        f"{listed(reasons[why], len(reasons[why]))}{f' ({why})' if why else ''}"
        for why in whys[:most]
    ]
    left_out = sum(len(reasons[why]) for why in whys[most:])
    more = [f"and {left_out} more with -v or -o json"] if left_out else []
    return "; ".join([*texts, *more])
