"""Acknowledged ranges of a subscription, and the holes between them.

ranges: as the broker writes them · persisting: what of them outlives an unload · origins: where
holes come from · bounds: what is certain where ledgers are not told · storage: what they keep on
disk · account: all of it of one subscription.
"""
