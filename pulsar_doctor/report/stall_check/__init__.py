"""Verdicts: in detail, at a glance, round by round, and in the formats of other programs."""
