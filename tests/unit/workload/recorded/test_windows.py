from __future__ import annotations

import pytest

from dovetail.errors import NotModelled
from dovetail.workload.layers import Sample
from tests.unit.workload.recorded.tapes import BATCH, B, Tape, at_base, drafting_of, only


def convolution(**more):
    """The operator of a 3 x 3 convolution of 4 to 8 channels over 16 x 16."""
    tape = Tape()
    side = more.pop("side", 16)
    tape.conv(tape.data(B, 4, 16, 16), 8, more.pop("window", 3), side=side, **more)
    return only(drafting_of(tape), "convolution")


def test_a_convolution_is_output_pixels_by_channels_over_the_window():
    draft = convolution(padding=1, bias=True)
    assert at_base(draft) == (1, BATCH * 16 * 16, 8, 4 * 9, 9)
    assert (draft.weight, draft.bias, draft.stride) == (8 * 4 * 9, 8, 1)


def test_groups_divide_channels_on_both_sides():
    draft = convolution(padding=1, groups=4)
    assert at_base(draft) == (4, BATCH * 16 * 16, 2, 9, 9)
    assert draft.weight == 8 * 9


def test_windows_share_all_of_the_image_but_the_border_of_zeros():
    assert convolution(padding=1).shared_frac == 16 * 16 / (16 * 3) ** 2
    assert convolution(side=14).shared_frac == 16 * 16 / (14 * 3) ** 2


def test_strides_leave_fewer_outputs_and_share_less():
    draft = convolution(side=8, stride=2, padding=1)
    assert draft.stride == 2
    assert at_base(draft)[1] == BATCH * 8 * 8
    assert draft.shared_frac == 16 * 16 / (8 * 3) ** 2


def test_windows_narrower_than_their_stride_touch_only_what_they_cover():
    assert convolution(side=8, stride=2, window=1).shared_frac == 1.0


def test_a_transposed_convolution_is_over_input_pixels():
    tape = Tape()
    x = tape.data(B, 4, 16, 16)
    tape.add("convolution", x, tape.weight(4, 8, 2, 2), shape=(B, 8, 32, 32), stride=(2, 2), groups=1, turned=True)
    draft = only(drafting_of(tape), "convolution")
    assert at_base(draft) == (1, BATCH * 16 * 16, 8 * 4, 4, 1)
    assert (draft.weight, draft.output_frac) == (4 * 8 * 4, 1.0)


def test_windows_of_a_transposed_convolution_may_lie_over_each_other():
    tape = Tape()
    x = tape.conv(tape.data(B, 4, 16, 16), 4, 1, side=16)
    stride, padding = (2, 2), (1, 1)
    weight = tape.weight(4, 8, 4, 4)
    tape.add("convolution", x, weight, shape=(B, 8, 32, 32), stride=stride, padding=padding, turned=True)
    captured = tape.captured()
    ops = captured.forward(Sample(batch=BATCH, seq=captured.seq, dtype="bf16")).blocks[-1].ops
    (row,) = (row for row, name in enumerate(ops.names) if name.startswith("convolution"))
    assert ops.output_elements[row] == BATCH * 8 * 32 * 32
    assert ops.flop[row] == 2 * BATCH * 16 * 16 * 4 * 8 * 16


def test_a_convolution_along_one_side_has_a_window_of_one_side():
    tape = Tape()
    tape.add("convolution", tape.data(B, 4, 64), tape.weight(8, 4, 3), shape=(B, 8, 62), stride=(1,), padding=(0,))
    assert at_base(only(drafting_of(tape), "convolution")) == (1, BATCH * 62, 8, 12, 3)


def test_a_kernel_that_is_not_trained_is_refused():
    tape = Tape()
    x = tape.linear(tape.data(B, 4, 16, 16), 16)
    tape.add("convolution", x, tape.buffer(8, 4, 3, 3), shape=(B, 8, 14, 14))
    with pytest.raises(NotModelled, match="is no parameter, and convolutions with anything else are not modelled"):
        drafting_of(tape)


def pooled(word: str, side: int, **attributes):
    tape = Tape()
    x = tape.conv(tape.data(B, 4, 16, 16), 8, 1, side=16)
    made = tape.add(word, x, shape=(B, 8, side, side), **attributes)
    (draft,) = (draft for draft in drafting_of(tape).drafts if draft.makes == made)
    return draft


def test_a_maximum_is_counted_by_its_output_and_told_apart_by_its_stride():
    assert (pooled("maxpool", 8, stride=2).operator, pooled("maxpool", 16, stride=1).operator) == (
        "strided_maxpool",
        "maxpool",
    )
    assert at_base(pooled("maxpool", 8, stride=2))[1:3] == (BATCH * 64, 8)


def test_an_average_that_leaves_less_is_counted_by_its_input():
    draft = pooled("avgpool", 1, stride=1)
    assert draft.operator == "strided_avgpool"
    assert at_base(draft)[1:3] == (BATCH * 256, 8)
    assert draft.output_frac == 1 / 256
    assert pooled("avgpool", 16, stride=1).operator == "avgpool"
