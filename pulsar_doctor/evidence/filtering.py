"""What an entry filter of the broker has done with the messages of a subscription."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.evidence.measures import Measure

SEVERAL = 2  # times: each message that waits was put back so often, on average


@dataclass(frozen=True, slots=True)
class Filtering:
    """Counts since the topic was loaded. A message counts each time that the broker reads it."""

    processed: int
    accepted: int
    put_back: int  # to be read again after a delay
    lately: int | None  # of these, in the window; None: not reported

    def keeps(self, waiting: int) -> bool:
        """Whether the filter puts this many waiting messages back again and again."""
        again = waiting > 0 and self.put_back >= SEVERAL * waiting
        return again and self.put_back > self.accepted and self.lately != 0

    def measures(self) -> tuple[Measure, ...]:
        """Returns these counts as what a finding rests on."""
        counts = {
            "filter_processed_msg_count": self.processed,
            "filter_rescheduled_msg_count": self.put_back,
            "put_back_in_the_window": self.lately,
        }
        return tuple(Measure(name, count, "messages") for name, count in counts.items())
