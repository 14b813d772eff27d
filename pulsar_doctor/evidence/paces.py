"""When numbers are enough to state a consumer's pace, and when that pace has ended."""

from __future__ import annotations

SLACK = 1.2  # times, by which acks may be nearer or further apart than on average
AT_ONCE = 16  # messages that workers may finish at the same moment
PAUSE_SECONDS = 30.0  # no longer than an ordinary pause


def fits(pace: float, done: int, seconds: float, each: float) -> bool:
    """Whether one message in each `pace` gives so many in so many seconds. each: of one ack."""
    return not_too_many(pace, done, seconds, each) and not_too_few(pace, done, seconds, each)


def not_too_many(pace: float, done: int, seconds: float, each: float) -> bool:
    """Whether it gives so many, or more."""
    return pace * (done - each) <= seconds * SLACK


def not_too_few(pace: float, done: int, seconds: float, each: float) -> bool:
    """Whether it gives so many, or fewer."""
    return pace * (done + each) * SLACK >= seconds


def ended(silence: float, each: float) -> bool:
    """Whether a silence is longer than a pace explains: that pace forecasts nothing any more.

    Workers may finish their messages at the same moment, and then none for as long as all of these
    take. silence: seconds since the last ack. each: seconds for an ack until then.
    """
    return silence > max(PAUSE_SECONDS, AT_ONCE * each)
