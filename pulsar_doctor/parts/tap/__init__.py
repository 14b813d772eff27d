"""The tap: a relay and an observer, run and shown together.

relay and observer are processes of their own, and rooms within.
"""
