"""The observer: the process that reads and judges what a relay has recorded."""
