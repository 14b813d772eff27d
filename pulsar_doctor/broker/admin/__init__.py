"""The client of the broker's REST API, which only reads."""

from pulsar_doctor.broker.admin.absent import absent
from pulsar_doctor.broker.admin.client import Admin, LoadedTopic, NamespaceTopics
from pulsar_doctor.broker.admin.http import RestAnswer
from pulsar_doctor.broker.admin.live_metrics import NotLive
from pulsar_doctor.broker.admin.metrics import LiveTopics, live_topics
from pulsar_doctor.broker.admin.refusals import (
    AdminError,
    BrokerFailed,
    NotFound,
    Refused,
    Unreachable,
)
from pulsar_doctor.broker.admin.topics import TopicName, topic_name

__all__ = [
    "Admin",
    "AdminError",
    "BrokerFailed",
    "LiveTopics",
    "LoadedTopic",
    "NamespaceTopics",
    "NotFound",
    "NotLive",
    "Refused",
    "RestAnswer",
    "TopicName",
    "Unreachable",
    "absent",
    "live_topics",
    "topic_name",
]
