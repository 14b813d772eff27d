"""Traces in Spark: the session, the figures, what is shown meanwhile, what failures mean."""
