"""Pulsar's binary protocol: frames, commands, and what may be recorded of them.

Pure: no file, no socket, no clock. columns is the one table of what a trace's row can hold.
"""
