"""A trace: a folder of what passed on the wire, described in TRACE(5).

folder and index need the standard library only; segments is the one that knows Parquet.
"""
