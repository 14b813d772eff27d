"""Our own consumer, written on the protocol: it does what pulsar-client refuses to do.

engine      threads of the application on one side, the loop on the other
consumer    one queue for the partitions of a topic, and what waits in it
partition   one consumer of the broker: SUBSCRIBE, FLOW, and coming again
epochs      what a refusal brings again on Exclusive and Failover, and what it does not
brake       when FLOW is sent, and how much
acknowledging   which ACK says what, and until the broker has it
entries, payloads     what a MESSAGE carries
brokers, connection, door, refusals     lookup, bytes, TLS and credentials, errors
"""

from pulsar_doctor.errors import needing

with needing("consume", "a consumer on the wire"):
    import google.protobuf  # noqa: F401

from pulsar_doctor.parts.consume.receiver.engine import BlockingConsumer, Receiver, connected

__all__ = ["BlockingConsumer", "Receiver", "connected"]
