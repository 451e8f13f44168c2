from __future__ import annotations

import numpy as np
import pytest

from dovetail.cost.eager.launches import lowering_of, lowerings
from dovetail.cost.eager.operators.refused import REFUSED
from dovetail.cost.eager.operators.views import METADATA, VIEWS
from dovetail.cost.eager.times import EagerTimes, eager_times
from dovetail.cost.op_cost import Setting
from dovetail.cost.power import Load, sustained_clock_frac
from dovetail.errors import NotModelled
from dovetail.hardware.catalog import chips
from dovetail.units import GIBI, MICRO, TERA
from dovetail.workload.dispatched import Argument, DispatchedOp, TensorMeta
from tests.unit.cost.eager.dispatched import call, dense, kernel_names, last, turned

H200 = chips["h200-sxm"]()
HBM = H200.hbm.bandwidth_bytes_per_s * H200.calibration.hbm_frac


def priced(*ops: DispatchedOp, setting: Setting = Setting.KERNEL, **more: bool) -> EagerTimes:
    return eager_times(ops, H200, setting, **more)


def seconds(*ops: DispatchedOp, setting: Setting = Setting.KERNEL, **more: bool) -> float:
    return float(priced(*ops, setting=setting, **more).kernel_s.sum())


def add(left: TensorMeta, right: TensorMeta, out: TensorMeta) -> DispatchedOp:
    return call("add.Tensor", (left, right), out, alpha=1)


def copy(source: TensorMeta, out: TensorMeta) -> DispatchedOp:
    return call("clone.default", (source,), out)


def test_an_operator_that_nobody_described_is_refused_by_its_name():
    with pytest.raises(NotModelled, match=r"aten\.frobnicate\.default"):
        priced(call("frobnicate.default", (dense(4),), dense(4)))


@pytest.mark.parametrize("name", [name for names in REFUSED.values() for name in names])
def test_what_no_kernel_was_measured_of_is_refused_by_its_name(name):
    with pytest.raises(NotModelled, match=name):
        priced(DispatchedOp(name=f"{name}.default", inputs=(dense(4, 4),), outputs=(dense(4, 4),)))


@pytest.mark.parametrize("name", [*VIEWS, *METADATA])
def test_views_and_metadata_launch_nothing(name):
    times = priced(DispatchedOp(name=name, inputs=(dense(4, 4),), outputs=(dense(4, 4),)))
    assert times.launches.tolist() == [0]
    assert times.kernel_s.tolist() == [0.0]


def test_an_operator_in_place_or_of_another_overload_is_the_same_operator():
    assert lowering_of("aten.mul_.Tensor") is lowering_of("aten.mul.Scalar") is lowerings["aten.mul"]


def test_equal_operators_are_priced_alike_wherever_they_stand():
    small, large = add(dense(8, 8), dense(8, 8), dense(8, 8)), add(*(dense(4096, 4096),) * 3)
    times = priced(large, small, large)
    assert times.kernel_s[0] == times.kernel_s[2] > times.kernel_s[1]
    assert times.part_op.tolist() == [0, 1, 2]
    assert times.part_s.tolist() == times.kernel_s.tolist()


def test_no_operators_take_no_time():
    times = priced()
    assert len(times.kernel_s) == len(times.launches) == len(times.part_names) == 0
    assert times.total().compute_s == 0.0


def test_operands_alike_stream_at_the_pace_of_memory():
    operands = (dense(16384, 4096),) * 3
    moved_bytes = 3 * operands[0].num_bytes
    start_s = seconds(add(*(dense(1),) * 3))
    assert seconds(add(*operands)) - start_s == pytest.approx(moved_bytes / HBM, rel=1e-3)


def test_a_stream_of_small_tensors_finds_them_in_the_cache():
    operands = (dense(1024, 1024),) * 3
    assert seconds(add(*operands), setting=Setting.STREAM) < seconds(add(*operands))
    large = (dense(65536, 4096),) * 3
    assert seconds(add(*large), setting=Setting.STREAM) == seconds(add(*large))


def test_a_broadcast_operand_costs_more_than_the_same_bytes_in_order():
    x, row = dense(8192, 4096), dense(4096)
    assert seconds(add(x, row, x)) > 1.8 * seconds(call("add.Tensor", (x,), x, other=1.0))


def test_a_cast_to_bf16_streams_and_one_to_fp32_does_not():
    narrow, wide = dense(8192, 4096), dense(8192, 4096, dtype="fp32")
    down, up = copy(wide, narrow), copy(narrow, wide)
    assert kernel_names(down) == ["vectorized copy"]
    assert kernel_names(up) == ["unrolled copy"]
    assert seconds(up) > 1.8 * seconds(down)


def test_a_comparison_gives_truth_values_without_a_cast():
    x, truth = dense(4096, 4096), dense(4096, 4096, dtype="bool")
    assert kernel_names(call("gt.Scalar", (x,), truth, other=0)) == ["vectorized gt"]


def test_a_number_without_dims_is_no_operand_that_is_walked():
    x, number = dense(4096, 4096), TensorMeta(shape=(), strides=(), dtype="fp32")
    assert kernel_names(call("mul.Tensor", (x, number), x)) == ["vectorized mul"]


def test_a_transposing_copy_takes_a_sector_an_element():
    x = dense(8192, 4096)
    assert seconds(copy(turned(x), dense(4096, 8192))) > 5 * seconds(copy(x, x))


def test_tensors_beyond_two_gib_are_cut_in_halves():
    elements = int(3 * GIBI / 2)
    assert kernel_names(call("relu.default", (dense(elements),), dense(elements))) == ["vectorized relu"] * 2


def test_a_sum_of_few_columns_waits_for_its_partial_sums():
    few = call("sum.dim_IntList", (dense(131072, 128),), dense(128), dim=(0,))
    many = call("sum.dim_IntList", (dense(4096, 4096),), dense(4096), dim=(0,))
    assert seconds(few) > 4 * seconds(many)


def test_a_sum_over_everything_is_one_row():
    assert kernel_names(call("sum.default", (dense(64, 64),), dense())) == ["reduce all sum"]


def head(vocab: int, way: str = "fwd") -> DispatchedOp:
    x, weight, gradient = dense(16384, 1024), dense(vocab, 1024), dense(16384, vocab)
    return {
        "fwd": call("mm.default", (x, turned(weight)), gradient),
        "dgrad": call("mm.default", (gradient, weight), x),
        "wgrad": call("mm.default", (turned(gradient), x), weight),
    }[way]


@pytest.mark.parametrize("way", ["fwd", "dgrad", "wgrad"])
def test_a_padded_vocabulary_is_several_times_as_fast_as_an_odd_one(way):
    odd, even, padded = (seconds(head(vocab, way)) for vocab in (50257, 50258, 50304))
    assert 4 < odd / padded < 8
    assert 2 < even / padded < 3.5


def test_small_batched_products_of_odd_sizes_take_a_few_times_their_bytes():
    left, right, out = dense(24576, 49, 32), dense(24576, 32, 49), dense(24576, 49, 49)
    bytes_s = (left.num_bytes + right.num_bytes + out.num_bytes) / HBM
    assert bytes_s < seconds(call("bmm.default", (left, right), out)) < 5 * bytes_s


def test_fp32_products_take_tensor_units_only_where_tf32_is_allowed():
    product = call("mm.default", (dense(4096, 4096, dtype="fp32"),) * 2, dense(4096, 4096, dtype="fp32"))
    assert seconds(product) > 4 * seconds(product, has_tf32=True)


def test_a_dtype_without_products_is_refused():
    with pytest.raises(NotModelled, match="fp64"):
        priced(call("mm.default", (dense(64, 64, dtype="fp64"),) * 2, dense(64, 64, dtype="fp64")))


def test_a_matrix_that_is_added_is_copied_first_and_a_bias_is_not():
    x, out = dense(512, 512), dense(512, 512)
    assert kernel_names(call("addmm.default", (dense(512), x, x), out, beta=1, alpha=1)) == ["mm"]
    assert kernel_names(call("addmm.default", (out, x, x), out, beta=1, alpha=1)) == ["memcpy", "mm"]


def convolved(make=dense, *, wanted: tuple[bool, bool, bool] | None = None, groups: int = 1, side: int = 56):
    x, weight = make(64, 128, side, side), make(128, 128 // groups, 3, 3)
    more: dict[str, Argument] = {
        "stride": (1, 1),
        "padding": (1, 1),
        "dilation": (1, 1),
        "transposed": False,
        "groups": groups,
    }
    if wanted is None:
        return call("convolution.default", (x, weight, None), x, **more)
    return call("convolution_backward.default", (x, x, weight), x, **more, output_mask=wanted)


def test_a_contiguous_convolution_turns_its_operands_and_a_channels_last_one_does_not():
    assert kernel_names(convolved()) == ["nchw to nhwc", "nchw to nhwc", "conv forward", "nhwc to nchw"]
    assert kernel_names(convolved(last)) == ["conv forward"]
    assert seconds(convolved()) > seconds(convolved(last))


def test_gradients_of_a_convolution_are_those_that_are_wanted():
    both = seconds(convolved(last, wanted=(True, True, False)))
    apart = [seconds(convolved(last, wanted=wanted)) for wanted in ((True, False, False), (False, True, False))]
    assert both == pytest.approx(sum(apart))
    assert kernel_names(convolved(last, wanted=(False, False, True))) == ["reduce columns sum"]


def test_a_depthwise_convolution_is_faster_with_channels_last():
    assert seconds(convolved(groups=128)) > 3 * seconds(convolved(last, groups=128))


def test_batch_norm_of_few_contiguous_channels_leaves_cores_idle():
    def norm(channels: int) -> DispatchedOp:
        x = dense(256, channels, 112, 112)
        return call("native_batch_norm.default", (x, *(dense(channels),) * 4), x, training=True, momentum=0.1, eps=1e-5)

    assert seconds(norm(16)) > 0.8 * seconds(norm(64))  # a quarter of the elements


def attention(mask: TensorMeta | None = None, dropout_p: float = 0.0, name: str = "cudnn") -> DispatchedOp:
    q = dense(16, 16, 1024, 64)
    inputs = (q, q, q, mask)
    return call(f"_scaled_dot_product_{name}_attention.default", inputs, q, dropout_p=dropout_p, is_causal=False)


def test_masks_and_dropout_slow_attention_down():
    plain, masked = seconds(attention()), seconds(attention(dense(16, 1, 1024, 1024)))
    assert 1.4 < masked / plain < 2.2
    assert seconds(attention(dropout_p=0.1)) > 1.5 * plain


def test_an_update_is_launched_in_chunks_of_so_many_tensors_and_blocks():
    tensors = (dense(4096, 4096),) * 3 + (dense(4096),) * 40
    steps = (TensorMeta(shape=(), strides=(), dtype="fp32"),) * len(tensors)
    update = DispatchedOp(name="aten._fused_adamw_.default", inputs=tensors * 4 + steps, outputs=())
    # 768 chunks of 65,536 elements, 320 a launch; 36 tensors a launch, two of the large ones among the first
    assert priced(update).launches.tolist() == [4]
    assert priced(update).hbm_bytes[0] == 7 * sum(one.num_bytes for one in tensors)


def test_what_the_power_limit_needs_adds_up():
    times = priced(head(50304), add(*(dense(16384, 4096),) * 3), setting=Setting.STREAM)
    cost = times.total()
    assert cost.compute_s == pytest.approx(float(times.kernel_s.sum() + times.gap_s * times.launches.sum()))
    assert cost.flop >= 2 * 16384 * 1024 * 50304
    assert 0.5 < float(sustained_clock_frac(Load(cost=cost), H200)) < 1.0
    assert np.all(times.core_j <= times.energy_j)


def test_systolic_arrays_run_no_kernels_of_pytorch():
    with pytest.raises(NotModelled, match="tpu-v4"):
        eager_times([add(*(dense(8),) * 3)], chips["tpu-v4"]())


def test_a_faster_memory_makes_a_stream_faster():
    operands = (dense(16384, 4096),) * 3
    assert float(eager_times([add(*operands)], chips["a100-80gb-sxm"]()).kernel_s[0]) > seconds(add(*operands))


def test_the_head_of_an_odd_vocabulary_runs_at_the_measured_pace():
    flop = 2 * 16384 * 1024 * 50257
    assert flop / seconds(head(50257)) / TERA == pytest.approx(97, rel=0.05)  # spec: 97 TFLOP/s on the H200


def test_a_kernel_of_nothing_takes_what_a_profiler_shows_of_it():
    assert seconds(add(*(dense(1),) * 3)) / MICRO == pytest.approx(0.95, rel=0.01)


def test_a_softmax_into_fp32_casts_bf16_first_and_fp16_on_the_way():
    def names(dtype: str) -> list[str]:
        out = dense(64, 2048, dtype="fp32")
        return kernel_names(call("_softmax.default", (dense(64, 2048, dtype=dtype),), out, dim=-1, half_to_float=True))

    assert names("bf16") == ["unrolled copy", "softmax warp"]
    assert names("fp16") == ["softmax warp"]


def test_a_softmaxs_gradient_is_multiplied_first_and_cast_last():
    wide, narrow = dense(64, 2048, dtype="fp32"), dense(64, 2048)
    back = call("_softmax_backward_data.default", (wide, wide), narrow, dim=-1)
    assert kernel_names(back) == ["vectorized mul", "softmax backward", "vectorized copy"]
    same = call("_softmax_backward_data.default", (narrow, narrow), narrow, dim=-1)
    assert kernel_names(same) == ["vectorized mul", "softmax backward"]


def test_a_stack_of_four_dims_is_one_kernel():
    one = dense(32, 512, 12, 64)
    stacked = call("stack.default", (one, one, one), dense(32, 512, 3, 12, 64), dim=2)
    joined = call("cat.default", (one, one, one), dense(32, 512, 36, 64), dim=2)
    assert kernel_names(stacked) == ["cat"]
    assert seconds(stacked) == pytest.approx(seconds(joined))
    assert kernel_names(call("stack.default", (one, one), dense(32, 512, 12, 64, 2), dim=4)) != ["cat"]


def test_rows_added_to_few_places_wait_for_each_other():
    def added(places: int, cols: int) -> float:
        values, index = dense(16384, cols), dense(16384, dtype="int64")
        target = dense(places, cols)
        return seconds(call("index_put_.default", (target, index, values), target, accumulate=True))

    assert added(32, 2880) == pytest.approx(2371e-6, rel=0.2)  # measured on one H200, as is the next
    assert added(32, 5760) == pytest.approx(2431e-6, rel=0.25)
    assert added(16384, 2880) < 0.1 * added(32, 2880)
    assert added(32, 16) < 0.1 * added(32, 2880)  # a warp adds up narrow rows side by side


def test_a_safe_softmax_looks_for_rows_that_are_masked_and_clears_them():
    scores = dense(2, 71, 2048, 2048, dtype="fp32")
    safe = call("_safe_softmax.default", (scores,), scores, dim=-1)
    names = kernel_names(safe)
    assert names[0] == "softmax warp"
    assert [name.split()[-1] for name in names[1:]] == ["isneginf"] * 2 + ["all"] + ["where"] * 2
    assert seconds(safe) == pytest.approx((1784.7 + 674.1 + 338 + 1841.0) * MICRO, rel=0.1)  # measured on one H200


def grouped(channels: int, groups: int, side: int, *, stride: int = 1, is_backward: bool = False) -> DispatchedOp:
    x, y = last(128, channels, side * stride, side * stride), last(128, channels, side, side)
    weight = last(channels, channels // groups, 3, 3)
    more: dict[str, Argument] = {
        "stride": (stride, stride), "padding": (1, 1), "dilation": (1, 1), "transposed": False, "groups": groups,
    }  # fmt: skip
    if is_backward:
        return call("convolution_backward.default", (y, x, weight), x, **more, output_mask=(True, True, False))
    return call("convolution.default", (x, weight, None), y, **more)


@pytest.mark.parametrize(
    ("channels", "groups", "side", "stride", "measured_us"),
    [
        (224, 4, 56, 1, 3171),
        (896, 16, 14, 1, 2049),
        (2016, 36, 7, 2, 3617),
        (448, 8, 28, 2, 3757),
        (224, 4, 56, 2, 7414),
    ],
)  # one H200, PyTorch 2.11, RegNetY-8GF
def test_groups_of_56_channels_are_convolved_one_behind_another(channels, groups, side, stride, measured_us):
    op = grouped(channels, groups, side, stride=stride, is_backward=True)
    found = priced(op, setting=Setting.STREAM).stream_s
    assert float(found.sum()) == pytest.approx(measured_us * MICRO, rel=0.1)


def test_a_group_is_sliced_only_where_it_does_not_fit_into_tiles():
    assert kernel_names(grouped(896, 16, 14)) == ["slice group", "conv forward", "slice group"] * 16
    for size in (8, 16, 32, 64):
        assert kernel_names(grouped(size * 8, 8, 14)) == ["conv forward"]
    assert "slice group" not in kernel_names(grouped(4 * 8, 8, 14))


def test_a_norm_of_rows_that_lie_apart_copies_them_first():
    rows = dense(128, 197, 768, dtype="fp32")
    apart = TensorMeta(shape=rows.shape, strides=(768, 128 * 768, 1), dtype="fp32")
    weight = dense(768, dtype="fp32")
    more: dict[str, Argument] = {"normalized_shape": (768,)}
    assert kernel_names(call("native_layer_norm.default", (rows, weight, weight), rows, **more)) == ["norm"]
    names = kernel_names(call("native_layer_norm.default", (apart, weight, weight), rows, **more))
    assert names == ["strided copy", "norm"]
    back = call("native_layer_norm_backward.default", (apart, apart, weight), rows, **more)
    assert kernel_names(back)[:3] == ["strided copy", "strided copy", "norm backward"]


def test_copies_of_sharded_parameters_move_every_byte_in_and_out_at_the_pace_of_hbm():
    gathered, part = dense(8, 32 * 2**20), dense(8, 16 * 2**20)
    split = call("split_with_sizes_copy.out", (gathered, part, part), part)
    narrow, wide = dense(256 * 2**20), dense(8, 32 * 2**20, dtype="fp32")
    joined = call("_chunk_cat.out", (narrow, wide), wide)
    assert seconds(split) == pytest.approx(2 * gathered.num_bytes / HBM, rel=0.15)
    assert seconds(joined) == pytest.approx((narrow.num_bytes + wide.num_bytes) / HBM, rel=0.15)
    assert kernel_names(joined) == ["chunk_cat"]


def test_a_number_where_a_mask_is_true_is_a_masked_fill_of_the_whole():
    rows, mask = dense(1, 8192, 4096), dense(1, 8192, dtype="bool")
    number = dense()
    put = call("index_put_.default", (rows, mask, number), rows, accumulate=False)
    assert kernel_names(put) == ["strided masked_fill"]
    assert rows.num_bytes / HBM < seconds(put) < 8 * rows.num_bytes / HBM  # element by element, by its strides


def test_a_mask_of_several_dims_picks_among_the_rows_that_it_covers():
    rows, mask = dense(4, 2048, 1024), dense(4, 2048, dtype="bool")
    put = call("index_put_.default", (rows, mask, dense(8192, 1024)), rows, accumulate=False)
    one_dim = call("index_put_.default", (dense(8192, 1024), dense(8192, dtype="bool"), dense(8192, 1024)), rows)
    assert seconds(put) == pytest.approx(seconds(one_dim))
