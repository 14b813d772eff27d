"""Known defects of Pulsar's brokers and clients, and which of them a verdict fits."""
