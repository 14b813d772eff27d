"""Reads dumps of the threads of a process: by a JVM, by Go and by Python."""
