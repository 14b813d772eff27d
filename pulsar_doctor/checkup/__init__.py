"""Collects what is judged, from brokers, traces, files or a process; and counts holes."""
