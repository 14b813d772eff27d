"""A running JVM: HotSpot's attach protocol, thread dumps, and the agent that reads the client."""
