"""What a tap shows while it runs, on a terminal, as lines, or as JSON lines."""
