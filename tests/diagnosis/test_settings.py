"""A setting is called as the client at hand calls it, and not at all where it has none."""

from __future__ import annotations

import pytest

from pulsar_doctor.diagnosis.actions.settings import setting, setting_of_any
from pulsar_doctor.ledger.clients import (
    ACK_TIMEOUT,
    BATCHING_OFF,
    DEAD_LETTERS,
    JAVA,
    NACK_DELAY,
    RECEIVER_QUEUE,
)

CPP = (
    "setReceiverQueueSize(1) (C++), receiver_queue_size=1 (Python), receiverQueueSize: 1 (Node.js)"
)


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("Pulsar-Java-v4.0.8", ".receiverQueueSize(1) (Java)"),
        ("2.10.2", f".receiverQueueSize(1) (Java), {CPP}"),
        ("my-own-client", ".receiverQueueSize(1) (Java)"),
        ("unknown", "ReceiverQueueSize: 1 (Go)"),
        ("pulsar-doctor-0.2.0", "--receiver-queue-size 1 (pulsar-doctor)"),
        (None, ".receiverQueueSize(1) (Java)"),
        ("Pulsar-CPP-v3.7.0", CPP),
        ("Pulsar-CPP-v3.7.0-billing", CPP),
        ("Pulsar-Go-v0.19.0", "ReceiverQueueSize: 1 (Go)"),
        ("Pulsar Go 0.12.0", "ReceiverQueueSize: 1 (Go)"),
        ("DotPulsar 3.1.2", ".MessagePrefetchCount(1) (.NET)"),
        ("2.0.1-incubating", ".with_batch_size(1) (Rust)"),
        ("pulsar-rs-v6.4.1", ".with_batch_size(1) (Rust)"),
        ("Pulsar-CPP-v3.7.1-node-client-v1.17.0", "receiverQueueSize: 1 (Node.js)"),
        ("pulsar-function", "receiverQueueSize 1 for its topic in --input-specs (Functions)"),
    ],
)
def test_a_receiver_queue_is_called_as_its_client_calls_it(version: str | None, known: str) -> None:
    assert setting(version, RECEIVER_QUEUE, 1) == known


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("Pulsar-Go-v0.19.0", ACK_TIMEOUT),
        ("DotPulsar 3.1.2", ACK_TIMEOUT),
        ("DotPulsar 3.1.2", NACK_DELAY),
        ("DotPulsar 3.1.2", DEAD_LETTERS),
        ("2.0.1-incubating", NACK_DELAY),
    ],
)
def test_nothing_is_said_for_a_client_without_such_a_setting(version: str, name: str) -> None:
    assert setting(version, name, 60) is None


def test_milliseconds_are_written_where_a_client_wants_them() -> None:
    assert "unacked_messages_timeout_ms=60000 (Python)" in (
        setting("Pulsar-CPP-v3.7.0", ACK_TIMEOUT, 60) or ""
    )


@pytest.mark.parametrize("name", JAVA.settings)
def test_a_name_is_whole_whatever_it_is_given(name: str) -> None:
    assert "{" not in setting_of_any(name, 1)


def test_of_producers_all_names_are_told() -> None:
    assert setting_of_any(BATCHING_OFF).count("(") == 5 + 2
