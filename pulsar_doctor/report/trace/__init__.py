"""A trace to read: its rows, its consumers, and whether it is whole."""
