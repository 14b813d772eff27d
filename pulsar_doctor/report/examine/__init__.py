"""The output of `examine` about the process itself."""
