"""Reads and writes files of topic stats: our own, and the output of pulsar-admin.

reading: one reading, as the broker wrote it · recorder: writes `--save FILE` · files: opens a file
and tells what it is · saved: windows from a file of our own · plain: samples from what
pulsar-admin printed, plain_windows: in order of time · pasted: what people make of that · asking:
what `--stats`, `--internal-stats`, `--at` and `--interval` ask for.
"""

from pulsar_doctor.broker.samples.asking import ReadSamples, answers_in, moment_ms, read
from pulsar_doctor.broker.samples.reading import StatsAnswer
from pulsar_doctor.broker.samples.recorder import Recorder

__all__ = ["ReadSamples", "Recorder", "StatsAnswer", "answers_in", "moment_ms", "read"]
