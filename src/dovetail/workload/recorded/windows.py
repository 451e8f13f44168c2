"""Operators over windows of an image: convolutions and pools."""

from __future__ import annotations

from math import prod

from dovetail.workload.recorded.drafted import Drafting, short_name, vector
from dovetail.workload.recorded.flow import Node
from dovetail.workload.recorded.sizes import Size, product


def draw_convolution(drafting: Drafting, node: Node) -> None:
    """Output pixels by output channels over window times input channels, once a group.

    A transposed convolution is the input gradient of a plain one: its product is input pixels by window times output
    channels over input channels.
    """
    flow = drafting.flow
    drafting.check_weight(node, node.inputs[1])
    x, weight, out = (flow.sides[value] for value in (node.inputs[0], node.inputs[1], node.output))
    groups = node.number("groups", 1)
    window = product(weight[2:]).count
    if node.attributes.get("turned", False):
        pixels, inner, columns = x[0] * product(x[2:]), weight[0].count // groups, weight[1].count * window
        frac, positions = 1.0, 1
    else:
        pixels, inner, columns = out[0] * product(out[2:]), weight[1].count * window, weight[0].count // groups
        frac, positions = _input_frac(drafting, node), window
    owned = drafting.parameters(node.inputs[1:])
    sizes = [Size(groups), pixels, Size(columns), Size(inner), Size(positions)]
    draft = drafting.draw(node, "convolution", sizes, otherwise="convolution")
    draft.shared_frac = frac
    draft.output_frac = _output_frac(drafting, node, groups * columns)
    draft.stride = _sides_of(node, "stride", len(weight) - 2, 1)[0]
    draft.weight = owned[0][1] if owned else 0
    draft.bias = sum(count for _, count in owned[1:])
    draft.owns = owned


def _output_frac(drafting: Drafting, node: Node, num_columns: int) -> float:
    """Elements of the output over those of the product: windows of a transposed convolution lie over each other."""
    if not node.attributes.get("turned", False):
        return 1.0
    num_samples, _, *sides = drafting.flow.tensors[node.inputs[0]].shape
    return drafting.flow.num_recorded(node.output) / (num_samples * prod(sides) * num_columns)


def _sides_of(node: Node, name: str, rank: int, otherwise: int) -> tuple[int, ...]:
    given = node.attributes.get(name, otherwise)
    if isinstance(given, tuple):
        return tuple(given) if len(given) == rank else tuple(given[:1]) * rank or (otherwise,) * rank
    return (int(given),) * rank


def _input_frac(drafting: Drafting, node: Node) -> float:
    """Distinct input elements over those that windows touch; the border of zeros is not among the first."""
    values = (node.inputs[0], node.inputs[1], node.output)
    came, weight, made = (drafting.flow.tensors[value].shape for value in values)
    rank = len(came) - 2
    strides, paddings = _sides_of(node, "stride", rank, 1), _sides_of(node, "padding", rank, 0)
    covered = touched = 1
    for side, window, out, stride, padding in zip(came[2:], weight[2:], made[2:], strides, paddings, strict=True):
        reach = (out - 1) * stride - padding + window
        covered *= out * window if window < stride else min(reach, side)
        touched *= out * window
    return covered / touched


def draw_max_pool(drafting: Drafting, node: Node) -> None:
    stride = _sides_of(node, "stride", 1, 1)[0]
    vector(drafting, node, "strided_maxpool" if stride > 1 else "maxpool", node.output, name=_name(node, "maxpool"))


def draw_average_pool(drafting: Drafting, node: Node) -> None:
    """A mean that keeps the shape is an average over neighbours; one that does not is counted by its input."""
    flow = drafting.flow
    x, out = node.inputs[0], node.output
    few, many = flow.num_recorded(out), flow.num_recorded(x)
    if few >= many:
        vector(drafting, node, "avgpool", out, name=_name(node, "avgpool"))
    else:
        vector(drafting, node, "strided_avgpool", x, name=_name(node, "average"), output_frac=few / many)


def _name(node: Node, otherwise: str) -> str:
    return short_name(node.where, otherwise)
