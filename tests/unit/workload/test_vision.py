from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from dovetail.workload.builder import BlockBuilder
from dovetail.workload.graph import Axis, Block, Graph
from dovetail.workload.layers import Sample, whole
from dovetail.workload.models import models
from dovetail.workload.operators import code_of
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph
from dovetail.workload.vision import Classifier, ImageBuilder, ImageNetwork, Maps, merged_blocks

IMAGES = Sample(batch=2, seq=1, dtype="bf16")

# Output pixels of one image, window times input channels, output channels, and how often: ResNet-50 v1.5 as
# ASTRA-sim's published workload has it (weight bytes agree layer by layer).
RESNET_50_PRODUCTS = Counter(
    {
        (12544, 147, 64): 1,
        (3136, 64, 64): 1,
        (3136, 576, 64): 3,
        (3136, 64, 256): 4,
        (3136, 256, 64): 2,
        (3136, 256, 128): 1,
        (784, 1152, 128): 4,
        (784, 128, 512): 4,
        (784, 256, 512): 1,
        (784, 512, 128): 3,
        (784, 512, 256): 1,
        (196, 2304, 256): 6,
        (196, 256, 1024): 6,
        (196, 512, 1024): 1,
        (196, 1024, 256): 5,
        (196, 1024, 512): 1,
        (49, 4608, 512): 3,
        (49, 512, 2048): 3,
        (49, 1024, 2048): 1,
        (49, 2048, 512): 2,
        (1, 2048, 1000): 1,
    }
)


def image_builder(maps: Maps) -> ImageBuilder:
    rows = (IMAGES.batch * maps.pixels, Axis.DATA)
    return ImageBuilder(BlockBuilder("block", IMAGES.dtype, rows, whole(maps.channels)), IMAGES)


def forward_graph(name: str) -> Graph:
    return models[name]().forward(IMAGES)


def block_named(graph: Graph, name: str) -> Block:
    return next(block for block in graph.blocks if block.name == name)


def test_resnet_50_has_the_layer_shapes_of_the_published_workload():
    products: Counter[tuple[int, int, int]] = Counter()
    for block in models["resnet-50"]().forward(replace(IMAGES, batch=1)).blocks:
        for row in np.flatnonzero(block.ops.weight_elements):
            if block.ops.kind[row] in (code_of("convolution"), code_of("linear")):
                _, m, n, k, _ = (int(extent) for extent in block.ops.extents[row])
                products[m, k, n] += block.repeat
    assert products == RESNET_50_PRODUCTS


def test_resnet_50_gradients_of_products_are_those_of_the_published_workload():
    num_weights = 0
    for block in forward_graph("resnet-50").blocks:
        is_product = (block.ops.kind == code_of("convolution")) | (block.ops.kind == code_of("linear"))
        num_weights += block.repeat * int(block.ops.weight_elements[is_product].sum())
    assert 2 * num_weights == 51_005_824  # bytes of fp16 gradients in ASTRA-sim's ResNet-50


def test_resnet_50_strides_in_its_3x3_convolution():
    ops = block_named(forward_graph("resnet-50"), "layer2_0").ops
    pixels = {name: int(ops.extents[i, 1]) // IMAGES.batch for i, name in enumerate(ops.names)}
    assert (pixels["conv1"], pixels["conv2"], pixels["downsample"]) == (56 * 56, 28 * 28, 28 * 28)
    strides = dict(zip(ops.names, ops.stride.tolist(), strict=True))
    assert {name for name, stride in strides.items() if stride == 2} == {"conv2", "downsample"}
    assert set(strides.values()) == {1, 2}


def test_gradients_of_a_convolution_know_its_window_and_its_stride():
    step = training_graph(forward_graph("resnet-50"), Precision())
    ops = block_named(step, "layer2_0").ops
    for name in ("conv2", "conv2:dx", "conv2:dw"):
        row = ops.names.index(name)
        assert (int(ops.extents[row, 4]), int(ops.stride[row])) == (9, 2), name
    # a window's positions are counted in the contraction already: they do no work of their own
    products = [ops.flop[ops.names.index(name)] for name in ("conv2", "conv2:dx", "conv2:dw")]
    assert products == [2 * IMAGES.batch * 28 * 28 * 128 * 9 * 128] * 3


def test_equal_blocks_are_stored_once():
    graph = forward_graph("resnet-50")
    repeats = [block.repeat for block in graph.blocks if block.is_layer]
    # the very last keeps its output itself: the mean behind it does not
    assert repeats == [1, 2, 1, 3, 1, 5, 1, 1, 1]
    assert graph.num_layers == 16


def test_merging_joins_neighbours_that_differ_in_name_only():
    one, two = (block for block in forward_graph("resnet-18").blocks[2:4])
    merged = merged_blocks([one, replace(one, name="again"), two, one])
    assert [(block.name, block.repeat) for block in merged] == [(one.name, 2), (two.name, 1), (one.name, 1)]


@pytest.mark.parametrize(
    ("window", "stride", "is_padded", "side", "input_frac"),
    [
        (1, 1, True, 8, 1.0),
        (3, 1, True, 8, 1 / 9),
        (3, 1, False, 6, 64 / (36 * 9)),
        (3, 2, True, 4, 64 / (16 * 9)),
        (1, 2, True, 4, 1.0),  # every other pixel is never read
        (3, 2, False, 3, 49 / (9 * 9)),  # the last row and column are never read
    ],
)
def test_a_convolution_reads_each_covered_pixel_once(window, stride, is_padded, side, input_frac):
    x = Maps(height=8, width=8, channels=4)
    build = image_builder(x)
    y = build.convolution(x, 16, (window, window), stride=stride, is_padded=is_padded, name="conv")
    assert (y.height, y.width, y.channels) == (side, side, 16)
    row = build.block.rows[y.row]
    assert (row.extents[4][0], row.stride) == (window * window, stride)
    assert row.distinct_frac[0] == pytest.approx(input_frac)
    assert row.weight[0] == window * window * 4 * 16


def test_an_oblong_window_pads_only_its_long_side():
    x = Maps(height=17, width=17, channels=4)
    build = image_builder(x)
    y = build.convolution(x, 8, (1, 7), name="conv")
    assert (y.height, y.width) == (17, 17)
    assert build.block.rows[y.row].extents[3][0] == 7 * 4
    assert build.block.rows[y.row].extents[4][0] == 7


def test_a_depthwise_convolution_is_one_thin_product_a_channel():
    ops = block_named(forward_graph("mobilenet-v3-large"), "block_2").ops
    row = ops.names.index("depthwise")
    assert ops.extents[row].tolist() == [64, IMAGES.batch * 56 * 56, 1, 9, 9]
    assert ops.flop[row] == 2 * IMAGES.batch * 56 * 56 * 64 * 9
    assert ops.output_elements[row] == IMAGES.batch * 56 * 56 * 64
    weight_bytes = 2 * 64 * 9
    assert ops.read_bytes[row] == pytest.approx(2 * IMAGES.batch * 112 * 112 * 64 + weight_bytes)


def test_resnext_convolves_in_32_groups():
    ops = block_named(forward_graph("resnext-101-32x8d"), "layer1_0").ops
    assert ops.extents[ops.names.index("conv2")].tolist() == [32, IMAGES.batch * 56 * 56, 8, 9 * 8, 9]


def test_squeeze_excite_is_a_small_network_over_each_image():
    ops = block_named(forward_graph("mobilenet-v3-large"), "block_4").ops
    squeeze = ops.names.index("squeeze")
    assert ops.output_elements[squeeze] == IMAGES.batch * 72
    assert ops.extents[ops.names.index("squeeze_fc1")].tolist() == [1, IMAGES.batch, 24, 72, 1]
    scaled = ops.edge_to[ops.edge_start[ops.names.index("squeeze_gate")]]
    assert ops.names[scaled] == "excite"


def test_inception_without_its_auxiliary_classifier_has_the_parameters_published_for_inference():
    graph = forward_graph("inception-v3")
    ops = block_named(graph, "mixed_7a").ops
    is_auxiliary = np.array([name.startswith("aux") for name in ops.names])
    auxiliary = int(ops.weight_elements[is_auxiliary].sum() + ops.bias_elements[is_auxiliary].sum())
    assert graph.num_parameters - auxiliary == 23_834_568  # torchvision's inception_v3 with aux_logits=False


def test_inception_joins_its_branches_at_every_scale():
    carried = {
        block.name: block.boundary_activation_elements // IMAGES.batch for block in forward_graph("inception-v3").blocks
    }
    assert carried["stem"] == 35 * 35 * 192
    assert carried["mixed_5c"] == 35 * 35 * 288
    assert carried["mixed_6a"] == 17 * 17 * 768
    assert carried["mixed_7a"] == 8 * 8 * 1280
    assert carried["mixed_7c"] == 8 * 8 * 2048


def test_a_global_average_reads_its_input_once_and_writes_one_pixel():
    x = Maps(height=7, width=7, channels=4)
    build = image_builder(x)
    y = build.global_average(x)
    ops = build.block.block().ops
    assert (y.height, y.width, y.channels) == (1, 1, 4)
    assert ops.read_bytes[y.row] == 2 * IMAGES.batch * x.elements
    assert ops.output_elements[y.row] == pytest.approx(IMAGES.batch * 4)


def test_a_strided_maximum_reads_four_pixels_for_each_it_writes():
    x = Maps(height=8, width=8, channels=4)
    build = image_builder(x)
    y = build.max_pool(x, 2, name="pool")
    ops = build.block.block().ops
    index_bytes = 8 * IMAGES.batch * y.elements
    assert ops.read_bytes[y.row] + ops.write_bytes[y.row] == 2 * IMAGES.batch * (x.elements + y.elements) + index_bytes


def test_a_concatenation_waits_for_all_its_branches():
    x = Maps(height=4, width=4, channels=4)
    build = image_builder(x)
    ends = [build.apply("relu", x, name=f"branch{i}") for i in range(3)]
    y = build.concat(*ends)
    assert y.channels == 12
    assert build.block.rows[y.row].inputs == (1, 2, 3)


def test_the_first_convolution_gets_no_gradient_for_the_image():
    step = training_graph(forward_graph("vgg-16"), Precision())
    assert "conv:dx" not in step.blocks[0].ops.names
    assert "conv:dw" in step.blocks[0].ops.names
    assert "conv:dx" in step.blocks[1].ops.names


def test_a_compiled_loss_is_one_kernel():
    network = ImageNetwork(name="tiny", side=8, parts=(Classifier(),))
    fused, compiled = (network.forward(replace(IMAGES, kernels=kernels)) for kernels in ("fused", "compiled"))
    assert fused.blocks[0].ops.kind[-1] == code_of("inplace_cross_entropy")
    assert compiled.blocks[0].ops.kind[-1] == code_of("fused_cross_entropy")


def test_a_vision_transformer_takes_its_positions_from_the_image():
    graph = forward_graph("vit-l-16")
    layer = block_named(graph, "layer")
    assert layer.ops.extents[0, 1] == IMAGES.batch * 197
    assert (
        graph.blocks[0].boundary_activation_elements == layer.boundary_activation_elements == IMAGES.batch * 197 * 1024
    )
    assert graph.blocks[0].boundary_activation_split == layer.boundary_activation_split
    assert graph.num_layers == 24


def test_a_vision_transformer_classifies_one_position_an_image():
    ops = forward_graph("vit-l-16").blocks[-1].ops
    assert ops.extents[ops.names.index("classifier")].tolist() == [1, IMAGES.batch, 1000, 1024, 1]


def test_images_are_not_split_over_tensor_parallel_ranks():
    assert {rule.axis: rule.count for rule in forward_graph("resnet-50").rules} == {Axis.TENSOR: 1, Axis.CONTEXT: 1}
