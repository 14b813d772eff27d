"""Turns captured packets into the Pulsar commands of each connection, and into a trace.

`files` reads pcap and pcapng, `packets` finds TCP in a packet, `streams` puts one direction
together, `boundaries` finds where its frames begin, `connections` makes of both directions what is
written by `writing`. All but `writing` are pure: bytes in, values out; time is that of the packets.
"""
