"""Shows a stall and its cure on a real Apache Pulsar."""
