"""Output for people and programs: one package for each subcommand.

Beside them what they share: words, tables, charts, and the paper that it is written on.
"""
