"""How often what is said is true: fits the weights of suspects and findings, and judges them.

`python -m bench.calibration` plays incidents of which the cause is known (generated: those of the
laws; more: troubles that these never show; large: documents of subscriptions as in production),
takes the recorded states beside them, and asks of each what a user would have in hand: one document
or two, with a clock or without, a window, internal stats, old brokers' fields, a trace, or what
people post when they ask for help, with parts left out. Half of the incidents and scenarios
fit, the other half judges, so that nothing is judged by what it was fitted to. It prints a
reliability table, the Brier score, and the share of truths that are named first, and within the
first three. `--write` also writes pulsar_doctor/diagnosis/fitted.json.

One share of states is one state each: a moment asked in one way. A moment at which several causes
are true is right with any of them, by name and consumer.
"""

from __future__ import annotations

import argparse
import json
import pickle
import time
from pathlib import Path

from pulsar_doctor.diagnosis import fitted as kept
from pulsar_doctor.diagnosis.answers import HEALTHY

from .fitting import Certainties, Fitted, certainties, fitted, stepped
from .judging import judged, wrong
from .states import collected

STEP = "the share of the way from the weights that are kept to the fitted ones; 1: all of it"
WELL = "added to the weight of healthy: of what is asked about more is well than of the incidents"
ONLY = "fit these causes, or CODE.CLUE alone; the rest, and how sure findings are, stay as kept"
WEAKEST = 0.05  # a clue of less says nothing: take it out of its cause


def main() -> None:
    options = argparse.ArgumentParser("python -m bench.calibration", description=__doc__)
    options.add_argument("--seeds", type=int, default=2000, help="incidents to play")
    options.add_argument("--more", type=int, help="further ones; as many, unless told")
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--write", action="store_true", help="keep what was fitted")
    options.add_argument("--step", type=float, default=1.0, help=STEP)
    options.add_argument("--well", type=float, default=0.0, help=WELL)
    options.add_argument("--only", nargs="+", default=[], metavar="CODE", help=ONLY)
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
    weights: Fitted = {code: dict(own) for code, own in kept.weights().items()}
    sure: Certainties = {c: dict(o) for c, o in kept.certainty().items()}
    if not asked.as_is:
        weights = stepped(weights, fitted(fit, only=asked.only), asked.step)
        sure = sure if asked.only else certainties(fit)
        weights[HEALTHY][""] += asked.well
    print(f"{len(states):,} states: {len(fit):,} fit, {len(judging):,} judge\n")
    judged(judging, weights, sure)
    if asked.wrong:
        wrong(judging, weights)
    if asked.write:
        write(weights, sure)
    print(f"\n{time.monotonic() - began:.0f} s")


def write(weights: Fitted, sure: Certainties) -> None:
    """Keeps what was fitted where the program reads it; names clues that say nothing."""
    rounded = {c: {k: round(w, 2) for k, w in own.items()} for c, own in sorted(weights.items())}
    grades = {c: {f"{g:g}": share for g, share in by.items()} for c, by in sorted(sure.items())}
    parts = {"weights": rounded, "certainty": grades}
    tables = [
        f'  "{name}": {{\n' + ",\n".join(f'    "{c}": {json.dumps(o)}' for c, o in part.items())
        for name, part in parts.items()
    ]
    text = f'{{\n  "prior": {kept.prior()},\n' + "\n  },\n".join(tables) + "\n  }\n}\n"
    kept.FILE.write_text(text, encoding="utf-8")
    for code, own in rounded.items():
        if weak := [key for key, weight in own.items() if key and weight < WEAKEST]:
            print(f"{code}: these clues say nothing, take them out: {', '.join(weak)}")


if __name__ == "__main__":
    main()
