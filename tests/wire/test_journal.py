from __future__ import annotations

import base64
import itertools
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_doctor.errors import TraceError
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.framing import Frame, code_of, varint
from pulsar_doctor.wire.journal import (
    EVENT,
    FILE_HEADER,
    KNOWN,
    MAGIC,
    NO_CONNECTION,
    UNKNOWN,
    VERSION,
    Block,
    Record,
    check_header,
    pack_block,
    pack_event,
    pack_json,
    read_blocks,
)
from pulsar_doctor.wire.masking import KNOWN_CODES, Mask
from pulsar_doctor.wire.redaction import RAW_BYTES_MOST, blanked, redact
from tests.made.frames import command_of, field

CANARY = "Canary-0123456789-secret"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.dGhlLXNpZ25hdHVyZQ"
MASK = Mask(b"salt")


def frame(command: bytes, metadata: bytes | None = None) -> Frame:
    payload = None if metadata is None else 40
    return Frame(code_of(command), command, metadata, 100, payload, 100)


def record_of(packed: bytes) -> Record:
    ((block, _),) = read_blocks(pack_block([packed], ts=1, mono_ns=2))
    return block.records[0]


def assert_not_in(packed: bytes, *secrets: str) -> None:
    for secret in secrets:
        raw = secret.encode()
        forms = [raw, raw.lower(), raw.upper(), raw[::-1], raw.hex().encode()]
        forms += [secret.encode("utf-16-le"), raw[:12], raw[-12:]]
        for shift in range(3):  # base64 begins anywhere in a longer text
            coded = base64.b64encode(bytes(shift) + raw)
            forms += [coded[4:-4], base64.urlsafe_b64encode(bytes(shift) + raw)[4:-4]]
        for form in forms:
            assert form not in packed, f"{form!r} is in the record"


SECRET_COMMANDS = {
    "CONNECT auth_data": command_of(2, field(1, "client") + field(3, CANARY)),
    "CONNECT original_auth_data": command_of(2, field(1, "client") + field(8, CANARY)),
    "CONNECT original_principal": command_of(2, field(1, "client") + field(7, CANARY)),
    "CONNECT client_version": command_of(2, field(1, f"token:{CANARY}")),
    "CONNECT proxy_version": command_of(2, field(1, "a") + field(11, f"password={CANARY}")),
    "CONNECT auth_method_name": command_of(2, field(1, "a") + field(5, f"Bearer {CANARY}")),
    "CONNECT no UTF-8": command_of(2, field(1, b"\xff token:" + CANARY.encode())),
    "CONNECT proxy_to_broker_url": command_of(2, field(1, "client") + field(6, f"u:{CANARY}@b:1")),
    "SUBSCRIBE metadata": command_of(
        4, field(1, "t") + field(2, "s") + field(10, field(1, "key") + field(2, CANARY))
    ),
    "SUBSCRIBE subscription_properties": command_of(
        4, field(1, "t") + field(17, field(1, CANARY) + field(2, "value"))
    ),
    "PRODUCER metadata": command_of(
        5, field(1, "t") + field(6, field(1, "key") + field(2, CANARY))
    ),
    "AUTH_RESPONSE": command_of(
        37, field(1, "client") + field(2, field(1, "token") + field(2, CANARY))
    ),
    "AUTH_CHALLENGE": command_of(36, field(2, field(2, CANARY))),
    "GET_SCHEMA_RESPONSE schema": command_of(35, b"\x08\x01" + field(4, field(1, CANARY))),
    "ACK properties": command_of(
        10, b"\x08\x01\x10\x00" + field(5, field(1, "k") + field(2, CANARY))
    ),
    "a command of the future": command_of(90, field(1, CANARY) + field(2, field(1, CANARY))),
    "a field of the future in BaseCommand": command_of(11, b"\x08\x01\x10\x05") + field(99, CANARY),
    "a known command that is broken": b"\x08\x0b\x5a\x7f" + CANARY.encode(),
    "a command without a type": field(2, field(3, CANARY)),
    "no protobuf at all": CANARY.encode(),
    "nested in a group": command_of(90, b"\x0b" + field(1, CANARY) + b"\x0c"),
    "an error in what is none": b"\x08\x12" + field(14, field(3, f"token={CANARY}")),
    "a version in what is no CONNECT": b"\x08\x12" + field(2, field(1, CANARY)),
    "a wrong type": b"\x08\x02" + field(4, field(1, "t") + field(10, CANARY)),
}


@pytest.mark.parametrize("command", SECRET_COMMANDS.values(), ids=SECRET_COMMANDS)
def test_no_secret_of_a_command_reaches_the_journal(command):
    packed = MASK.pack(frame(command))
    assert record_of(packed).frame_bytes == 100
    assert_not_in(packed, CANARY)


def test_what_may_be_kept_is_kept_beside_the_secrets():
    body = field(1, "my-client") + field(3, CANARY) + field(5, "token")
    connect = record_of(MASK.pack(frame(command_of(2, body)))).command
    assert connect.connect.client_version == "my-client"
    assert connect.connect.auth_method_name == "token"


@pytest.mark.parametrize(
    ("version", "kept"),
    [
        ("Pulsar-Java-v4.0.8", "Pulsar-Java-v4.0.8"),
        ("Pulsar-Java-v4.0.8-our billing", "Pulsar-Java-v4.0.8-our billing"),
        ("Pulsar Go 0.14.0", "Pulsar Go 0.14.0"),
        (f"token:{JWT}", "[redacted]"),
        (f"Pulsar-Java-v4.0.8-{JWT}", "Pulsar-Java-v4.0.8-[redacted]"),
        (f"app https://me:{CANARY}@host/", "app https://[redacted]@host/"),
    ],
)
def test_a_version_is_kept_without_what_looks_like_a_credential(version, kept):
    connect = record_of(MASK.pack(frame(command_of(2, field(1, version))))).command
    assert connect.connect.client_version == kept


SECRET_METADATA = {
    "producer_name": field(1, CANARY),
    "properties": field(4, field(1, "key") + field(2, CANARY)),
    "property key": field(4, field(1, CANARY) + field(2, "value")),
    "partition_key": field(6, CANARY),
    "encryption_keys": field(13, field(1, "k") + field(2, CANARY)),
    "encryption_param": field(15, CANARY),
    "schema_version": field(16, CANARY),
    "ordering_key": field(18, CANARY),
    "uuid": field(26, CANARY),
    "a field of the future": field(200, CANARY),
}


@pytest.mark.parametrize("code", [6, 9])
@pytest.mark.parametrize("secret", SECRET_METADATA.values(), ids=SECRET_METADATA)
def test_no_secret_of_a_message_reaches_the_journal(secret, code):
    metadata = secret + b"\x18" + varint(1_790_000_000_000) + b"\x58" + varint(3)
    packed = MASK.pack(frame(command_of(code, b"\x08\x01"), metadata))
    assert_not_in(packed, CANARY)
    kept = record_of(packed).metadata
    assert (kept.publish_time, kept.num_messages_in_batch) == (1_790_000_000_000, 3)


def test_metadata_without_any_field_is_metadata_all_the_same():
    read = record_of(MASK.pack(frame(command_of(9, b"\x08\x01"), b"")))
    assert (read.kind, read.metadata) == (KNOWN, wire.MessageMetadata())


def test_metadata_that_cannot_be_parsed_costs_the_record_its_content_only():
    read = record_of(MASK.pack(frame(command_of(9, b"\x08\x01"), CANARY.encode())))
    assert (read.kind, read.code, read.metadata) == (UNKNOWN, 9, None)
    assert_not_in(read.command, CANARY)


ERROR_TEXTS = [
    f"Failed to authenticate: token {JWT} has expired",
    f"Failed: {JWT}",
    f"Failed: {JWT.rpartition('.')[0]}.",
    f"authorization: Bearer {CANARY}",
    f'{{"password": "{CANARY}"}}',
    f"password={CANARY}&x=1",
    f"secret : {CANARY}",
    f"Basic {CANARY}",
    f"cannot reach https://user:{CANARY}@proxy.example/x",
    "x" * 190 + f" token={CANARY}",
    *(
        f"cannot bind: user=joe,{name}{sign}{CANARY}; see the log"
        for name in ("pwd", "PWD", "db_pwd", "pass", "passwd", "passphrase", "pswd", "pw", "jwt")
        for sign in ("=", ": ", '": "')
    ),
    f"the pwd {CANARY} is wrong",
    f"sasl passphrase {CANARY}",
    f"https://store/x?sig={CANARY}&X-Amz-Signature={CANARY}",
    f"Cookie: {CANARY}",
    f"authParams={CANARY}",
]


@pytest.mark.parametrize("text", ERROR_TEXTS)
@pytest.mark.parametrize(("code", "number"), [(8, 4), (14, 3), (22, 5), (24, 7), (38, 5)], ids=str)
def test_no_credential_in_an_error_reaches_the_journal(code, number, text):
    packed = MASK.pack(frame(command_of(code, b"\x08\x01" + field(number, text))))
    assert record_of(packed).kind == KNOWN
    assert_not_in(packed, CANARY, *JWT.split(".")[:2])


def test_an_error_without_a_credential_stays_readable_one_line_and_short():
    assert redact("Topic  not\nfound: persistent://a/b/c") == "Topic not found: persistent://a/b/c"
    for text in (
        "the token expired",
        "did not pass validation",
        "not authorized to consume",
        "authentication required: none was given",
        "passive consumer: no messages",
        "the design: x",
        "invalid ping interval: 3",
        "Topic key not found",
        "session expired",
    ):
        assert redact(text) == text
    assert len(redact("x " * 500)) == 200


@pytest.mark.parametrize(
    "text",
    [
        "bad pwd=hunter2 for x", "passwd: hunter2", "psw=hunter2", "pswrd=hunter2",
        "pwd%3Dhunter2&a=b", "pwd is hunter2", "the password was: hunter2", "pass word = hunter2",
        "pass-phrase=hunter2", "Passwort: hunter2", '{"pwd": "hunter2"}', "PIN=hunter2",
        "otp: hunter2", "sas=hunter2", "JSESSIONID=hunter2", "session: hunter2", "PWD hunter2",
        "apikey=hunter2", "access_key: hunter2", "X-Amz-Signature=hunter2", "a=b&pwd=hunter2&c=d",
        "postgres://me:hunter2@db/x", "pwd\t=\thunter2",
    ],
)  # fmt: skip
def test_whatever_it_is_called_a_password_in_an_error_is_taken_out(text: str) -> None:
    assert "hunter2" not in redact(text)
    assert "[redacted]" in redact(text)


def test_the_same_key_has_the_same_hash_and_another_salt_another():
    def key_hash(mask: Mask, key: str, extra: bytes = b"") -> int:
        packed = mask.pack(frame(command_of(9, b"\x08\x01"), field(6, key) + extra))
        return record_of(packed).metadata.key_hash

    other = Mask(b"another")
    assert key_hash(MASK, "k") == key_hash(Mask(b"salt"), "k")
    assert key_hash(MASK, "k") != key_hash(MASK, "l")
    assert key_hash(MASK, "k") != key_hash(other, "k")
    forged = varint(536870911 << 3 | 1) + b"12345678"  # our own field, sent by somebody else
    assert key_hash(MASK, "k", forged) == key_hash(MASK, "k")
    packed = MASK.pack(frame(command_of(9, b"\x08\x01"), b"\x18\x01" + forged))
    assert not record_of(packed).metadata.HasField("key_hash")


commands = st.builds(
    lambda code, body, behind: b"\x08" + varint(code) + field(max(code, 1), body) + behind,
    st.sampled_from([*sorted(KNOWN_CODES), 90, 300]),
    st.binary(max_size=40),
    st.binary(max_size=20),
)


@given(commands | st.binary(max_size=80), st.none() | st.binary(max_size=60))
@settings(max_examples=150, deadline=None)
def test_packing_never_raises_and_its_record_can_always_be_read(command, metadata):
    sent = frame(command, metadata)
    read = record_of(MASK.pack(sent))
    assert (read.code, read.frame_bytes) == (sent.code, sent.frame_bytes)
    assert read.payload_bytes == sent.payload_bytes
    assert read.kind in (KNOWN, UNKNOWN)


@given(st.binary(max_size=120))
@settings(max_examples=150, deadline=None)
def test_blanking_keeps_the_length_and_nothing_of_the_values(values):
    command = command_of(90, field(1, values))
    shape = command_of(90, field(1, bytes(len(values))))
    assert blanked(command) == blanked(shape)
    assert len(blanked(command)) == len(command)


def test_an_unknown_command_that_is_too_long_or_no_protobuf_leaves_no_shape():
    assert blanked(command_of(90, bytes(RAW_BYTES_MOST))) == b""
    assert blanked(b"\xff" * 30) == b""


def test_a_field_number_that_cannot_be_is_no_way_to_leave_text_behind():
    nested = bytes(byte | 0x80 for byte in b"password") + b"\x01\x00"
    kept = command_of(90, bytes(len(nested)))
    assert blanked(command_of(90, nested)) == b"\x08\x00" + kept[2:]


def test_a_length_that_lies_takes_no_memory():
    tracemalloc.start()
    try:
        assert len(blanked(command_of(90, bytes.fromhex("0a ffffff7f")))) == 10
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_bytes_that_are_no_command_leave_nothing_though_they_read_like_protobuf():
    assert record_of(MASK.pack(frame(b"0a0b0c"))).command == b""


# Blocks and files.

RECORDS = [
    MASK.pack(frame(command_of(11, b"\x08\x01\x10\x05"))),
    MASK.pack(frame(command_of(9, b"\x08\x01"), b"\x18\x05")),
    MASK.pack(frame(command_of(90, b"\x08\x01"))),
    pack_event("OPEN", client_addr="127.0.0.1:1"),
]
BLOCKS = [
    pack_block(RECORDS, ts=1_790_000_000_000_000, mono_ns=7, conn_id=3, direction=1),
    pack_block([], ts=1_790_000_000_000_001, mono_ns=8),
    pack_block(RECORDS[:1], ts=1_790_000_000_000_002, mono_ns=9, conn_id=2**31 - 1),
]
FILE = FILE_HEADER + b"".join(BLOCKS)


def blocks_in(data: bytes) -> list[Block]:
    return [block for block, _ in read_blocks(data, len(FILE_HEADER))]


def test_what_is_packed_is_read_again():
    first, beat, last = blocks_in(FILE)
    assert first[:4] == (1_790_000_000_000_000, 7, 3, 1)
    assert [record.kind for record in first.records] == [KNOWN, KNOWN, UNKNOWN, EVENT]
    metadata = wire.MessageMetadata(publish_time=5)
    assert [record.metadata for record in first.records] == [None, metadata, None, None]
    assert [record.payload_bytes for record in first.records] == [None, 40, None, None]
    assert beat == (1_790_000_000_000_001, 8, NO_CONNECTION, 0, ())
    assert (last.conn_id, last.records) == (2**31 - 1, first.records[:1])


def test_an_event_that_is_json_already_is_the_same_record():
    body = b'{"command":"TAKEN","consumer_name":"c"}'
    assert pack_json(body) == pack_event("TAKEN", consumer_name="c")


def test_any_cut_of_a_journal_leaves_its_whole_blocks():
    ends = list(itertools.accumulate((len(block) for block in BLOCKS), initial=len(FILE_HEADER)))
    whole = blocks_in(FILE)
    for size in range(len(FILE_HEADER), len(FILE) + 1):
        count = sum(end <= size for end in ends[1:])
        assert blocks_in(FILE[:size]) == whole[:count]
        read = [end for _, end in read_blocks(FILE[:size], len(FILE_HEADER))]
        assert read == ends[1 : count + 1]


def test_every_flipped_bit_is_found():
    # Where it is the length of a block, that block may have no end.
    whole = blocks_in(FILE)
    for at in range(len(FILE_HEADER), len(FILE)):
        for bit in range(8):
            damaged = bytearray(FILE)
            damaged[at] ^= 1 << bit
            read = []
            try:
                for block, _ in read_blocks(bytes(damaged), len(FILE_HEADER)):
                    read.append(block)
                assert len(read) < len(whole), f"bit {bit} of byte {at} went unnoticed"
            except TraceError as error:
                assert "checksum" in str(error)  # noqa: PT017
            assert read == whole[: len(read)]


def test_a_header_that_is_not_all_there_yet_is_no_error():
    for size in range(len(FILE_HEADER)):
        assert not check_header(FILE_HEADER[:size])
    assert check_header(FILE)


@pytest.mark.parametrize("data", [b"PAR1" + bytes(20), b"P0", b"\0" * 8, b'{"a": 1}'])
def test_a_foreign_file_is_refused(data):
    with pytest.raises(TraceError, match="no journal of pulsar-doctor"):
        check_header(data)


def test_a_journal_of_a_newer_program_is_refused():
    with pytest.raises(TraceError, match=f"version {VERSION + 1}, this program reads {VERSION}"):
        check_header(MAGIC + (VERSION + 1).to_bytes(2, "little") + b"whatever")
