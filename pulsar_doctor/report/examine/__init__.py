"""What `examine` tells of the process itself, beside the verdicts."""
