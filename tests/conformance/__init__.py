"""Real clients, what they do with permits, and the table of it: `python -m tests.conformance`."""
