"""When numbers are enough to state a consumer's pace."""

from __future__ import annotations

SLACK = 1.2  # times, by which acks may be nearer or further apart than on average


def fits(pace: float, done: int, seconds: float, each: float) -> bool:
    """Whether one message in each `pace` gives so many in so many seconds. each: of one ack."""
    return not_too_many(pace, done, seconds, each) and not_too_few(pace, done, seconds, each)


def not_too_many(pace: float, done: int, seconds: float, each: float) -> bool:
    """Whether it gives so many, or more."""
    return pace * (done - each) <= seconds * SLACK


def not_too_few(pace: float, done: int, seconds: float, each: float) -> bool:
    """Whether it gives so many, or fewer."""
    return pace * (done + each) * SLACK >= seconds
