"""A trace: a folder of what went over the wire, as TRACE(5) describes it.

folder and index need the standard library only; segments is the one that knows Parquet.
"""
