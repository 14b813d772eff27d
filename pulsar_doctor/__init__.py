"""pulsar-doctor: says why an Apache Pulsar consumer stands still, and what to do."""

__version__ = "0.1.0"
