"""The output of `consume` and `demo`: lines while they run, and a summary."""
