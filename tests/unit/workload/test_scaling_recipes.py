"""Scaling recipes: what narrow products cast, how often, and who can multiply it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.errors import InvalidInput, NotModelled
from dovetail.evaluate import check_formats
from dovetail.hardware.catalog import chips
from dovetail.hardware.clusters import clusters
from dovetail.workload.graph import Ops, Phase
from dovetail.workload.models import models
from dovetail.workload.operators import OPERATORS
from dovetail.workload.optimizer import Precision
from dovetail.workload.scaling_recipes import scaling_recipes
from dovetail.workload.workload import Workload


def layer(recipe: str, model: str = "mixtral-8x7b", kernels: str = "fused") -> Ops:
    """The operators of one layer whose products are narrow by `recipe`."""
    workload = Workload(model=models[model](), global_batch=8, seq=1024, kernels=kernels)
    graph = replace(workload, precision=Precision(compute=recipe)).training_graph()
    return next(block.ops for block in graph.blocks if block.is_layer)


def names(ops: Ops, kind: str, phase: Phase = Phase.FORWARD) -> list[str]:
    """Of the operators of `kind` in `phase`, the products that they are for."""
    found = zip(ops.names, ops.kind, ops.phase, strict=True)
    return [name.split(":")[0] for name, code, when in found if OPERATORS[code].name == kind and when == phase]


def test_a_dtype_has_a_recipe_of_its_own_and_a_recipe_a_dtype():
    assert Precision(compute="fp8").recipe == "delayed"
    assert Precision(compute="fp4").recipe == "nvfp4"
    assert Precision(compute="bf16").recipe == ""
    short = Precision(compute="mxfp8")
    assert (short.compute, short.recipe) == ("fp8", "mxfp8")
    assert Precision(compute="fp8", recipe="tensorwise").recipe == "current"


@pytest.mark.parametrize(("compute", "recipe"), [("bf16", "mxfp8"), ("fp8", "nvfp4"), ("fp4", "current")])
def test_a_recipe_for_another_dtype_is_refused(compute, recipe):
    with pytest.raises(InvalidInput, match=f"the recipe {recipe} is for products in"):
        Precision(compute=compute, recipe=recipe)


def test_a_recipe_nobody_has_is_refused_with_those_there_are():
    with pytest.raises(InvalidInput, match=r"blockwize.*did you mean blockwise"):
        Precision(compute="fp8", recipe="blockwize")


@pytest.mark.parametrize(
    ("recipe", "written"), [("delayed", 2.0), ("current", 2.0), ("blockwise", 2 + 8 / 128), ("mxfp8", 2 + 2 / 32)]
)
def test_a_cast_writes_a_copy_by_rows_and_one_by_columns_with_their_scales(recipe, written):
    assert scaling_recipes[recipe].written_bytes == pytest.approx(written)


def test_four_bits_in_blocks_of_sixteen_are_nine_bits_of_two_elements():
    assert scaling_recipes["nvfp4"].element_bytes == pytest.approx(0.5 + 1 / 16)


def test_the_router_stays_wide_and_what_two_products_read_is_cast_once():
    ops = layer("current")
    cast = names(ops, "quantize")
    assert "router_gate" not in cast
    assert cast.count("q") + cast.count("kv") == 1
    assert len(names(ops, "quantize", Phase.INPUT_GRAD)) == len(set(names(ops, "quantize", Phase.INPUT_GRAD)))
    assert {"q", "kv"} <= set(names(ops, "quantize", Phase.INPUT_GRAD))  # their gradients are two tensors


def test_a_norm_writes_narrow_at_once_where_the_recipe_has_it():
    assert "q" not in names(layer("mxfp8"), "quantize")
    assert "q" in names(layer("blockwise"), "quantize")
    assert "q" in names(layer("mxfp8", kernels="eager"), "quantize")
    assert "expert_up" in names(layer("mxfp8"), "quantize")  # rows come from other devices, not from a norm


@pytest.mark.parametrize("recipe", ["current", "nvfp4"])
def test_a_tensor_with_a_scale_of_its_own_is_swept_first(recipe):
    ops = layer(recipe)
    assert names(ops, "amax") == names(ops, "quantize")
    assert names(layer("mxfp8"), "amax") == []


def test_experts_are_cast_together_by_delayed_scaling_and_one_by_one_else():
    for recipe, groups in (("delayed", 1), ("mxfp8", 8), ("current", 8)):
        ops = layer(recipe)
        row = list(ops.names).index("expert_down:quantize")
        assert ops.extents[row, 0] == groups
        assert ops.extents[row, 0] * ops.extents[row, 1] == 8 * 1024 * 2


def test_weights_of_narrow_products_are_cast_once_a_step():
    ops = layer("mxfp8", "llama3-8b")
    rows = [row for row, name in enumerate(ops.names) if name == "weights:quantize"]
    is_narrow = np.array([OPERATORS[code].name == "linear" for code in ops.kind]) & (ops.phase == Phase.FORWARD)
    assert ops.extents[rows, 1].sum() == ops.weight_elements[is_narrow].sum()
    assert set(ops.phase[rows].tolist()) == {Phase.UPDATE}
    assert "weights:quantize" not in layer("bf16", "llama3-8b").names


@pytest.mark.parametrize(
    ("cluster", "chip", "recipe"),
    [("dgx-h100", "h100-sxm", "mxfp8"), ("dgx-h100", "h100-sxm", "nvfp4"), ("dgx-a100", "a100-80gb-sxm", "delayed")],
)
def test_a_chip_without_the_format_says_so(cluster, chip, recipe):
    with pytest.raises(NotModelled, match=chip):
        check_formats(Precision(compute=recipe), cluster_of(cluster))


def test_blocks_are_scaled_by_blackwell_and_cdna_4_and_nvfp4_by_nvidia_alone():
    for name in ("dgx-b200", "gb200-nvl72"):
        for recipe in ("mxfp8", "nvfp4", "blockwise"):
            check_formats(Precision(compute=recipe), cluster_of(name))
    amd = replace(cluster_of("dgx-b200"), chip=chips["mi355x"]())
    check_formats(Precision(compute="mxfp8"), amd)
    with pytest.raises(NotModelled, match="mi355x does not multiply nvfp4; compute in mxfp8"):
        check_formats(Precision(compute="nvfp4"), amd)


def cluster_of(name: str):
    return clusters[name].build(8 if name != "gb200-nvl72" else 72)
