"""The output of `analyze`: the worst rows of each table, or all of it as JSON."""
