"""Examines a running process: from the kernel, and from inside on request."""
