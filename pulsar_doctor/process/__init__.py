"""A running process: what the kernel tells of it, and what it tells itself when it is asked."""
