"""Chakra traces, both ways, and what is wrong with broken ones."""

from __future__ import annotations

import io

import pytest

from dovetail.comm.trace.nodes import TraceNode
from dovetail.errors import DovetailError, InvalidInput, NotModelled
from dovetail.files.chakra import MAX_MESSAGE_BYTES, MAX_NAME, encoded, read_rank
from dovetail.files.protobuf import bytes_field, delimited, encoded_varint, number_field

HEAD = delimited(bytes_field(1, b"0.0.4"))
NODES = (
    TraceNode(id=0, name="begin", kind="metadata"),
    TraceNode(id=3, name="gemm", duration_s=250e-6, after=(0,), num_ops=7, tensor_bytes=9),
    TraceNode(id=4, name="call", duration_s=5e-6, is_cpu=True),
    TraceNode(id=5, name="ar", kind="collective", collective="all-reduce", size_bytes=2**40, after=(3, 4),
              involved=(True, False)),
    TraceNode(id=6, kind="collective", collective="barrier", group="tp"),
    TraceNode(id=2**40, name="s", kind="send", size_bytes=64, source=0, target=7, tag=3, after=(5,)),
    TraceNode(id=8, name="r", kind="receive", size_bytes=64, source=7, target=0, tag=3),
    TraceNode(id=9, kind="load", tensor_bytes=12, duration_s=1e-6),
)  # fmt: skip


def read(data, rank=3):
    return read_rank(io.BytesIO(data), "some.3.et", rank)


def node(*parts, kind=4, id_=1):
    return delimited(number_field(1, id_) + number_field(3, kind) + b"".join(parts))


def attribute(name, value):
    return bytes_field(10, bytes_field(1, name.encode()) + value)


def test_what_is_written_is_read_back():
    assert read(encoded(NODES)) == NODES


def test_dependencies_may_be_packed_or_not_and_of_both_kinds():
    packed = bytes_field(5, bytes([1, 2])) + number_field(4, 3) + number_field(5, 1)
    data = HEAD + b"".join(node(id_=i) for i in (1, 2, 3)) + node(packed, id_=4)
    assert read(data)[3].after == (1, 2, 3)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (number_field(7, 5), 5),
        (number_field(9, 5), 5),
        (number_field(11, 5), 5),
        (number_field(13, 5), 5),
        (number_field(17, 10), 5),
        (encoded_varint(21 << 3 | 1) + (5).to_bytes(8, "little"), 5),
        (encoded_varint(19 << 3 | 5) + (5).to_bytes(4, "little"), 5),
    ],
)
def test_a_number_may_be_written_in_any_of_its_types(value, size):
    [found] = read(HEAD + node(attribute("tensor_size", value)))
    assert found.tensor_bytes == size


def test_what_we_do_not_use_is_left_out():
    extra = bytes_field(8, bytes_field(1, b"[1, 2]")) + number_field(6, 99) + attribute("tid", number_field(9, 4))
    [found] = read(HEAD + node(extra))
    assert found == TraceNode(id=1)


BROKEN = {
    "nothing": (b"", "no node"),
    "no node": (HEAD, "no node"),
    "a cut length": (HEAD + b"\x80", "ends inside the length"),
    "a cut message": (HEAD + node()[:-1], "ends inside a message"),
    "a huge length": (HEAD + encoded_varint(2**62), "the most is"),
    "an endless length": (HEAD + b"\xff" * 20, "more than 64 bits"),
    "a field longer than its message": (HEAD + delimited(b"\x12\x7fabc"), "3 are left"),
    "a group": (HEAD + delimited(b"\x0b"), "wire type 3"),
    "field 0": (HEAD + delimited(b"\x00\x01"), "number 0"),
    "a name that is no text": (HEAD + node(bytes_field(2, b"\xff\xfe")), "not UTF-8"),
    "an unknown type": (HEAD + node(kind=0), "type is 1 to 7"),
    "another file": (b"\x89PNG\r\n\x1a\n" * 40, "Chakra"),
    "text": (b"HYBRID_TRANSFORMER\n2\n" * 9, "Chakra"),
    "an id twice": (HEAD + node() + node(), "given twice"),
    "a dependency that is not there": (HEAD + node(number_field(5, 77)), "depends on node 77"),
    "itself": (HEAD + node(number_field(5, 1)), "1 -> 1"),
    "a cycle": (HEAD + node(number_field(5, 2)) + node(number_field(5, 1), id_=2), "wait for each other"),
    "a collective of no type": (HEAD + node(kind=7), "comm_type"),
    "an unknown collective": (HEAD + node(attribute("comm_type", number_field(9, 33)), kind=7), "0 to 9"),
    "a negative size": (HEAD + node(attribute("comm_size", number_field(9, -5))), "size_bytes must be"),
    "a size in words": (HEAD + node(attribute("comm_size", bytes_field(29, b"big"))), "whole number"),
    "a time beyond time": (HEAD + node(number_field(7, 2**64 - 1)), "below 2^63"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_trace_is_refused_with_file_rank_and_node(case):
    data, words = BROKEN[case]
    with pytest.raises(InvalidInput) as caught:
        read(data)
    told = str(caught.value)
    assert words in told
    assert "some.3.et: rank 3" in told
    assert "\n" not in told
    assert words == "no node" or "node" in told


def test_a_kernel_without_a_time_is_not_free():
    with pytest.raises(NotModelled, match="duration_micros"):
        read(HEAD + node(attribute("num_ops", number_field(9, 5))))


def test_every_way_to_cut_a_file_short_is_an_error_or_fewer_nodes():
    data = encoded(NODES[:4])
    for end in range(len(data)):
        found, told = (), "rank 3"
        try:
            found = read(data[:end])
        except DovetailError as error:
            told = str(error)
        assert "rank 3" in told
        assert found == NODES[: len(found)]


def test_a_message_has_a_most_and_so_has_a_name():
    spare = MAX_MESSAGE_BYTES - len(number_field(1, 1) + number_field(3, 4)) - 4
    assert read(HEAD + node(bytes_field(99, b"x" * (spare - 1)))) == (TraceNode(id=1),)
    with pytest.raises(InvalidInput, match="the most is"):
        read(HEAD + node(bytes_field(99, b"x" * (spare + 9))))
    with pytest.raises(InvalidInput, match="a name has at most"):
        read(HEAD + node(bytes_field(2, b"x" * (MAX_NAME + 1))))
