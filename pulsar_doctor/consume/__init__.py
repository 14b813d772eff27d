"""Consumers of our own: those of pulsar-client (attach) and one on the wire (receiver).

engines says what any of them shall be and offers; planning comes from options, working does it.
"""
