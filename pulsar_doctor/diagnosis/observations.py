"""The table of observations: what is so, the number that shows it, and the one sentence for it.

A row is the key by which tests, hypotheses and exclusions know an observation, the name of the
number that it rests on, and its sentence. The sentence names numbers of the consumer or
subscription, or those that the test adds; it is composed only where somebody reads it. A third
column is the key of the clue, where several observations are one clue: weights know that one.

The tests of clues are in consumer_clues and subscription_clues, those of laws are the laws. What is
not reported is not observed. Whoever shares an observation words it by its key, see `observing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Wording(NamedTuple):
    """One observation."""

    number: str
    sentence: str
    clue: str = ""


UNTOUCHED = "{label} has taken and acknowledged nothing for {since_work}"


def rows(number: str, sentence: str, *keys: str) -> Mapping[str, Wording]:
    """Several observations that are worded alike."""
    return dict.fromkeys(keys, Wording(number, sentence))


# fmt: off
OF_CONSUMER = {
    **rows("available_permits", "{label} has {available_permits:permits}",
           "below_zero", "no_permits", "has_permits", "not_below_zero", "active_ready",
           "several_permits"),
    **rows("unacked_messages", "{label} holds nothing",
           "holds_nothing", "took_all"),
    **rows("unacked_messages", "{label} holds {unacked_messages:messages}",
           "holds_many", "holds_one", "holds_some"),
    **rows("since_last_ack", "{label} has acknowledged {none_of} {sent:messages}",
           "never_acked_many", "never_acked"),
    **rows("quiet_for", "{label} has shown no sign of life for {quiet_for}",
           "quiet_long", "quiet_some"),
    **rows("next_flow_in", "{label}: {outlook}",
           "flow_far", "flow_later"),
    **rows("permits_owed",
           "{label} owes {permits_owed:permits}, and sends a FLOW at {refill_threshold}",
           "owes_flow", "owes_little", "owes_few"),
    "no_standby": Wording("active_consumer", "there is no standby"),
    "empty_handed": Wording(
        "available_permits",
        "{label} holds nothing and has no permits, as if its client had lost them"),
    "never_asked": Wording("flows", "{label} has never asked for a message"),
    "holds_requested": Wording("unacked_messages", "{label} holds all that it requested"),
    "neighbours_idle": Wording(
        "idle_neighbours", "{label} holds {held} of {total:messages}, {idle_ones} nothing to do"),
    "neighbours_busy": Wording("idle_neighbours", "no other consumer is idle"),
    "small_share": Wording("unacked_messages", "{label} holds only {held} of {total:messages}"),
    "has_acked": Wording(
        "since_last_ack", "{label} has acknowledged before, last {since_last_ack} ago"),
    "acked_ever": Wording("since_last_ack", "{label} has acknowledged before", "has_acked"),
    "acks_lately": Wording("since_last_ack", "{label} acknowledges messages"),
    "one_flow": Wording("flows", "{label} has sent one FLOW in its life, and no refill"),
    "flag_blocked": Wording(
        "blocked_consumer_on_unacked_msgs", "the broker says that {label} is at its limit"),
    "flag_free": Wording(
        "blocked_consumer_on_unacked_msgs", "the broker says that {label} is not at its limit"),
    "near_limit": Wording(
        "unacked_messages", "{label} holds {held} of at most {max_unacked_messages_per_consumer}"),
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
    "acks_come": Wording("acked", "{label} acknowledged in the window"),
    "still": Wording("moved", "nothing of {label} moved within {seconds}"),
    "asks": Wording("flows", "{label} asked for messages in the window"),
    "works": Wording("pace", "{label} continues as before"),
    "flow_soon": Wording("next_flow_in", "{label} asks for more soon: {outlook}"),
    "flow_may_be_far": Wording("pace", "a message takes {label} long; {outlook}"),
    "batch_for_one": Wording(
        "receiver_queue_size", "{label} asks for one message and was sent a batch"),
    "asks_singly": Wording("receiver_queue_size", "{label} {asks} for one message at a time"),
    "queues_several": Wording(
        "receiver_queue_size", "{label} has a receiver queue of {receiver_queue_size}"),
    "no_batch_for_one": Wording(
        "receiver_queue_size", "{label} was sent no batch for one permit"),
    "batches": Wording("largest_batch", "batches of {largest_batch:messages} are sent whole"),
    "young": Wording("connected_since", "{label} connected {connected_for} ago"),
    "in_hand": Wording(
        "permits_granted", "{label} has taken {taken:messages} or more that it has not finished"),
    "keys_drain": Wording(
        "draining_hashes", "keys of {label} are draining"),
    "replay_waits": Wording("msg_in_replay", "the broker keeps {replay:entries} {waits}"),
    "joined_late": Wording("position_when_joining", "{label} waits for mark-delete"),
    "namesake": Wording("name", "a newer consumer has the same name, {name}"),
}
OF_SUBSCRIPTION = {
    **rows("type", "the subscription is {type}",
           "not_shared", "not_failover", "not_key_shared", "one_active"),
    **rows("msg_rate_out", "nothing was sent in the broker's last full minute",
           "minute_none", "rate_none"),
    **rows("read_state", "{flags}",
           "read_lost", "read_asleep"),
    **rows("acknowledged_ranges", "{ranges:acknowledged ranges} {lie} behind an entry that is not",
           "hole", "hole_old"),
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
    "none_open": Wording("ongoing_txn_count", "no transaction of a producer is open"),
    "none_pending": Wording("pending_acks", "no acknowledgement is in an open transaction"),
    "reads": Wording("read_position", "the broker is reading, or has tried to"),
    "read_waits": Wording("read_state", "the broker has read all and waits for new entries"),
    "read_armed": Wording(
        "read_state", "a read waits or is in progress, so a consumer has asked for messages"),
    "unread": Wording("read_position", "the broker has not read {unread:entries} yet"),
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
    "outlived": Wording(
        "last_mark_delete_advanced_timestamp",
        "the oldest message[, {oldest},] was sent before and is not acknowledged since: each may "
        "end at it"),
    "went_round": Wording(
        "msg_out_counter",
        "{sent:messages} were sent to consumers that have left, {times} times what there is or "
        "more"),
    "consumed_negative": Wording(
        "messages_consumed_counter",
        "the cursor's counter of acknowledged entries is {consumed}, below 0"),
    "in_circles": Wording(
        "redelivered", "{sent:messages} were sent, many of them three times or more"),
    "again": Wording("redelivered", "{again} of {sent:messages} had been sent before"),
    "redelivers": Wording("msg_rate_redeliver", "{rate} messages a second are sent again"),
    "ended_holding": Wording(
        "unacked_messages", "{label} ended while it held {held:messages}, and acknowledged none"),
    "apart": Wording("connected", "the replicator to {cluster} is not connected"),
}
# What rests for longer than its place allows: see laws.
OF_PLACES = {
    "held_in_silence": (
        "{label} holds {held:messages}, and has taken and acknowledged nothing for {quiet_for}"
    ),
    "held_or_due_in_silence": (
        "{waits:entries} are with {label} or could be sent to it, and it has taken and "
        "acknowledged nothing for {quiet_for}"
    ),
    "queue_untouched": (
        "{queued:messages} or more have been in the queue of {label} for {pause} or more, and it "
        "has taken and acknowledged none for {since_work}"
    ),
    "held_unacked": "{label} has held {held:messages} for {holds_since}, and acknowledged none",
    "given_back": (
        "{label} has acknowledged none of the {msg_out_counter:messages} that it was sent, and "
        "holds {unacked_messages:messages}"
    ),
    "starts_over": (
        "consumers that have left were sent the oldest message[, {oldest}], and who came {age} ago "
        "was sent it again: mark-delete has not moved[ for {still}]"
    ),
    "left_in_vain": (
        "who was there requested messages {age} ago, and left before the oldest[, {oldest},] was "
        "acknowledged: mark-delete has not moved[ for {still}]"
    ),
    "left_early": "all left at most {stayed} after they had connected, and messages wait",
    "comes_by_one": (
        "always by the same connection, so its application seeks, or closes it and subscribes again"
    ),
    "comes_by_each": (
        "each time by another connection, so its process or client is made anew, or its "
        "connections break"
    ),
    "comes_by_any": "it seeks, closes, crashes, or its connections break",
    "there_just_now": (
        "nobody is attached at this moment, and messages were requested just now: a window shows "
        "whether consumers come and go (--window 10s)"
    ),
    "rests_beside_others": (
        "{label} has taken and acknowledged nothing for {since_work}, and has held {kept:messages} "
        "or more of {unacked_messages} for {until}, while {others} acknowledged as they were sent "
        "more"
    ),
    "hangs_in_traffic": (
        "{label} has taken and acknowledged nothing for {since_work}, holds {kept:messages}, and "
        "is sent more"
    ),
    "acks_stopped": (
        "{label} has acknowledged nothing for {since_last_ack}, though it holds at least "
        "{kept:older messages}"
    ),
    "keeps_longer": (
        "{label} has not acknowledged about {older:messages} that it was sent before its last "
        "acknowledgement, as many as come in {kept}"
    ),
    "held_without_backlog": (
        "{label} holds {held:messages}[ and has not moved for {since}], but the backlog is 0: "
        "they expired or were skipped, or a counter is wrong"
    ),
    "counted_below_zero": (
        "the broker counts {unacked} unacknowledged messages, so what its consumers hold is not "
        "known"
    ),
    "due_and_still": (
        "{due:entries} could be sent and {label} has {available_permits:permits}, but nothing "
        "moved within {within}"
    ),
    "only_newer_move": (
        "{due:entries} could be sent all the time, and only newer ones were: they are {where}"
    ),
    "nobody_asks": (
        "{due:entries} could be sent, and {label} has had no permits and held nothing for "
        "{within} or more"
    ),
    "below_zero_for_good": (
        "{label} is at {available_permits:permits} and holds {unacked_messages:messages}, too few"
        " to bring them back"
    ),
    "reader_rests": (
        "a reader stands still with {waits:entries} to read{where}, and none was sent[ for "
        "{since_delivery}][; its last ack came {last} ago]"
    ),
    "with_nobody": "the broker has read {entries:entries} or more that no consumer holds: {where}",
    "no_permits_for": "{label} has had no permits for {since}",
    "closed_holding": (
        "{label} was closed[ after {after}] while it held {held:messages}, and acknowledged none"
    ),
    "unacked_since_unknown": (
        "{label} holds {unacked_messages:messages} and has acknowledged none; since when is not "
        "known: {unseen}"
    ),
    "unmoved_since_unknown": (
        "{label} holds {unacked_messages:messages} and has not moved; since when is not known: "
        "{unseen}"
    ),
    "holds_and_acks_none": "{label} holds {held:messages} and has acknowledged nothing for {since}",
    "limit_not_seen": (
        "{held:messages} are unacknowledged, and {label} has {available_permits:permits} and was "
        "sent nothing for {within}: the subscription's limit is not visible on the wire"
    ),
    "stored_and_not_sent": (
        "messages were published and sent to no consumer, although {who} has had permits for "
        "{since} or more since then; what holds them back (a rate limit, a transaction, a broker "
        "that has stopped reading) is not visible on the wire"
    ),
    "end_not_shown": (
        "{label} has {available_permits:permits} and nothing has come for {since}; the last "
        "message had been published {behind} before it was sent, and whether it was the last in "
        "the topic is not on the wire"
    ),
    "later_and_later": (
        "new messages come {now} after they were published, and came after {before} about {apart}"
        " ago: a burst, or it falls behind; how much waits is not on the wire"
    ),
    "dropped_meanwhile": (
        "{label} has had no permits for {since}; what was published meanwhile was dropped, and a "
        "trace does not show that"
    ),
    "left_behind": (
        "no consumer is attached since {last} left {since} ago, and {waits}; whether another "
        "consumer is attached is not in the trace"
    ),
}
# What a consumer does, without its name: see actions/activity.
OF_ACTIVITY = {
    "acked_none_of": "has acknowledged {none_of} {number}{since}",
    "acked_nothing": "has acknowledged nothing{since}",
    "acked_not_its_one": "has not acknowledged its message{since}",
    "keeps_all": "takes messages and has acknowledged {none_of} {number}",
}
# fmt: on
CLUES: Mapping[str, Wording] = OF_CONSUMER | OF_SUBSCRIPTION
SENTENCES = {key: row.sentence for key, row in CLUES.items()} | OF_PLACES | OF_ACTIVITY
