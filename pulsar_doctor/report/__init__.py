"""What is found, for a person or a program to read: a room for each subcommand.

Beside them what they share: words, tables, charts, and the paper that it is written on.
"""
