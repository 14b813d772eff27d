"""capture: packets that somebody wrote down become the frames of Pulsar connections, and a trace.

`files` reads pcap and pcapng, `packets` finds TCP in a packet, `streams` puts one direction
together, `boundaries` finds where its frames begin, `connections` makes of both directions what is
written by `writing`. All but `writing` are pure: bytes in, values out; time is that of the packets.
"""
