"""Whatever the bytes, a trace is read or refused in one line; what is written is read back."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from dovetail.comm.trace.nodes import COLLECTIVES, KINDS, TraceNode
from dovetail.errors import DovetailError
from dovetail.files.chakra import encoded, read_rank
from dovetail.units import MEGA

SIZES = st.integers(0, 2**63 - 1)
NAMES = st.text(st.characters(codec="utf-8").filter(str.isprintable), max_size=12)


@st.composite
def traces(draw):
    ids = draw(st.lists(st.integers(0, 2**63 - 1), unique=True, min_size=1, max_size=8))
    return tuple(_node(draw, number, ids) for number in range(len(ids)))


def _node(draw, number, ids):
    kind = draw(st.sampled_from(KINDS))
    after = draw(st.lists(st.sampled_from(ids[:number]), unique=True)) if number else []
    return TraceNode(
        id=ids[number],
        name=draw(NAMES),
        kind=kind,
        after=tuple(after),
        duration_s=draw(st.integers(1, 10**9)) / MEGA,
        is_cpu=draw(st.booleans()),
        collective=draw(st.sampled_from(COLLECTIVES)) if kind == "collective" else "",
        size_bytes=draw(SIZES),
        source=draw(SIZES),
        target=draw(SIZES),
        tag=draw(st.integers(-(2**63), 2**63 - 1)),
        group=draw(NAMES),
        involved=tuple(draw(st.lists(st.booleans(), max_size=4))),
        num_ops=draw(SIZES),
        tensor_bytes=draw(SIZES),
    )


def read_or_refused(data):
    try:
        return read_rank(io.BytesIO(data), "some.0.et", 0)
    except DovetailError as error:
        told = str(error)
    assert "some.0.et: rank 0" in told
    assert "\n" not in told
    return ()


@given(traces())
def test_what_is_written_is_read_back(nodes):
    assert read_rank(io.BytesIO(encoded(nodes)), "some.0.et", 0) == nodes


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(data):
    read_or_refused(data)


@given(traces(), st.data())
def test_a_whole_trace_with_some_bytes_changed_is_read_or_refused(nodes, data):
    changed = bytearray(encoded(nodes))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(changed) - 1))
        how = data.draw(st.sampled_from(("set", "cut", "add")))
        if how == "set":
            changed[place] = data.draw(st.integers(0, 255))
        elif how == "cut":
            del changed[place:]
            changed = changed or bytearray(b"\0")
        else:
            changed[place:place] = data.draw(st.binary(min_size=1, max_size=9))
    read_or_refused(bytes(changed))
