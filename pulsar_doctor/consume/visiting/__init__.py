"""What `consume` owes the topics of other people: it looks before it attaches, and tidies up after.

presence: what is there of a topic and a subscription · manners: whether that may be attached to ·
leavings: what a run leaves behind, removed or named.
"""
