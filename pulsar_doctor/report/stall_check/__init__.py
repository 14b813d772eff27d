"""The output of `stall-check`: blocks, details, tables, rounds, and formats for programs."""
