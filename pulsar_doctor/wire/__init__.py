"""Pulsar's protocol as bytes: frames, commands, and what of them may be written down.

Pure: no file, no socket, no clock. columns is the one table of what a trace's row can hold.
"""
