"""A trace: a folder of what went over the wire, as TRACE(5) describes it.

folder: names, _meta.json, ledgers, locks · index: the list of what is sealed (both: the standard
library only) · journals: what is not sealed yet · segments: one Parquet file · reading: the whole,
in order · later: where its beginning is lost · keeping: what stays of a ring · verifying: is it
whole?
"""
