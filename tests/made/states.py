"""States of real brokers as they were recorded, and how they are judged.

tests/states/VERSION/SCENARIO.jsonl.gz is what `stall-check --save` keeps of a scenario of
tests/scenarios, 11 samples, recorded with `python -m tests.scenarios record` on a broker of
that version.
"""

from __future__ import annotations

from pathlib import Path

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.samples import read
from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.diagnosis.weighing import diagnose
from pulsar_doctor.evidence import by_stats
from tests.scenarios import SCENARIOS

FOLDER = Path(__file__).parents[1] / "states"
VERSIONS = ("2.11.0", "3.3.5", "4.0.8", "4.2.4", "5.0.0-M1")
RECORDED = sorted(
    (path.parent.name, path.name.partition(".")[0]) for path in FOLDER.glob("*/*.jsonl.gz")
)
RULES = load()


def recorded(version: str, name: str) -> Observed:
    [window] = read(SampleFiles([str(FOLDER / version / f"{name}.jsonl.gz")])).windows
    [observed] = window.subscriptions()
    return observed


def judged(name: str, observed: Observed) -> Diagnosis:
    return diagnose(
        by_stats.subscription_view(observed), RULES, limits_of(RULES, SCENARIOS[name].settings)
    )
