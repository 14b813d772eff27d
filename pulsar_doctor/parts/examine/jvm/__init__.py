"""Examines a JVM: attach protocol, and an agent that reads the Pulsar client."""
