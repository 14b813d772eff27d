"""Acknowledgements: which entries have one, in which ranges, and what became of each entry.

Ranges are the same from the wire and from the broker's internal stats. Pure.
"""
