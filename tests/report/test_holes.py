"""Holes on the terminal and in JSON: the drawing's cells, words where a number is not told."""

from __future__ import annotations

import io
import itertools
import json
import random
from dataclasses import replace

import pytest

from pulsar_doctor.checkup.holes.account import CursorAccount
from pulsar_doctor.checkup.holes.bounds import Bounds
from pulsar_doctor.checkup.holes.found import Acknowledged
from pulsar_doctor.checkup.holes.origins import Origin
from pulsar_doctor.checkup.holes.shape import Shape
from pulsar_doctor.checkup.result import Cluster
from pulsar_doctor.evidence.account import Account, Place
from pulsar_doctor.evidence.values import exactly
from pulsar_doctor.ledger.acks.biographies import Biography
from pulsar_doctor.ledger.acks.persisting import RedeliveryForecast, Storing
from pulsar_doctor.ledger.acks.ranges import gaps
from pulsar_doctor.report.charts import ASCII, UNICODE
from pulsar_doctor.report.holes import document as holes_document
from pulsar_doctor.report.holes import table as holes
from pulsar_doctor.report.holes.axis import axis
from pulsar_doctor.wording.consoles import GatedConsole

TOPIC = "persistent://public/default/t"
HELD = Account(exactly(13), (Place("held", exactly(13), None, "w", exactly(13)),), ())
DELAYED = Account(exactly(11), (Place("delayed", exactly(11)),), ())
BOTH = Account(exactly(11), (*HELD.places, *DELAYED.places), ())
UNTOLD = Account(exactly(11), (Place("delayed", None), *HELD.places), ())


def shape(acknowledged: list[tuple[int, int]], read: int, length: int) -> Shape:
    holes = gaps(acknowledged)
    oldest = ((7, 10 + holes[0][0]), (7, 9 + holes[0][1])) if holes else None
    return Shape(acknowledged, holes, read, length, (7, 10), (7, 9 + length), oldest)


def told(of: Shape | None, **fields: object) -> CursorAccount:
    account = CursorAccount(
        topic=TOPIC, partition=None, subscription="s", type="Shared", durable=True, backlog=13,
        mark_delete=(7, 9), read_position=(7, 50), ranges=3, acknowledged_entries=27, shape=of,
        messages=HELD,
        storing=Storing((4, 0), 10_000, 1000, bit_arrays=False), record_bytes=42,
        record_known=True, forecast=RedeliveryForecast(0, 0), stood=None, pinned=None, origins=(),
    )  # fmt: skip
    return replace(account, **fields)  # type: ignore[arg-type]


def lines(account: CursorAccount, width: int = 40, *, utf: bool = True) -> list[str]:
    return [line.plain for line in axis(account, width, UNICODE if utf else ASCII)]


def test_where_there_is_room_a_sign_is_an_entry() -> None:
    blocks, letters, ends, legend = lines(told(shape([(1, 10), (11, 20), (21, 30)], 35, 40)))
    assert blocks == "·█████████·█████████·█████████··········"
    assert letters == "U         U         U         uuuuu....."
    assert (ends[:4], ends[-4:], len(ends)) == ("7:10", "7:49", 40)
    assert legend.startswith("a sign is 1 entry; ")


def test_what_is_in_a_hole_and_what_lies_behind_are_two_letters() -> None:
    legend = lines(told(shape([(1, 10)], 20, 30)))[-1]
    assert "U in a hole" in legend
    assert "u behind the last range" in legend
    assert ". not sent yet" in legend
    assert "delayed" not in legend


def test_where_all_that_was_read_is_delayed_it_says_so() -> None:
    delayed = told(shape([(1, 10)], 20, 30), messages=DELAYED)
    assert lines(delayed)[1][0] == "D"
    either = told(shape([(1, 10)], 20, 30), messages=BOTH)
    assert lines(either)[1][0] == "O"
    assert "which is not reported" in lines(either)[-1]
    untold = told(shape([(1, 10)], 20, 30), messages=UNTOLD)
    assert lines(untold)[1][0] == "O"


def test_holes_that_were_not_read_again_are_not_said_to_be_sent() -> None:
    assert lines(told(shape([(1, 10), (15, 30)], 1, 40)))[1][:16] == "U         ..... "


def test_many_entries_share_a_sign() -> None:
    every_second = [(2 * n + 1, 2 * n + 2) for n in range(50_000)]
    blocks, letters, _, legend = lines(told(shape(every_second, 100_000, 100_000)))
    assert blocks == "▄" * 40
    assert letters == "U" * 40
    assert "about 2,500 entries" in legend


def test_full_and_empty_are_only_drawn_where_they_are() -> None:
    nearly = lines(told(shape([(1, 100_000)], 100_000, 100_000)))[0]
    assert (nearly[0], set(nearly[1:])) == ("▇", {"█"})
    hardly = lines(told(shape([(99_999, 100_000)], 100_000, 100_000)))[0]
    assert (hardly[-1], set(hardly[:-1])) == ("▁", {"·"})


def test_it_can_be_drawn_without_unicode() -> None:
    drawn = "\n".join(lines(told(shape([(1, 10), (13, 30)], 35, 40)), utf=False))
    assert drawn.isascii()


@pytest.mark.parametrize("seed", range(20))
def test_every_sign_is_one_of_the_entries_that_it_stands_for(seed: int) -> None:
    rng = random.Random(seed)
    spans, at = [], 0
    for _ in range(rng.randint(1, 60)):
        begin = at + rng.randint(1, 9)
        at = begin + rng.randint(1, 9)
        spans.append((begin, at))
    length, width = at + rng.randint(0, 50), rng.randint(20, 90)
    blocks, letters, *_ = lines(told(shape(spans, rng.randint(0, length), length)), width)
    cells = min(width, length)
    assert len(blocks) == len(letters) == cells
    for cell in range(cells):
        held = range(cell * length // cells, (cell + 1) * length // cells)
        acknowledged = sum(any(a <= entry < b for a, b in spans) for entry in held)
        assert (blocks[cell] == "·") == (acknowledged == 0)
        assert (blocks[cell] == "█") == (acknowledged == len(held)) == (letters[cell] == " ")


def test_without_holes_nothing_is_drawn() -> None:
    assert lines(told(shape([], 35, 40))) == []
    assert lines(told(None)) == []


def written(*accounts: CursorAccount) -> str:
    out = io.StringIO()
    holes.write(Acknowledged("files", list(accounts)), out)
    return out.getvalue()


def test_in_a_pipe_the_letters_are_below_their_signs() -> None:
    drawn = written(told(shape([(1, 150), (160, 180)], 190, 200))).splitlines()
    blocks, letters = next(
        pair for pair in itertools.pairwise(drawn) if set(pair[1]) & {"U"} and "█" in pair[0]
    )
    assert len(blocks) == len(letters) <= 100


def test_what_is_not_told_is_said_and_never_0() -> None:
    nothing = told(
        None, mark_delete=None, ranges=None, acknowledged_entries=None, forecast=None,
        record_bytes=None, messages=Account(None, (Place("held", None),), ()), storing=Storing(),
        unknowns=("positions and ledgers: there are no internal stats",),
    )  # fmt: skip
    said = written(nothing)
    assert said.startswith("? UNKNOWN")
    assert "acknowledged        not reported" in said
    assert "the backlog is not reported" in said
    assert "not reported: held" in said
    assert "of 10,000 ranges (assumed: not reported)" in said
    assert " 0 " not in said


def test_a_forecast_is_a_number_or_its_bounds() -> None:
    of = shape([(1, 10)], 20, 30)
    assert "1 acknowledged entry is delivered again" in written(
        told(of, forecast=RedeliveryForecast(1, 1))
    )
    assert "4,681 acknowledged entries are" in written(
        told(of, forecast=RedeliveryForecast(4681, 4681))
    )
    between = " ".join(written(told(of, forecast=RedeliveryForecast(0, 12))).split())
    assert "between 0 and 12 acknowledged entries are delivered again" in between


def test_it_shows_where_all_messages_are() -> None:
    said = " ".join(written(told(shape([(1, 10)], 20, 30))).split())
    assert "account 13 entries in the backlog held by w: 13 messages, last moved" in said


def test_names_of_others_cannot_write_to_the_terminal() -> None:
    assert "\x1b" not in written(told(shape([(1, 10)], 20, 30), subscription="a\x1b[31mb"))


def test_the_worst_comes_first_and_the_others_are_counted() -> None:
    of = shape([(1, 10)], 20, 30)
    said = written(
        told(of, subscription="fine", ranges=0),
        told(of, subscription="few", ranges=9),
        told(of, subscription="many", ranges=12_000, forecast=RedeliveryForecast(9, 9)),
    )
    assert said.index("many on") < said.index("few on")
    assert "1 other subscription without holes" in said


def test_the_first_line_names_the_cluster_that_was_read() -> None:
    out = io.StringIO()
    found = Acknowledged("broker", cluster=Cluster("eu-1", "http://b:8080", "4.0.8", "prod"))
    holes.write(found, out)
    assert out.getvalue().startswith("context prod, eu-1 at http://b:8080, Pulsar 4.0.8\n")


def test_without_holes_it_speaks_of_holes_only_and_not_of_health() -> None:
    said = " ".join(written(told(None, ranges=0)).split())
    assert (
        "no holes (mark-delete 7:9), backlog 13 is it stalled? pulsar-doctor stall-check " in said
    )
    assert said.endswith(f"pulsar-doctor stall-check {TOPIC} -s s")
    for claim in ("HEALTHY", "nothing is wrong"):
        assert claim not in said
        assert claim not in written(told(shape([(1, 10)], 20, 30)))


def test_a_wrong_counter_is_told_with_its_remedy_and_its_side_effect() -> None:
    wrong = told(None, ranges=0, backlog=0, backlog_by_positions=3, backlog_wrong=True)
    said = " ".join(written(wrong).split())
    assert said.startswith("▲ WARNING")
    assert "counter says 0, which is wrong, by the positions it is 3" in said
    assert f"pulsar-admin topics unload {TOPIC}" in said
    assert "all clients of the topic reconnect" in said
    assert "backlog  " not in written(told(shape([(1, 10)], 20, 30)))


def test_holes_in_ledgers_that_are_not_told_have_bounds() -> None:
    said = " ".join(
        written(told(None, bounds=Bounds(holes=(3, 5), hole_entries=(42, None)))).split()
    )
    assert "between 3 and 5 holes with 42 entries at least" in said
    assert "the oldest begins behind mark-delete" in said
    one = " ".join(written(told(None, bounds=Bounds(holes=(1, 1), hole_entries=(2, None)))).split())
    assert "holes 1 hole with 2 entries at least" in one


def test_the_document_has_its_keys_and_null_where_not_told() -> None:
    origin = Origin("unacked", 3, 3, "numbers")
    life = Biography(7, 10, 1_000_000, "slow", 2, 2_000_000, "quick", None, None, 1)
    out = io.StringIO()
    accounts = [
        told(shape([(1, 10)], 20, 30), origins=(origin,), forecast=RedeliveryForecast(3, 9)),
        told(None, partition=2, ranges=None, forecast=None, record_bytes=None),
    ]
    lives = {(TOPIC, "s"): [life]}
    found = Acknowledged("trace", accounts, not_loaded=["t2"], biographies=lives)
    holes_document.write(found, out)
    document = json.loads(out.getvalue())
    first, second = document["subscriptions"]
    assert (document["schema"], document["not_loaded"]) == ("pulsar-doctor/holes/1", ["t2"])
    assert (first["mark_delete"], first["holes"], first["hole_entries"]) == ("7:9", 1, 1)
    assert (first["origin"], first["origins"][0]["entries_most"]) == ("unacked", 3)
    assert first["redelivered_at_load"] is None
    assert (first["redelivered_at_load_least"], first["redelivered_at_load_most"]) == (3, 9)
    assert first["biographies"][0]["first_delivered"] == "1970-01-01T00:00:01.000000Z"
    assert first["biographies"][0]["acknowledged"] is None
    assert (second["ranges"], second["holes"], second["origin"]) == (None, None, None)
    assert second["redelivered_at_load"] is second["record_bytes"] is None
    assert (second["partition"], second["biographies"]) == (2, [])


def test_biographies_are_a_table_of_the_oldest() -> None:
    from pulsar_doctor.report.holes.lives import print_lives

    out = io.StringIO()
    lives = [
        Biography(7, n, 1_000_000, "slow", 2, 2_000_000, "quick", None, None, 1) for n in range(25)
    ]
    print_lives(GatedConsole(file=out, width=120), lives)
    said = out.getvalue()
    assert "7:19" in said
    assert "7:20" not in said
    assert "and 5 more" in said
