"""The table of observations: what is so, the number that shows it, and the one sentence for it.

A row is the key by which tests, hypotheses and exclusions know an observation, the name of the
number that it rests on, and its sentence. The sentence names numbers of the consumer or
subscription, or those that the test adds; it is composed only where somebody reads it. A third
column is the key of the clue, where several observations are one clue: weights know that one.

The tests are in consumer_clues and subscription_clues. What is not reported is not observed.
Others word what they share with the table by its keys: `said("has_permits", consumer)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from pulsar_doctor.diagnosis.answers import Clue
from pulsar_doctor.wording.sentences import Sentence, fill

Of = TypeVar("Of")
Added = Mapping[str, object]


class Wording(NamedTuple):
    """One observation."""

    number: str
    sentence: str
    clue: str = ""


UNTOUCHED = "{label} has taken and acknowledged nothing for {since_work}"

# fmt: off
OF_CONSUMER = {
    "below_zero": Wording("available_permits", "{label} has {available_permits:permits}"),
    "no_permits": Wording("available_permits", "{label} has {available_permits:permits}"),
    "has_permits": Wording("available_permits", "{label} has {available_permits:permits}"),
    "active_ready": Wording("available_permits", "{label} has {available_permits:permits}"),
    "no_standby": Wording("active_consumer", "there is no standby"),
    "not_below_zero": Wording("available_permits", "{label} has {available_permits:permits}"),
    "empty_handed": Wording(
        "available_permits",
        "{label} holds nothing and has no permits, as if its client had lost them"),
    "never_asked": Wording("flows", "{label} has never asked for a message"),
    "holds_nothing": Wording("unacked_messages", "{label} holds nothing"),
    "holds_many": Wording("unacked_messages", "{label} holds {unacked_messages:messages}"),
    "holds_one": Wording("unacked_messages", "{label} holds {unacked_messages:messages}"),
    "holds_some": Wording("unacked_messages", "{label} holds {unacked_messages:messages}"),
    "took_all": Wording("unacked_messages", "{label} holds nothing"),
    "holds_requested": Wording("unacked_messages", "{label} holds all that it requested"),
    "neighbours_idle": Wording(
        "idle_neighbours", "{label} holds {held} of {total:messages}, {idle_ones} nothing to do"),
    "neighbours_busy": Wording("idle_neighbours", "no other consumer is idle"),
    "small_share": Wording("unacked_messages", "{label} holds only {held} of {total:messages}"),
    "never_acked_many": Wording(
        "since_last_ack", "{label} has acknowledged none of {sent:messages}"),
    "never_acked": Wording("since_last_ack", "{label} has acknowledged none of {sent:messages}"),
    "has_acked": Wording("since_last_ack", "{label} has acknowledged before{last}"),
    "acks_lately": Wording("since_last_ack", "{label} acknowledges messages"),
    "one_flow": Wording("flows", "{label} has sent one FLOW in its life, and no refill"),
    "flag_blocked": Wording(
        "blocked_consumer_on_unacked_msgs", "the broker says that {label} is at its limit"),
    "flag_free": Wording(
        "blocked_consumer_on_unacked_msgs", "the broker says that {label} is not at its limit"),
    "release_soon": Wording("acked", "{label} acknowledges, and gets new messages {release}"),
    "near_limit": Wording(
        "unacked_messages", "{label} holds {held} of at most {max_unacked_messages_per_consumer}"),
    "quiet_long": Wording("quiet_for", "{label} has shown no sign of life for {quiet_for}"),
    "quiet_some": Wording("quiet_for", "{label} has shown no sign of life for {quiet_for}"),
    "untouched_long": Wording("since_work", UNTOUCHED, "quiet_long"),
    "untouched_some": Wording("since_work", UNTOUCHED, "quiet_some"),
    "untouched_unusual": Wording(
        "pace", UNTOUCHED + "; it took at most {usual} for a message on average", "unusual"),
    "lively": Wording("quiet_for", "{label} showed a sign of life {quiet_for} ago"),
    "unusual": Wording(
        "pace",
        "{label} has shown no sign of life for {quiet_for}; it took at most {usual} for a message"
        " on average"),
    "neighbour_later": Wording(
        "quiet_for", "{neighbour} showed a sign of life {apart} after the last of {label}"),
    "acks_come": Wording("acked", "{label} acknowledged{within}"),
    "still": Wording("moved", "nothing of {label} moved{within}"),
    "asks": Wording("flows", "{label} asked for messages{within}"),
    "works": Wording("pace", "{label} continues as before"),
    "flow_far": Wording("next_flow_in", "{label}: {outlook}"),
    "flow_later": Wording("next_flow_in", "{label}: {outlook}"),
    "flow_soon": Wording("next_flow_in", "{label} asks for more soon: {outlook}"),
    "flow_may_be_far": Wording("pace", "a message takes {label} long; {outlook}"),
    "batch_for_one": Wording(
        "receiver_queue_size", "{label} asks for one message and was sent a batch"),
    "asks_singly": Wording("receiver_queue_size", "{label} {asks} for one message at a time"),
    "batches": Wording("largest_batch", "batches of {largest_batch:messages} are sent whole"),
    "young": Wording("connected_since", "{label} connected {connected_for} ago"),
    "owes_flow": Wording(
        "permits_owed", "{label} owes {permits_owed:permits}, and sends a FLOW at"
        " {refill_threshold}"),
    "owes_little": Wording(
        "permits_owed", "{label} owes {permits_owed:permits}, and sends a FLOW at"
        " {refill_threshold}"),
    "owes_few": Wording(
        "permits_owed", "{label} owes {permits_owed:permits}, and sends a FLOW at"
        " {refill_threshold}"),
    "in_hand": Wording(
        "permits_granted", "{label} has taken {taken:messages} or more that it has not finished"),
    "keys_drain": Wording(
        "draining_hashes", "messages of keys that {label} had wait for its acknowledgements"),
    "replay_waits": Wording("msg_in_replay", "the broker keeps {replay:entries} {waits}"),
    "joined_late": Wording("position_when_joining", "{label} waits for mark-delete"),
    "namesake": Wording("name", "a newer consumer has the same name, {label}"),
}
OF_SUBSCRIPTION = {
    "not_shared": Wording("type", "the subscription is {type}"),
    "not_failover": Wording("type", "the subscription is {type}"),
    "not_key_shared": Wording("type", "the subscription is {type}"),
    "out_of_order": Wording("type", "out-of-order delivery is allowed"),
    "nothing_left": Wording("left", "nothing is left to send"),
    "waits": Wording("left", "{left:entries} could be sent"),
    "replay": Wording("msg_in_replay", "the broker keeps {replay:entries} {waits}"),
    "backlog_grows": Wording("backlog_change", "the backlog grew by {by} within {within}"),
    "backlog_falls": Wording("backlog_change", "the backlog fell by {by} within {within}"),
    "came_faster": Wording(
        "msg_rate_in", "{came} messages a second were published lately, {new} were sent first",
        "backlog_grows"),
    "sent_faster": Wording(
        "msg_rate_in", "{came} messages a second were published lately, {new} were sent first",
        "backlog_falls"),
    "keeps_up": Wording(
        "msg_rate_in", "{came} messages a second were published lately, {new} were sent first"),
    "nobody": Wording("consumers", "no consumer is attached"),
    "somebody_ready": Wording("available_permits", "a consumer has permits"),
    "nobody_served": Wording("active_consumer", "no active consumer is connected"),
    "one_consumer": Wording("consumers", "there is no other consumer"),
    "nobody_ready": Wording("available_permits", "no consumer has permits"),
    "nobody_takes": Wording("available_permits", "no consumer may be sent messages"),
    "nobody_holds": Wording("unacked_messages", "no consumer holds a message"),
    "active_gone": Wording("active_consumer", "the active consumer is not connected"),
    "standby": Wording("active_consumer", "{standby} is a standby"),
    "delivers": Wording("msg_out_counter", "the broker sent {delivered:messages} in the window"),
    "delivers_none": Wording("msg_out_counter", "nothing was sent in the window"),
    "delivered_long_ago": Wording("last_consumed", "the last delivery was {since_delivery} ago"),
    "just_delivered": Wording("last_consumed", "a message was sent just now"),
    "somebody_acks": Wording("acked", "acknowledgements come"),
    "rate_redeliver": Wording(
        "msg_rate_redeliver",
        "{again} messages a second were redelivered lately, {out} were sent"),
    "minute_none": Wording("msg_rate_out", "nothing was sent in the broker's last full minute"),
    "rate_none": Wording("msg_rate_out", "nothing was sent in the broker's last full minute"),
    "rate_out": Wording("msg_rate_out", "{out} messages a second were sent lately"),
    "rate_acks": Wording("message_ack_rate", "{acks} messages a second were acknowledged lately"),
    "flag_all_blocked": Wording(
        "blocked_subscription_on_unacked_msgs",
        "the broker says that the subscription is at its limit, with {unacked} unacked"),
    "flag_all_free": Wording(
        "blocked_subscription_on_unacked_msgs",
        "the broker says that the subscription is not at its limit"),
    "never_throttled": Wording("throttled_reads", "no read was ever held back by a rate limit"),
    "throttled": Wording("throttled_reads", "a rate limit delayed {reads:reads}"),
    "throttled_once": Wording(
        "throttled_reads", "a rate limit has delayed {reads:reads} since the topic was loaded"),
    "none_delayed": Wording("msg_delayed", "the broker counts no delayed entry"),
    "delayed_most": Wording("msg_delayed", "{delayed} of {entries:entries} are not due yet"),
    "delayed_some": Wording("msg_delayed", "the broker counts {delayed:delayed entries}"),
    "waits_by_design": Wording("read_position", "{pauses_by_design}"),
    "filter_puts_back": Wording(
        "filter_rescheduled_msg_count", "an entry filter has put messages back {put_back:times}"),
    "open_transaction": Wording(
        "ongoing_txn_count", "the topic has {open_transactions:open transactions} of a producer"),
    "none_pending": Wording("pending_acks", "no acknowledgement is in an open transaction"),
    "reads": Wording("read_position", "the broker is reading, or has tried to"),
    "read_lost": Wording("read_state", "{flags}"),
    "read_asleep": Wording("read_state", "{flags}"),
    "no_read": Wording("read_state", "{flags}"),
    "read_under_way": Wording("read_state", "{flags}"),
    "read_waits": Wording("read_state", "the broker has read all and waits for new entries"),
    "read_armed": Wording(
        "read_state", "a read waits or is in progress, so a consumer has asked for messages"),
    "unread": Wording("read_position", "the broker has not read {unread:entries} yet"),
    "hole": Wording(
        "acknowledged_ranges", "{ranges:acknowledged ranges} {lie} behind an entry that is not"),
    "hole_old": Wording(
        "acknowledged_ranges", "{ranges:acknowledged ranges} {lie} behind an entry that is not"),
    "hole_wide": Wording(
        "acknowledged_ranges", "{behind:entries} lie behind the first that is not acknowledged"),
    "many_ranges": Wording("acknowledged_ranges", "{ranges:acknowledged ranges}"),
    "counter_differs": Wording(
        "msg_backlog", "the counter says {counter}, positions say {positions:entries}"),
    "counter_negative": Wording(
        "msg_backlog", "the counter says {counter}, below 0", "counter_differs"),
    "counter_below_0": Wording("msg_backlog", "no backlog can be below 0"),
    "counted_far": Wording(
        "messages_consumed_counter",
        "by the counters {counted} entries wait, by the positions {positions}"),
    "consumed_negative": Wording(
        "messages_consumed_counter",
        "the cursor's counter of acknowledged entries is {consumed}, below 0"),
    "in_circles": Wording(
        "redelivered", "{sent:messages} were sent, many of them three times or more"),
    "again": Wording("redelivered", "{again} of {sent:messages} had been sent before"),
    "redelivers": Wording("msg_rate_redeliver", "{rate} messages a second are sent again"),
    "come_and_go": Wording("consumers", "{gone:consumers} connected and left"),
    "ended_holding": Wording(
        "unacked_messages", "{label} ended while it held {held:messages}, and acknowledged none"),
    "apart": Wording("connected", "the replicator to {cluster} is not connected"),
}
# fmt: on
TABLE: Mapping[str, Wording] = OF_CONSUMER | OF_SUBSCRIPTION


class Observation:
    """One observation that was made; its text is composed when it is read."""

    __slots__ = ("_numbers", "_of", "_row")

    def __init__(self, row: Wording, of: object, numbers: Added) -> None:
        self._row, self._of, self._numbers = row, of, numbers

    @property
    def name(self) -> str:
        """Of the number that it rests on."""
        return self._row.number

    @property
    def text(self) -> Sentence:
        """Its sentence, without a full stop."""
        return fill(self._row.sentence, self._of, self._numbers)


Clues = Mapping[str, Observation | Clue]  # by the key of the clue
Found = Iterator[str | tuple[str, Added]]  # keys of rows, and the numbers that the test adds


def observed_by(observers: Iterable[Callable[[Of], Found]], beside: Of, of: object) -> Clues:
    """What these tests see, by clue. of: whose numbers the sentences name."""
    seen: dict[str, Observation | Clue] = {}
    for observe in observers:
        for found in observe(beside):
            key, numbers = (found, {}) if isinstance(found, str) else found
            row = TABLE[key]
            seen[row.clue or key] = Observation(row, of, numbers)
    return seen


def first_of(
    tests: Iterable[str | Callable[..., str | None]], clues: Clues, *of: object
) -> Observation | Clue | None:
    """The first of these that holds: observations by their keys, or tests of `of`."""
    for each in tests:
        if isinstance(each, str):
            if each in clues:
                return clues[each]
        elif because := each(*of):
            return Clue("", because)
    return None


def said(key: str, of: object, **numbers: object) -> Sentence:
    """The sentence of an observation that is known to be so. numbers: that its test adds."""
    return fill(TABLE[key].sentence, of, numbers)
