"""Protects other people's topics: `consume` checks before it attaches, and cleans up.

presence: what is there of a topic and a subscription · manners: whether that may be attached to ·
leavings: what a run leaves behind, removed or named.
"""
