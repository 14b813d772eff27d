"""What tests of several folders build: documents, traces, judged cases, a tapped broker."""
