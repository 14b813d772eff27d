"""A sentence knows the values from which it was built, however it is put together."""

from __future__ import annotations

import pickle

import pytest

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.values import Count
from pulsar_doctor.wording.printable import listed
from pulsar_doctor.wording.sentences import Sentence, fill, joined, say, values_in


def test_a_number_is_known_as_it_is_written_and_with_its_unit() -> None:
    sentence = say("{} holds {:unacknowledged messages}, quiet for {}", "a-1", 12, "5 min")
    assert sentence == "a-1 holds 12 unacknowledged messages, quiet for 5 min"
    assert values_in(sentence) == {"a-1", "12", "12 messages", "5 min"}


@pytest.mark.parametrize(
    ("value", "text", "values"),
    [
        (Count(3, 3), "3 permits", {"3", "3 permits"}),
        (Count(3, None), "at least 3 permits", {"3", "3 permits"}),
        (Count(None, 3), "at most 3 permits", {"3", "3 permits"}),
        (Count(1, 1), "1 permit", {"1", "1 permits"}),
        (Count(1, None), "at least 1 permit", {"1", "1 permits"}),
        (Count(0, 1), "0 to 1 permits", {"0", "0 permits", "1", "1 permits"}),
        (Count(3, 4), "3 to 4 permits", {"3", "3 permits", "4", "4 permits"}),
    ],
)
def test_of_a_count_the_bounds_are_known(value: Count, text: str, values: set[str]) -> None:
    assert say("{:permits}", value) == text
    assert values_in(say("{:permits}", value)) == values


def test_a_template_names_fields_and_what_is_added_and_leaves_out_what_is_not_known() -> None:
    template = "{label} holds {held:messages}[ for {since}][, of {unacked_messages}]"
    consumer = ConsumerView(label="w", unacked_messages=Count(9, 9))
    said = fill(template, consumer, held=1, since=None)
    assert said == "w holds 1 message, of 9"
    assert {"w", "1", "1 messages", "9"} <= said.values
    assert fill(template, consumer, held=2, since="5 s") == "w holds 2 messages for 5 s, of 9"


def test_one_of_them_is_written_in_the_singular() -> None:
    assert say("{:unacknowledged entries}", 1) == "1 unacknowledged entry"
    assert say("{:key hashes}, {:reads}", 11, 21) == "11 key hashes, 21 reads"


def test_of_an_age_the_length_is_known() -> None:
    assert values_in(say("for {}", Age(12_000, False))) == {"12 s"}


def test_what_is_put_together_knows_the_values_of_its_parts() -> None:
    part = say("it has {:permits}", 0)
    assert values_in(say("{}: {}", "a", part)) == {"a", "0", "0 permits"}
    assert joined("; ", (part, "", "it hangs")) == "it has 0 permits; it hangs"
    assert values_in(joined("; ", (part, "", "it hangs"))) == {"0", "0 permits", "it hangs"}
    assert values_in(listed(["a", "b", "c"], 2)) == {"a", "b", "1"}


def test_any_other_text_is_one_value_and_an_empty_one_is_none() -> None:
    assert (values_in("it has 12"), values_in(""), values_in(None)) == ({"it has 12"}, set(), set())


def test_a_sentence_goes_from_one_process_to_another() -> None:
    sentence = say("{:entries} wait", 7)
    other = pickle.loads(pickle.dumps(sentence))
    assert isinstance(other, Sentence)
    assert (other, other.values) == (sentence, sentence.values)
