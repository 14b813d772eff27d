"""A trace: a folder of what went over the wire, as TRACE(5) describes it.

folder: names, _meta.json, _segments.jsonl, locks (the standard library only) · journals: what is
not sealed yet · segments: one Parquet file · reading: the whole, in order · verifying: is it whole?
"""
