"""A real Apache Pulsar on this machine: found or fetched, started, kept, and ended."""
