"""Whatever is in a file, reading it as a trace gives a profile whose parts add up, or one line that says why not."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dovetail.accuracy.profiled import predicted_run_s
from dovetail.errors import InvalidInput
from dovetail.files.profiles.profile import load_profile
from dovetail.hardware.catalog import chips
from tests.traces_of_profilers import backward, chakra, chakra_node, kernel, op, trace

MANY = settings(max_examples=75, deadline=None)
CHIP = chips["h200-sxm"]()
MM = ([64, 32], [32, 16])
GOOD = json.loads(
    trace(
        op("aten::linear", 0, 100, 1, [64, 32], [16, 32]),
        op("aten::mm", 10, 50, 2, *MM),
        backward(200, 50, 3),
        op("aten::mm", 210, 10, 4, *MM),
        op("aten::convolution", 300, 9, 5, [2, 4, 8, 8], [4, 4, 3, 3], Concrete_Inputs=[""] * 3 + ["[1, 1]"] * 3),
        kernel("gemm", 80, 2),
        kernel("gemm", 40, 4),
        kernel("ncclDevKernel", 9, 0, dtype="Float", Collective_name="allreduce", In_msg_nelems=8, Group_size=2),
        distributedInfo={"world_size": 2},
    )
)
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.lists(st.integers(-3, 5), max_size=4),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def places(value, path=()):
    """Every place in a value that could hold another one."""
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))


PLACES = [path for path in places(GOOD) if path]


def loaded(data, name="trace.json"):
    """The profile in a file of these bytes, whose operators can be predicted; nothing where a line refuses it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(data)
        found, told = None, ""
        try:
            found = load_profile(file)
        except InvalidInput as refusal:
            told = str(refusal)
    if found is None:
        assert told.count("\n") == 0
        return None
    assert found.busy_s >= 0
    predicted_run_s(found.ops, CHIP)
    assert all(one.total_s > 0 for one in found.ops)
    return found


@MANY
@given(st.lists(st.tuples(st.sampled_from(PLACES), ODD), min_size=1, max_size=3))
@example([(("traceEvents", 0, "args", "Input Dims"), [[0, 4], [4, 4]])])
@example([(("traceEvents", 0, "dur"), 2**70)])
@example([(("traceEvents", 1, "args", "Input Dims"), [[2**70, 4], [4, 4]])])
@example([(("traceEvents", 1, "args", "Input Dims"), [[2**30, 4], [4, 2**40]])])
@example([(("traceEvents", 1, "ts"), 1e300)])
def test_a_trace_with_odd_values_is_read_or_refused(changes):
    text = json.dumps(GOOD)
    whole = json.loads(text)
    for path, value in changes:
        here = whole
        try:
            for key in path[:-1]:
                here = here[key]
            here[path[-1]] = value
        except (KeyError, IndexError, TypeError):  # a change before took the place away
            continue
    loaded(json.dumps(whole).encode())


@MANY
@given(st.data())
def test_a_file_that_is_cut_or_changed_anywhere_is_read_or_refused(data):
    packed = data.draw(st.booleans())
    whole = bytearray(gzip.compress(json.dumps(GOOD).encode(), mtime=0) if packed else json.dumps(GOOD).encode())
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    loaded(bytes(whole[: data.draw(st.integers(0, len(whole)))]), "trace.json.gz" if packed else "trace.json")


CHAKRA = chakra(
    chakra_node(
        1, "aten::mm", shapes="[[64, 32], [32, 16]]", types="['Tensor(c10::BFloat16)', 'Tensor(c10::BFloat16)']"
    ),
    chakra_node(2, "gemm", caller=1, took=80, is_cpu=False),
)


@MANY
@given(st.data())
def test_a_chakra_trace_that_is_cut_or_changed_anywhere_is_read_or_refused(data):
    whole = bytearray(CHAKRA)
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    loaded(bytes(whole[: data.draw(st.integers(0, len(whole)))]), "trace.0.et")


def test_the_good_ones_are_read():
    found = loaded(json.dumps(GOOD).encode())
    assert [one.kind for one in found.ops] == ["linear", "linear"]
    assert len(found.collectives) == 1
    assert loaded(CHAKRA, "trace.0.et").ops[0].time_s == pytest.approx(80e-6)
