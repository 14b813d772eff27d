"""Error messages for what a broker refuses, each with what to do."""

from __future__ import annotations

from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.consume.engines import Plan
from pulsar_doctor.wire.commands import SERVER_ERRORS
from pulsar_doctor.wire.redaction import redact


class ServerRefused(Exception):
    """A broker's answer is an error; `name` is that of the protocol's ServerError."""

    def __init__(self, code: int, message: str) -> None:
        known = 0 <= code < len(SERVER_ERRORS)
        self.name = SERVER_ERRORS[code] if known else f"error {code}"
        super().__init__(f"{self.name}: {redact(message)}" if message else self.name)


class Lost(Exception):
    """There is no connection, or no more, or no answer on it: why, as the end of a sentence."""


# What passes by itself: a topic is being loaded or moved. A broker that has not yet noticed that
# our last connection is gone takes us for two, hence ConsumerBusy, when we come again.
PASSING = frozenset({"ServiceNotReady", "TooManyRequests", "MetadataError"})
PASSING_AGAIN = PASSING | {"UnknownError", "PersistenceError", "ConsumerBusy", "ConsumerNotFound"}

_SENTENCES = {
    "ConsumerBusy": "{what} has an exclusive consumer already: close it, or use --type",
    "AuthenticationError": "the broker refuses access to {what}: {why}; see --auth-plugin",
    "AuthorizationError": (
        "the broker refuses access to {what}: {why}; the role needs the permission to consume"
    ),
    "TopicNotFound": "there is no topic for {what}, and the broker does not create it",
    "SubscriptionNotFound": "there is no such subscription, {what}, and the broker creates none",
    "NotAllowedError": "the broker does not allow {what}: {why}",
    "ConsumerAssignError": "the broker cannot assign a consumer to {what}: {why}; see --type",
    "InvalidTopicName": "{what} is not a valid topic name: {why}",
}


def refused(error: Exception, plan: Plan) -> DoctorError:
    """Why there is no consumer."""
    return sentence(error, f"{plan.subscription} on {plan.topic}")


def sentence(error: Exception, what: str) -> DoctorError:
    """What went wrong with `what`, in a sentence for the user."""
    if isinstance(error, ServerRefused):
        text = _SENTENCES.get(error.name, "the broker refuses {what}: {why}")
        return DoctorError(text.format(what=what, why=error))
    return DoctorError(f"cannot reach {what}: {error}")
