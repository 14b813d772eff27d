"""Acknowledgements: which entries have one, in which ranges, and what happened to each.

Ranges are the same from the wire and from the broker's internal stats. Pure.
"""
