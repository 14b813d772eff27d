"""Simulates consumers with other receiver queue sizes, on the permit account of a trace."""
