"""pulsar-doctor for assistants: a server of the Model Context Protocol whose tools only read."""
