"""What is known of a subscription and its consumers, under one name whoever tells it.

A *view* has each number that a rule looks at once: exact, as a bound, or not told. `by_stats` fills
it from the broker's stats and internal stats, `by_wire` from a trace, and `merged` joins two views
of the same subscription: what is exact beats a bound, what is newer beats what is older, and what
contradicts is kept.
"""
