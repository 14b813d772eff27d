"""The tap: a relay and an observer, started, looked after and shown as one.

relay and observer are processes of their own, and rooms within.
"""
