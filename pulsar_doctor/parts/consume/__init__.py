"""Test consumers: those of pulsar-client (attach), and one that speaks the protocol (receiver).

engines says what any of them shall be and offers; planning comes from options, working does it.
"""
