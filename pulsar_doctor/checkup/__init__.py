"""Brings what is to be judged: from live brokers, traces, files or a process."""
