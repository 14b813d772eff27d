"""One run of stall-check, from what there is to look at to the verdicts.

judge: the rules, asked of every subscription · recorded: traces and files · live: brokers ·
acknowledged: for `holes`, the acknowledged ranges of both.
"""

from pulsar_doctor.examination.acknowledged import (
    Acknowledged,
    holes_of_files,
    holes_of_namespaces,
    holes_of_topics,
)
from pulsar_doctor.examination.acknowledged_trace import holes_of_trace
from pulsar_doctor.examination.judge import Judge
from pulsar_doctor.examination.live import Asking, of_fleet, of_topics
from pulsar_doctor.examination.recorded import of_files, of_trace

__all__ = [
    "Acknowledged",
    "Asking",
    "Judge",
    "holes_of_files",
    "holes_of_namespaces",
    "holes_of_topics",
    "holes_of_trace",
    "of_files",
    "of_fleet",
    "of_topics",
    "of_trace",
]
