"""The possible range of each number in the stats; impossible numbers are ignored.

A broker counts permits and unacknowledged messages of a consumer in Java's int. Both may be below
0: permits since the broker reads whole batches, unacknowledged messages where an older broker
counts an acknowledgement twice. What only grows, counts or measures is not below 0. -1 is what
brokers write where there is nothing to tell, and the backlog is -1 for a moment while an entry is
being acknowledged; `backlog` has more of it. Sizes on disk are not bounded here: some brokers tell
them below 0, and no verdict rests on them.

Source: Consumer and PersistentSubscription of pulsar-broker (messagePermits, unackedMessages,
msgOutCounter); ConsumerStats of pulsar-client-admin-api.
"""

from __future__ import annotations

from collections.abc import Mapping

LeastMost = tuple[float, float]

LEAST, MOST = -(2**63), 2**63 - 1  # a broker counts in Java's long
INT_LEAST, INT_MOST = -(2**31), 2**31 - 1
IN_AN_INT: LeastMost = (INT_LEAST, INT_MOST)
GROWS: LeastMost = (0, MOST)
COUNTS: LeastMost = (-1, MOST)
RATE: LeastMost = (0, 1e12)  # messages a second: no cluster sends as many
CONSUMERS_MOST = 5_000  # of one subscription: a verdict on as many takes about two seconds

BOUNDS: Mapping[str, LeastMost] = {
    "available_permits": IN_AN_INT,
    "unacked_messages": (INT_LEAST, MOST),  # of a subscription it may be a sum
    "msg_out_counter": GROWS,
    "bytes_out_counter": GROWS,
    "msg_in_counter": GROWS,
    "bytes_in_counter": GROWS,
    "msg_delayed": COUNTS,
    "msg_in_replay": COUNTS,
    "avg_messages_per_entry": (-1, INT_MOST),
    "draining_hashes_count": COUNTS,
    "non_contiguous_deleted_messages_ranges": COUNTS,
    "non_contiguous_deleted_messages_ranges_serialized_size": COUNTS,
    "msg_rate_in": RATE,
    "msg_rate_out": RATE,
    "msg_rate_redeliver": RATE,
    "message_ack_rate": RATE,
    "msg_drop_rate": RATE,
    "msg_rate_expired": RATE,
}


def sentence(where: str, value: float) -> str:
    """What to say of one that cannot be."""
    return f"{where} is {value}, which is impossible: nothing is judged by it"


def too_many(where: str, count: int) -> str:
    """What to say of a list of more consumers than are read."""
    return f"{where} has {count:,} consumers, more than {CONSUMERS_MOST:,}: none of them is read"
