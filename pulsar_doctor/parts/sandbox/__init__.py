"""A real Apache Pulsar on this machine: downloaded, started and stopped."""
