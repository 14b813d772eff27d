"""Holes: what lies behind mark-delete, where it comes from, and what it costs.

account puts it together for one subscription; from_stats and from_trace read what it is made of.
"""
