"""The observer: the process that understands what a relay has written down."""
