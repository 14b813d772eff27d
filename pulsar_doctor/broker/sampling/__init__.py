"""Samples topics of a live broker over a window of time, to see what moves.

plan: what is requested, who is informed meanwhile, and what came of it · part: the samples of one
topic or partition · named: a topic as it was named, with its partitions · beside: what the cluster
allows, which transactions are open, where segments are · run: the window itself.
"""

from pulsar_doctor.broker.sampling.plan import Sampled, SamplingPlan, Unread, Watch
from pulsar_doctor.broker.sampling.run import sample

__all__ = ["Sampled", "SamplingPlan", "Unread", "Watch", "sample"]
