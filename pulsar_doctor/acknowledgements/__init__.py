"""What became of each entry of a trace: when it was acknowledged, and by what.

subscription: one pass over rows · cursor: mark-delete and what is acknowledged behind it, as the
broker keeps them · entries: entries of one ledger, a few bytes each · serving: whom the broker
serves, and since when · biographies: one entry's story.
"""
