"""Acknowledged ranges of a subscription, and the holes between them.

ranges: cut at the ends of ledgers · persisting: what of them outlives an unload · shape: what lies
behind mark-delete · origins: where holes come from · bounds: what is certain where ledgers are not
told · certain: the same of a trace · storage: what they keep on disk · account: all of it of one
subscription.
"""
