"""The name of a setting in each client library, chosen by the client's version.

The C++ client and those that are built on it (Python, Node.js) tell the same version, so all three
names are given; Node.js adds its own name lately. Old Java clients tell a bare version; pulsar-rs
told that of a Java client of 2018 before 6.0. Functions and sinks are told by what Pulsar's own
framework attaches. Where nothing is told it is taken for Java. A client that has no such setting
has no name here, and nothing is said of it. The sources of the names are in docs/remedies.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

JAVA, CPP, PYTHON, NODE = "Java", "C++", "Python", "Node.js"
GO, RUST, DOTNET = "Go", "Rust", ".NET"
FUNCTIONS, SINKS = "Functions", "sinks"
VERSIONS = (  # how a version begins, as a pattern, and whose it may be
    ("pulsar-function", (FUNCTIONS,)),
    ("pulsar-sink", (SINKS,)),
    ("Pulsar-Java", (JAVA,)),
    ("Pulsar-CPP-v[^-]*-node-client", (NODE,)),
    ("Pulsar-CPP", (CPP, PYTHON, NODE)),
    ("Pulsar-Go", (GO,)),
    ("Pulsar Go", (GO,)),
    ("DotPulsar", (DOTNET,)),
    (r"2\.0\.1-incubating", (RUST,)),
    ("pulsar-rs", (RUST,)),
)

RECEIVER_QUEUE = "receiver queue"
ACK_TIMEOUT = "ack timeout"  # seconds
NACK_DELAY = "negative-ack delay"  # seconds
DEAD_LETTERS = "dead letters"  # deliveries
BATCH_INDEX_ACKS = "batch-index acks"
BATCHING_OFF = "batching off"  # of a producer
LISTENER_THREADS = "listener threads"  # of a client
SETTINGS: Mapping[str, Mapping[str, str]] = {
    RECEIVER_QUEUE: {
        JAVA: ".receiverQueueSize({})",
        CPP: "setReceiverQueueSize({})",
        PYTHON: "receiver_queue_size={}",
        NODE: "receiverQueueSize: {}",
        GO: "ReceiverQueueSize: {}",
        RUST: ".with_batch_size({})",
        DOTNET: ".MessagePrefetchCount({})",
        FUNCTIONS: "receiverQueueSize {} for its topic in --input-specs",
        SINKS: "receiverQueueSize {} for its topic in --input-specs",
    },
    ACK_TIMEOUT: {
        JAVA: ".ackTimeout({}, TimeUnit.SECONDS)",
        CPP: "setUnAckedMessagesTimeoutMs({}000)",
        PYTHON: "unacked_messages_timeout_ms={}000",
        NODE: "ackTimeoutMs: {}000",
        RUST: ".with_unacked_message_resend_delay(Some(Duration::from_secs({})))",
        FUNCTIONS: "--timeout-ms {}000",
        SINKS: "--timeout-ms {}000",
    },
    NACK_DELAY: {
        JAVA: ".negativeAckRedeliveryDelay({}, TimeUnit.SECONDS)",
        CPP: "setNegativeAckRedeliveryDelayMs({}000)",
        PYTHON: "negative_ack_redelivery_delay_ms={}000",
        NODE: "nAckRedeliverTimeoutMs: {}000",
        GO: "NackRedeliveryDelay: {} * time.Second",
        SINKS: "--negative-ack-redelivery-delay-ms {}000",
    },
    DEAD_LETTERS: {
        JAVA: ".deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount({}).build())",
        CPP: "setDeadLetterPolicy(DeadLetterPolicyBuilder().maxRedeliverCount({}).build())",
        PYTHON: "dead_letter_policy=pulsar.ConsumerDeadLetterPolicy({})",
        NODE: "maxRedeliverCount: {} in deadLetterPolicy",
        GO: "MaxDeliveries: {} in DLQ",
        RUST: "max_redeliver_count: {} in .with_dead_letter_policy",
        FUNCTIONS: "--max-message-retries {} with --dead-letter-topic",
        SINKS: "--max-redeliver-count {} with --dead-letter-topic",
    },
    BATCH_INDEX_ACKS: {
        JAVA: ".enableBatchIndexAcknowledgment(true)",
        CPP: "setBatchIndexAckEnabled(true)",
        PYTHON: "batch_index_ack_enabled=True",
        NODE: "batchIndexAckEnabled: true",
        GO: "EnableBatchIndexAcknowledgment: true",
    },
    LISTENER_THREADS: {
        JAVA: ".listenerThreads({})",
        CPP: "setMessageListenerThreads({})",
        PYTHON: "message_listener_threads={}",
        NODE: "messageListenerThreads: {}",
    },
    BATCHING_OFF: {
        JAVA: ".enableBatching(false)",
        CPP: "setBatchingEnabled(false)",
        PYTHON: "batching_enabled=False",
        NODE: "batchingEnabled: false",
        GO: "DisableBatching: true",
    },
}


def clients_of(version: str | None) -> tuple[str, ...]:
    """Whose this version may be; Java where it is not told or not known."""
    for beginning, clients in VERSIONS:
        if version is not None and re.match(beginning, version):
            return clients
    return (JAVA,)


def setting(version: str | None, name: str, value: int | str = "") -> str | None:
    """As it is written there, `receiver_queue_size=1 (Python)`; None where that client has none."""
    return _spelled(name, value, clients_of(version))


def setting_of_any(name: str, value: int | str = "") -> str:
    """For each client that has it, where nothing tells which client it is."""
    return _spelled(name, value, tuple(SETTINGS[name])) or ""


def _spelled(name: str, value: int | str, clients: tuple[str, ...]) -> str | None:
    names = SETTINGS[name]
    spelled = [f"{names[each].format(value)} ({each})" for each in clients if each in names]
    return ", ".join(spelled) or None
