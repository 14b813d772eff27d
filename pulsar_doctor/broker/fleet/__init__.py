"""Reads whole namespaces of a cluster without loading topics that nobody uses.

listing: which topics are meant, and their names · survey: which of them are quiet, and the samples
of those that are not.
"""

from pulsar_doctor.broker.fleet.listing import Scope, is_system
from pulsar_doctor.broker.fleet.survey import LIST_RENEWED_SECONDS, Fleet

__all__ = ["LIST_RENEWED_SECONDS", "Fleet", "Scope", "is_system"]
