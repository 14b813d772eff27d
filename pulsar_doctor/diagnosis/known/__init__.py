"""Known bugs of Pulsar's brokers and clients, and which ones fit a verdict."""
