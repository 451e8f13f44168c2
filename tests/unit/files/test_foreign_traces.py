"""Chakra traces that another encoder wrote, by the public schema: protobuf's own, and bytes written by hand."""

from __future__ import annotations

import io
from importlib import import_module
from typing import Any

import pytest

from dovetail.comm.trace.nodes import TraceNode
from dovetail.files.chakra import encoded, read_rank

# et_def.proto 0.0.4 of mlcommons/chakra: name, number, type (of protobuf's FieldDescriptorProto), is repeated.
INT32, INT64, UINT64, SINT64, BOOL, TEXT, MESSAGE, ENUM, DOUBLE, FIXED64 = 5, 3, 4, 18, 8, 9, 11, 14, 1, 6
SCHEMA: dict[str, list[tuple[str, int, int, bool, str]]] = {
    "BoolList": [("values", 1, BOOL, True, "")],
    "AttributeProto": [
        ("name", 1, TEXT, False, ""),
        ("doc_string", 2, TEXT, False, ""),
        ("double_val", 3, DOUBLE, False, ""),
        ("int32_val", 7, INT32, False, ""),
        ("int64_val", 9, INT64, False, ""),
        ("uint64_val", 13, UINT64, False, ""),
        ("sint64_val", 17, SINT64, False, ""),
        ("fixed64_val", 21, FIXED64, False, ""),
        ("bool_val", 27, BOOL, False, ""),
        ("bool_list", 28, MESSAGE, False, "BoolList"),
        ("string_val", 29, TEXT, False, ""),
    ],
    "GlobalMetadata": [("version", 1, TEXT, False, ""), ("attr", 2, MESSAGE, True, "AttributeProto")],
    "IOInfo": [("values", 1, TEXT, False, ""), ("shapes", 2, TEXT, False, ""), ("types", 3, TEXT, False, "")],
    "Node": [
        ("id", 1, UINT64, False, ""),
        ("name", 2, TEXT, False, ""),
        ("type", 3, INT32, False, ""),
        ("ctrl_deps", 4, UINT64, True, ""),
        ("data_deps", 5, UINT64, True, ""),
        ("start_time_micros", 6, UINT64, False, ""),
        ("duration_micros", 7, UINT64, False, ""),
        ("inputs", 8, MESSAGE, False, "IOInfo"),
        ("outputs", 9, MESSAGE, False, "IOInfo"),
        ("attr", 10, MESSAGE, True, "AttributeProto"),
        ("of_a_later_version", 99, TEXT, False, ""),
    ],
}
COMPUTE, SEND, COLLECTIVE = 4, 5, 7
REDUCE_SCATTER = 7


@pytest.fixture(scope="module")
def chakra() -> dict[str, Any]:
    """Classes of the schema, made by protobuf itself; repeated numbers are packed, as proto3 has them."""
    descriptor: Any = import_module("google.protobuf.descriptor_pb2")
    pool: Any = import_module("google.protobuf.descriptor_pool").DescriptorPool()
    factory: Any = import_module("google.protobuf.message_factory")
    file = descriptor.FileDescriptorProto(name="et_def.proto", package="ChakraProtoMsg", syntax="proto3")
    for message, rows in SCHEMA.items():
        made = file.message_type.add(name=message)
        for name, number, kind, is_repeated, of in rows:
            label = 3 if is_repeated else 1
            field = made.field.add(name=name, number=number, type=kind, label=label)
            if of:
                field.type_name = f".ChakraProtoMsg.{of}"
    pool.Add(file)
    return {name: factory.GetMessageClass(pool.FindMessageTypeByName(f"ChakraProtoMsg.{name}")) for name in SCHEMA}


def written(messages):
    """Length-delimited, as protobuf's own writer does it."""
    out = io.BytesIO()
    serialize = import_module("google.protobuf.proto").serialize_length_prefixed
    for message in messages:
        serialize(message, out)
    return out.getvalue()


def read(data):
    return read_rank(io.BytesIO(data), "some.0.et", 0)


def test_a_trace_that_protobuf_wrote_is_read(chakra):
    attribute = chakra["AttributeProto"]
    work = chakra["Node"](
        id=7, name="gemm", type=COMPUTE, duration_micros=250, start_time_micros=3,
        inputs=chakra["IOInfo"](values="[1]", shapes="[[2]]"), of_a_later_version="something",
        attr=[
            attribute(name="num_ops", int64_val=12), attribute(name="tensor_size", uint64_val=2**40),
            attribute(name="is_cpu_op", bool_val=False), attribute(name="rf_id", int64_val=4),
        ],
    )  # fmt: skip
    reduce = chakra["Node"](
        id=9, name="rs", type=COLLECTIVE, ctrl_deps=[7], data_deps=[7, 8, 300],
        attr=[
            attribute(name="comm_type", int64_val=REDUCE_SCATTER, doc_string="which"),
            attribute(name="comm_size", double_val=4096.0),
            attribute(name="involved_dim", bool_list=chakra["BoolList"](values=[True, False])),
        ],
    )  # fmt: skip
    send = chakra["Node"](
        id=8, name="s", type=SEND,
        attr=[
            attribute(name="comm_size", sint64_val=64), attribute(name="comm_dst", int32_val=3),
            attribute(name="comm_tag", fixed64_val=5), attribute(name="pg_name", string_val="tp"),
        ],
    )  # fmt: skip
    last = chakra["Node"](id=300, name="end", type=COMPUTE, duration_micros=1)
    head = chakra["GlobalMetadata"](version="0.0.4", attr=[attribute(name="schema", string_val="1.1.1")])
    assert read(written([head, work, send, last, reduce])) == (
        TraceNode(id=7, name="gemm", duration_s=250e-6, num_ops=12, tensor_bytes=2**40),
        TraceNode(id=8, name="s", kind="send", size_bytes=64, target=3, tag=5, group="tp"),
        TraceNode(id=300, name="end", duration_s=1e-6),
        TraceNode(
            id=9, name="rs", kind="collective", collective="reduce-scatter", size_bytes=4096, after=(7, 8, 300),
            involved=(True, False),
        ),
    )  # fmt: skip


def test_what_we_write_protobuf_reads(chakra):
    nodes = (
        TraceNode(id=0, name="gemm", duration_s=250e-6),
        TraceNode(id=1, name="ag", kind="collective", collective="all-gather", size_bytes=2**33, after=(0,)),
    )
    stream = io.BytesIO(encoded(nodes))
    parse = import_module("google.protobuf.proto").parse_length_prefixed
    assert parse(chakra["GlobalMetadata"], stream).version == "0.0.4"
    work, gather = parse(chakra["Node"], stream), parse(chakra["Node"], stream)
    assert (work.id, work.name, work.type, work.duration_micros) == (0, "gemm", COMPUTE, 250)
    assert list(gather.data_deps) == [0]
    said = {one.name: one for one in gather.attr}
    assert said["comm_type"].int64_val == 2
    assert said["comm_size"].int64_val == 2**33
    assert not stream.read()


def message(digits):
    body = bytes.fromhex(digits)
    return bytes([len(body)]) + body


def test_bytes_written_by_hand_in_an_odd_order_are_read():
    head = message("0a05 302e302e34")  # version (1) "0.0.4"
    first = message(
        "38 fa01"  # duration_micros (7): 250
        "9a06 03 786279"  # field 99, text: unknown
        "18 04"  # type (3): compute
        "12 01 61"  # name (2): a
        "08 ac02"  # id (1): 300, after all else
    )
    second = message(
        "2a 02 ac02"  # data_deps (5), packed: 300
        "28 ac02"  # data_deps once more, not packed
        "20 ac02"  # ctrl_deps (4), not packed
        "52 0d 4807 0a09 636f6d6d5f74797065"  # attr (10): value before name; int64 7, comm_type
        "52 0e 0a09 636f6d6d5f73697a65 6880 20"  # attr: comm_size, uint64 (13) 4096
        "18 07"  # type: collective
        "08 01"  # id: 1
        "08 02"  # id once more: the last counts
    )
    found = read(head + first + second)
    assert found == (
        TraceNode(id=300, name="a", duration_s=250e-6),
        TraceNode(id=2, kind="collective", collective="reduce-scatter", size_bytes=4096, after=(300,)),
    )
