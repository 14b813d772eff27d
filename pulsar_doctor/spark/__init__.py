"""Traces in Spark: the session, what is shown while its jobs run, and what its failures mean."""
