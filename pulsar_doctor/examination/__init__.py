"""One run of stall-check, from what there is to look at to the verdicts.

judge: the rules, asked of every subscription · recorded: traces and files · live: brokers.
"""

from pulsar_doctor.examination.judge import Judge
from pulsar_doctor.examination.live import Asking, of_fleet, of_topics
from pulsar_doctor.examination.recorded import of_files, of_trace

__all__ = ["Asking", "Judge", "of_files", "of_fleet", "of_topics", "of_trace"]
