"""Examines a JVM: attach protocol, thread dumps, and an agent that reads the Pulsar client."""
