"""Holes between acknowledged messages: where they come from, and what they cost.

account puts it together for one subscription; from_stats and from_trace read what it is made of,
found holds all of them.
"""
