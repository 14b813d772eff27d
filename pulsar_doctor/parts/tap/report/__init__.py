"""The output of `tap` while it runs: a screen, lines, or JSON lines."""
