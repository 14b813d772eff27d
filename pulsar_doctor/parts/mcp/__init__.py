"""pulsar-doctor for assistants: a server of the Model Context Protocol with read-only tools."""
