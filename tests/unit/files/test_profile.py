"""Traces of profilers into measured operators: whose a kernel is, which pass it is of, and what is left out and why."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.errors import InvalidInput
from dovetail.files.profiles import json_stream
from dovetail.files.profiles.chakra_profile import read_chakra
from dovetail.files.profiles.json_stream import members
from dovetail.files.profiles.profile import load_profile
from dovetail.files.protobuf import bytes_field
from dovetail.units import MICRO
from tests.traces_of_profilers import backward, chakra, chakra_node, kernel, op, trace

EXAMPLE = Path(__file__).parents[3] / "examples" / "llama-2-layers-h200.json.gz"
MM = ([2048, 4096], [4096, 1024])


@pytest.fixture
def profile(write):
    def loaded(text, name="trace.json"):
        return load_profile(write(text, name))

    return loaded


def shapes(found):
    return {(one.kind, one.phase, one.extents): one for one in found.ops}


def test_kernels_belong_to_the_operator_around_the_call_that_launched_them(profile):
    found = profile(
        trace(
            op("aten::linear", 0, 100, 1, [2048, 4096], [1024, 4096]),
            op("aten::mm", 10, 50, 2, *MM),
            kernel("gemm", 80, 2),
            kernel("Memset", 2, 2, cat="gpu_memset"),
        )
    )
    [one] = found.ops
    assert (one.kind, one.phase, one.dtype, one.extents) == ("linear", "forward", "bf16", (1, 2048, 1024, 4096, 1))
    assert (one.num_runs, one.num_kernels, one.stream, one.name) == (1, 2, "0:7", "aten::mm")
    assert one.time_s == pytest.approx(82 * MICRO)
    assert (found.device, found.is_host_time, found.left_out) == ("NVIDIA H200", False, ())


def test_a_linear_without_a_product_beneath_it_is_one_itself(profile):
    found = profile(trace(op("aten::linear", 0, 100, 1, [2, 1024, 4096], [1024, 4096]), kernel("gemm", 80, 1)))
    assert found.ops[0].extents == (1, 2048, 1024, 4096, 1)


def test_products_of_autograd_are_of_the_backward_pass_and_forward_ones_run_again_are_not(profile):
    again = {"Sequence_number": 7, "Fwd_thread_id": 0}
    found = profile(
        trace(
            op("aten::mm", 0, 10, 1, *MM),
            backward(100, 50, 2),
            op("aten::mm", 110, 10, 3, *MM),
            op("aten::mm", 125, 10, 4, *MM, **again),
            *(kernel("gemm", took, number) for number, took in ((1, 10), (3, 20), (4, 30))),
        )
    )
    by_phase = {one.phase: one for one in found.ops}
    assert by_phase["forward"].num_runs == 2
    assert by_phase["forward"].time_s == pytest.approx(20 * MICRO)
    assert by_phase["backward"].num_runs == 1
    assert by_phase["backward"].time_s == pytest.approx(20 * MICRO)


def test_calls_on_two_threads_do_not_stand_within_each_other(profile):
    found = profile(
        trace(
            backward(0, 1000, 1),
            op("aten::mm", 10, 10, 2, *MM, tid=2),
            kernel("gemm", 5, 2),
        )
    )
    assert found.ops[0].phase == "forward"


def test_what_is_not_ours_is_counted_with_its_reason_and_all_of_it_adds_up(profile):
    found = profile(
        trace(
            op("aten::cat", 0, 5, 1),
            op("aten::mul", 10, 5, 2, [8, 16], [8, 1]),
            op("aten::mm", 20, 5, 3, *MM),
            kernel("cat", 3, 1),
            kernel("mul", 4, 2),
            kernel("gemm", 5, 3),
            kernel("triton", 6, 999),
            kernel("Memcpy HtoD (Pageable -> Device)", 7, 3, cat="gpu_memcpy"),
        )
    )
    told = {one.name: one.why for one in found.left_out}
    assert told["aten::cat"] == "not mapped to an operator of ours"
    assert "broadcast" in told["aten::mul"]
    assert told["triton"] == "launched by no operator of the trace"
    assert "host and device" in told["Memcpy HtoD (Pageable -> Device)"]
    assert found.busy_s == pytest.approx(25 * MICRO)


def test_a_kernel_without_an_id_is_found_by_who_launched_it(profile):
    launched = kernel("cudaLaunchKernel", 1, 1, cat="cuda_runtime")
    lone = kernel("gemm", 5, 0)
    lone["args"]["correlation"] = launched["args"]["correlation"]
    assert profile(trace(op("aten::mm", 0, 5, 1, *MM), launched, lone)).ops[0].num_kernels == 1


def test_a_collective_has_the_larger_side_of_its_message(profile):
    message: dict[str, Any] = {
        "Collective_name": "reduce_scatter",
        "In_msg_nelems": 800,
        "Out_msg_nelems": 100,
        "Group_size": 8,
    }
    found = profile(
        trace(
            kernel("ncclDevKernel_ReduceScatter", 50, 0, dtype="BFloat16", **message),
            kernel("ncclDevKernel_AllReduce", 50, 0),
            distributedInfo={"world_size": 16},
        )
    )
    [one] = found.collectives
    assert (one.name, one.message_bytes, one.num_ranks, found.num_ranks) == ("reduce_scatter", 1600, 8, 16)
    assert found.left_out[0].why == "the trace does not state the size of its message"


def test_without_kernels_an_operator_has_all_of_its_call_and_others_what_is_left(profile):
    found = profile(
        trace(
            op("aten::linear", 0, 100, 1, [2048, 4096], [1024, 4096]),
            op("aten::mm", 10, 50, 2, *MM),
            op("aten::empty", 12, 5, 3),
            device="",
        )
    )
    assert found.is_host_time
    assert found.ops[0].time_s == pytest.approx(50 * MICRO)
    assert {one.name: one.total_s for one in found.left_out} == {"aten::linear": pytest.approx(50 * MICRO)}
    assert found.busy_s == pytest.approx(100 * MICRO)


SDPA = "aten::_scaled_dot_product_flash_attention"
HEADS = ([2, 32, 512, 64], [2, 8, 512, 64], [2, 8, 512, 64])
IMAGE, FILTER = [32, 64, 56, 56], [128, 64, 3, 3]
OPTIONS = ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]


@pytest.mark.parametrize(
    ("name", "dims", "values", "expected"),
    [
        ("aten::addmm", ([1024], *MM), [], ("linear", "forward", (1, 2048, 1024, 4096, 1))),
        ("aten::bmm", ([8, 64, 32], [8, 32, 16]), [], ("matmul", "forward", (8, 64, 16, 32, 1))),
        (SDPA, HEADS, ["", "", "", "0.", "True"], ("attention", "forward", (64, 512, 512, 64, 64))),
        (
            f"{SDPA}_backward",
            ([2, 32, 512, 64], *HEADS),
            [*[""] * 11, "True"],
            ("attention", "backward", (64, 512, 512, 64, 64)),
        ),
        ("aten::convolution", (IMAGE, FILTER, []), OPTIONS, ("convolution", "forward", (1, 25088, 128, 576, 9))),
        ("aten::native_layer_norm", ([4, 128, 512],), [], ("layernorm", "forward", (1, 512, 512, 1, 1))),
        ("aten::cudnn_batch_norm", ([4, 64, 7, 7],), [], ("batchnorm", "forward", (1, 196, 64, 1, 1))),
        ("aten::embedding", ([32000, 512], [4, 128]), [], ("embedding", "forward", (1, 512, 512, 32000, 1))),
        ("aten::add", ([8, 16], [8, 16]), [], ("add", "forward", (1, 8, 16, 1, 1))),
        ("aten::add", ([8, 16], [16]), [], ("bias_add", "forward", (1, 8, 16, 1, 1))),
        ("aten::mul", ([8, 16], []), [], ("scale", "forward", (1, 8, 16, 1, 1))),
        ("aten::gelu_backward", ([8, 16], [8, 16]), [], ("gelu", "backward", (1, 8, 16, 1, 1))),
        ("aten::copy_", ([8, 16], [8, 16]), [], ("copy", "forward", (1, 8, 16, 1, 1))),
    ],
)
def test_an_operator_of_pytorch_is_this_row(profile, name, dims, values, expected):
    found = profile(trace(op(name, 0, 9, 1, *dims, Concrete_Inputs=values), kernel("k", 5, 1)))
    assert [(one.kind, one.phase, one.extents) for one in found.ops] == [expected]


def test_causal_attention_does_half_the_loop_and_shares_keys_among_heads(profile):
    [one] = profile(trace(op(SDPA, 0, 9, 1, *HEADS, Concrete_Inputs=["", "", "", "0.", "True"]), kernel("k", 5, 1))).ops
    assert (one.work_frac, one.distinct_frac) == (0.5, (1.0, 0.25, 1.0))


@pytest.mark.parametrize(
    ("name", "dims", "values", "why"),
    [
        (SDPA, HEADS, [], "whether attention is causal"),
        ("aten::convolution", (IMAGE, [128, 1, 3, 3], []), OPTIONS, "grouped"),
        ("aten::convolution", ([32, 64, 56, 28], FILTER, []), OPTIONS, "square"),
        ("aten::_fused_adamw_", ([8],), [], "dtype"),
        ("aten::mm", ([8, 4], [5, 6]), [], "no product"),
    ],
)
def test_what_has_no_row_says_why(profile, name, dims, values, why):
    other = (op("aten::mm", 50, 9, 2, *MM), kernel("gemm", 5, 2))
    found = profile(trace(op(name, 0, 9, 1, *dims, Concrete_Inputs=values), kernel("k", 5, 1), *other))
    assert why in found.left_out[0].why


def test_a_trace_of_one_h200_is_read_whole():
    found = load_profile(EXAMPLE)
    assert (found.device, found.num_steps, found.is_host_time) == ("NVIDIA H200", 1, False)
    assert found.busy_s == pytest.approx(15_262.2 * MICRO, rel=1e-4)  # all its kernels, as the trace has them
    products = shapes(found)
    assert products["linear", "forward", (1, 2048, 28672, 4096, 1)].num_runs == 2
    assert {one.name for one in found.left_out if "dtype" in one.why} == {"aten::_fused_adamw_"}


def test_a_chakra_trace_has_the_kernels_of_its_operators(profile):
    mm: dict[str, Any] = {
        "shapes": "[[2048, 4096], [4096, 1024]]",
        "types": "['Tensor(c10::BFloat16)', 'Tensor(c10::BFloat16)']",
    }
    found = profile(
        chakra(
            chakra_node(0, "[pytorch|profiler|execution_trace|process]"),
            chakra_node(1, "aten::linear", caller=0),
            chakra_node(2, "aten::mm", caller=1, **mm),
            chakra_node(3, "gemm", caller=2, took=80, is_cpu=False),
            chakra_node(4, "cat", caller=0, took=5, is_cpu=False),
        ),
        "rank.0.et",
    )
    [one] = found.ops
    assert (one.kind, one.extents, one.time_s) == ("linear", (1, 2048, 1024, 4096, 1), pytest.approx(80 * MICRO))
    assert found.left_out[0].total_s == pytest.approx(5 * MICRO)


def test_a_chakra_trace_whose_calls_go_round_is_refused(profile):
    with pytest.raises(InvalidInput, match=r"node 1 depends on node 18446744073709551612, and ids are below 2\^62"):
        profile(chakra(chakra_node(1, "a", caller=2**64 - 4, took=8, is_cpu=False)), "rank.0.et")
    with pytest.raises(InvalidInput, match="in a ring"):
        profile(chakra(chakra_node(1, "a", caller=2), chakra_node(2, "b", caller=1)), "rank.0.et")


MM_EVENT = op("aten::mm", 0, 5, 1, *MM)
WHOLE = trace(MM_EVENT, kernel("gemm", 5, 1))


@pytest.mark.parametrize(
    ("text", "name", "told"),
    [
        (WHOLE[:-30], "a.json", "ends early"),
        (gzip.compress(WHOLE.encode())[:-20], "a.json.gz", "no whole gzip file"),
        ('{"a": 1}', "a.json", "no traceEvents"),
        ("[1, 2]", "a.json", "a JSON object"),
        ('{"traceEvents": []}', "a.json", "holds no operator"),
        ("", "a.json", "ends early"),
        ('{"schema": "1.1.1", "nodes": []}', "a.json", "execution trace, which has no times"),
        (trace(op("aten::mm", 0, -5, 1, *MM)), "a.json", "must not be negative"),
        (trace(op("aten::mm", 0, 5, 1)), "a.json", "record_shapes=True"),
        (trace(op("aten::cat", 0, 5, 1)), "a.json", "no operator of the trace is one of ours"),
        (WHOLE.replace('"dur": 5', '"dur": NaN'), "a.json", "NaN is no number"),
        (WHOLE.replace('"dur": 5', '"dur": "5"'), "a.json", "must be a number"),
        (WHOLE.replace('"dur": 5', '"dur": 1' + "0" * 400), "a.json", "dur is a number of microseconds"),
        (WHOLE.replace('"ts": 0', '"ts": -1' + "0" * 400), "a.json", "ts is a number of microseconds"),
        (b"\xff\xfe\x00" * 9, "a.json", "UTF-8"),
        ('{"a": ' + "[" * 100_000, "a.json", "nested too deep"),
        (b"\x01\x02\x03", "a.et", "no whole Chakra trace"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_in_a_line(profile, text, name, told):
    with pytest.raises(InvalidInput) as error:
        profile(text, name)
    assert told in str(error.value)
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_a_packed_file_is_read_no_further_than_a_trace_may_be_long(profile, monkeypatch):
    monkeypatch.setattr("dovetail.files.profiles.profile.MAX_TEXT_BYTES", 1 << 21)
    with pytest.raises(InvalidInput, match="at most 2 MiB of text"):
        profile(gzip.compress(b'{"traceEvents": [' + b" " * (1 << 23)), "bomb.json.gz")


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(InvalidInput, match="there is no file"):
        load_profile(tmp_path / "none.json")
    with pytest.raises(InvalidInput, match="is a folder"):
        load_profile(tmp_path)


def test_text_that_comes_in_pieces_of_any_size_is_the_same(monkeypatch, tmp_path):
    whole: dict[str, Any] = {
        "name": "ü€𝄞",
        "n": 12345,
        "traceEvents": [{"a": [1, -2.5e3, None, True]}, 7, "x"],
        "last": {"b": []},
    }
    file = tmp_path / "a.json"
    file.write_text(json.dumps(whole, ensure_ascii=False), encoding="utf-8")
    for size in (1, 2, 3, 7, 1000):
        monkeypatch.setattr(json_stream, "CHUNK_BYTES", size)
        with file.open("rb") as stream:
            found = list(members(stream, "traceEvents", 10_000))
        items = [("traceEvents", item) for item in whole["traceEvents"]]
        assert found == [("name", whole["name"]), ("n", 12345), *items, ("last", {"b": []})]


@pytest.mark.parametrize(
    ("said", "is_recorded"), [(b"word", False), (b"7", True), (b"-1", False), (b"9" * 5000, False)]
)
def test_an_attribute_that_should_be_a_number_may_be_a_word_that_says_one(said, is_recorded):
    attribute = bytes_field(10, bytes_field(1, b"seq_id") + bytes_field(29, said))
    node = chakra_node(1, "aten::mm", shapes="[[4, 4], [4, 4]]", types="[]", attributes=attribute)
    events, _ = read_chakra(io.BytesIO(chakra(node)))
    [call] = events.calls
    assert call.is_recorded == is_recorded
