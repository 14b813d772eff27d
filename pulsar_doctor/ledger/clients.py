"""The table of client libraries: what each reports, how it counts permits, and its settings.

A new client is one row here, and a driver in tests/conformance/ that measures it. One that is built
on another client is that row with what differs; both may report the same version.
The sources of the names of settings are in docs/remedies.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

RECEIVER_QUEUE = "receiver queue"
ACK_TIMEOUT = "ack timeout"  # seconds
NACK_DELAY = "negative-ack delay"  # seconds
DEAD_LETTERS = "dead letters"  # deliveries
LISTENER_THREADS, BATCHING_OFF = "listener threads", "batching off"  # of a client, a producer
BATCH_INDEX_ACKS = "batch-index acks"


@dataclass(frozen=True, slots=True)
class ClientLibrary:
    """One client library, or a framework that runs consumers."""

    name: str  # as people call it
    reports: tuple[str, ...] = ()  # how the version that it reports begins, the newest first
    adds: str | None = None  # what such a version has within it that is of no other client
    bare: bool = False  # older ones report a number alone
    issues: tuple[str, ...] = ()  # components of known issues; that of the version first
    simulated: str = ""  # what `simulate --client` calls it; "": it was not measured

    # when a permit is given back: the application receives the message, its callback has returned,
    # or the message moves on into the queue of `ahead` messages before the application
    credits: Literal["received", "finished", "queued"] = "received"
    ahead: int = 0
    asks_on_arrival: bool = False  # it gives permits back when messages arrive, taken or not
    credits_skipped: bool = False  # also for indexes of a batch that were acknowledged before
    pauses: bool = False  # it sends no FLOW while it is paused
    # at a batch, a zero queue closes the consumer, loses the rest of the batch, requests one more
    # entry at each receive whatever is left, or hands out the whole batch first; None: not known
    zero_batches: Literal["closes", "loses", "each", "whole"] | None = None
    drops_old_epochs: bool = True  # what the broker sent before it saw a REDELIVER

    settings: Mapping[str, str] = field(default_factory=dict)  # how each of them is written
    queue_of_one: str = ""  # what a receiver queue of 1 does not prevent
    dump: tuple[str, str] = ("gdb", "gdb")  # what dumps its threads, in short and in full
    attachable: bool = False  # `examine --attach` reads its processes


# fmt: off
JAVA = ClientLibrary(
    "Java", ("Pulsar-Java",), bare=True, issues=("java",), simulated="java", pauses=True,
    zero_batches="closes", dump=("jcmd", "jcmd's Thread.print"), attachable=True,
    settings={
        RECEIVER_QUEUE: ".receiverQueueSize({})",
        ACK_TIMEOUT: ".ackTimeout({}, TimeUnit.SECONDS)",
        NACK_DELAY: ".negativeAckRedeliveryDelay({}, TimeUnit.SECONDS)",
        DEAD_LETTERS: ".deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount({}).build())",
        BATCH_INDEX_ACKS: ".enableBatchIndexAcknowledgment(true)",
        LISTENER_THREADS: ".listenerThreads({})",
        BATCHING_OFF: ".enableBatching(false)",
    },
)
CPP = ClientLibrary(  # bare: before 3.2.0
    "C++", ("Pulsar-CPP",), bare=True, issues=("cpp",), credits_skipped=True, zero_batches="loses",
    dump=("py-spy, gdb", "py-spy dump for Python, gdb for C++"),
    settings={
        RECEIVER_QUEUE: "setReceiverQueueSize({})",
        ACK_TIMEOUT: "setUnAckedMessagesTimeoutMs({}000)",
        NACK_DELAY: "setNegativeAckRedeliveryDelayMs({}000)",
        DEAD_LETTERS:
            "setDeadLetterPolicy(DeadLetterPolicyBuilder().maxRedeliverCount({}).build())",
        BATCH_INDEX_ACKS: "setBatchIndexAckEnabled(true)",
        LISTENER_THREADS: "setMessageListenerThreads({})",
        BATCHING_OFF: "setBatchingEnabled(false)",
    },
)
PYTHON = replace(
    CPP, name="Python", simulated="pulsar-client", attachable=True,
    settings={
        RECEIVER_QUEUE: "receiver_queue_size={}",
        ACK_TIMEOUT: "unacked_messages_timeout_ms={}000",
        NACK_DELAY: "negative_ack_redelivery_delay_ms={}000",
        DEAD_LETTERS: "dead_letter_policy=pulsar.ConsumerDeadLetterPolicy({})",
        BATCH_INDEX_ACKS: "batch_index_ack_enabled=True",
        LISTENER_THREADS: "message_listener_threads={}",
        BATCHING_OFF: "batching_enabled=False",
    },
)
CLIENTS = (
    JAVA,
    replace(JAVA, name="Spring", issues=("java", "spring"), simulated="", settings={}),
    CPP,
    PYTHON,
    replace(PYTHON, simulated="pulsar-client-listener", credits="finished", settings={}),
    replace(
        CPP, name="Node.js", adds="-node-client", issues=("cpp", "node"), dump=("gdb", "gdb"),
        settings={
            RECEIVER_QUEUE: "receiverQueueSize: {}",
            ACK_TIMEOUT: "ackTimeoutMs: {}000",
            NACK_DELAY: "nAckRedeliverTimeoutMs: {}000",
            DEAD_LETTERS: "maxRedeliverCount: {} in deadLetterPolicy",
            BATCH_INDEX_ACKS: "batchIndexAckEnabled: true",
            LISTENER_THREADS: "messageListenerThreads: {}",
            BATCHING_OFF: "batchingEnabled: false",
        },
    ),
    ClientLibrary(  # unknown: built without the versions of the modules
        "Go", ("Pulsar-Go", "Pulsar Go", "unknown"), issues=("go",), simulated="go",
        credits="queued", ahead=10, credits_skipped=True, zero_batches="each",
        queue_of_one="Go's client still asks for ten more ahead",
        dump=("pprof", "its pprof page of goroutines"),
        settings={
            RECEIVER_QUEUE: "ReceiverQueueSize: {}",
            NACK_DELAY: "NackRedeliveryDelay: {} * time.Second",
            DEAD_LETTERS: "MaxDeliveries: {} in DLQ",
            BATCH_INDEX_ACKS: "EnableBatchIndexAcknowledgment: true",
            BATCHING_OFF: "DisableBatching: true",
        },
    ),
    ClientLibrary(  # 2.0.1-incubating: before 6.0.1
        "Rust", ("pulsar-rs", "2.0.1-incubating"), issues=("rust",), asks_on_arrival=True,
        queue_of_one="pulsar-rs holds 1000 all the same unless with_receiver_queue_size says 1 too",
        settings={
            RECEIVER_QUEUE: ".with_batch_size({})",
            ACK_TIMEOUT: ".with_unacked_message_resend_delay(Some(Duration::from_secs({})))",
            DEAD_LETTERS: "max_redeliver_count: {} in .with_dead_letter_policy",
        },
    ),
    ClientLibrary(
        ".NET", ("DotPulsar",), issues=("dotnet",), dump=("dotnet-stack", "dotnet-stack report"),
        settings={RECEIVER_QUEUE: ".MessagePrefetchCount({})"},
    ),
    ClientLibrary(  # by what Pulsar's own framework attaches
        "Functions", ("pulsar-function",), attachable=True,
        dump=("jcmd, py-spy", "jcmd for Java, py-spy for Python"),
        settings={
            RECEIVER_QUEUE: "receiverQueueSize {} for its topic in --input-specs",
            ACK_TIMEOUT: "--timeout-ms {}000",
            DEAD_LETTERS: "--max-message-retries {} with --dead-letter-topic",
        },
    ),
    ClientLibrary(
        "sinks", ("pulsar-sink",), dump=JAVA.dump, attachable=True,
        settings={
            RECEIVER_QUEUE: "receiverQueueSize {} for its topic in --input-specs",
            ACK_TIMEOUT: "--timeout-ms {}000",
            NACK_DELAY: "--negative-ack-redelivery-delay-ms {}000",
            DEAD_LETTERS: "--max-redeliver-count {} with --dead-letter-topic",
        },
    ),
    ClientLibrary(  # parts/consume/receiver
        "pulsar-doctor", ("pulsar-doctor-",), zero_batches="whole", drops_old_epochs=False,
        dump=("py-spy", "py-spy dump"), attachable=True,
        settings={RECEIVER_QUEUE: "--receiver-queue-size {}"},
    ),
)
# fmt: on
SIMULATED = {each.simulated: each for each in CLIENTS if each.simulated}


@lru_cache(maxsize=1_000)
def clients_of(version: str | None) -> tuple[ClientLibrary, ...]:
    """Every client that may report this version; none where it is not known or not reported."""
    if not version:
        return ()
    named = tuple(each for each in CLIENTS if version.startswith(each.reports))
    if not named and version[0].isdigit():
        named = tuple(each for each in CLIENTS if each.bare)
    return tuple(each for each in named if each.adds and each.adds in version) or named


def client_of(version: str | None) -> ClientLibrary:
    """The one that this version counts as: the first that may report it."""
    return next(iter(clients_of(version)), ClientLibrary("not known"))
