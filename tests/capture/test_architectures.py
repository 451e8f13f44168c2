"""Architectures that people train, built tiny from configurations alone and captured, beside PyTorch's own counts."""

from __future__ import annotations

import json
from dataclasses import replace
from math import prod

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, an extra, is not installed")
transformers = pytest.importorskip("transformers", reason="transformers, an extra, is not installed")

from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import dovetail as dv  # noqa: E402
from dovetail.errors import DovetailError  # noqa: E402
from dovetail.importers.torch_built import built_from_config  # noqa: E402
from dovetail.importers.torch_examples import examples_of  # noqa: E402
from dovetail.workload.layers import Sample  # noqa: E402
from tests.torch_architectures import ARCHITECTURES  # noqa: E402

pytestmark = pytest.mark.slow
BATCH = 2
CAPTURED = [name for name, one in ARCHITECTURES.items() if not one.refusal]
ALL_BY_ALL = {"llama4": 8}  # experts that a row goes through for each that it chooses


def captured(name, tmp_path):
    one = ARCHITECTURES[name]
    file = tmp_path / "config.json"
    file.write_text(json.dumps(one.tiny_config))
    return dv.capture(file, batch=BATCH, seq=one.seq or None, cache=False).captured


def test_there_are_as_many_as_were_promised():
    assert len(CAPTURED) >= 45


def solved_flop(a, b, *_rest, out_shape=None, **_more):
    """A triangular system, which PyTorch does not count: half of the product."""
    del out_shape
    return prod(a[:-2]) * a[-2] * a[-1] * b[-1]


def numbered(example):
    """An input that a model can be run with: tokens within its vocabulary, numbers elsewhere."""
    if not torch.is_tensor(example) or not example.is_meta:
        return example
    if example.is_floating_point():
        return torch.randn(example.shape)
    return torch.zeros(example.shape, dtype=torch.int64) if example.dim() == 1 else torch.randint(3, 120, example.shape)


def real_run(one):
    """A module with weights, and the FLOP of its forward pass by PyTorch's own counter; gradients are there."""
    torch.manual_seed(0)
    meta = built_from_config(one.tiny_config).module
    meta.config._experts_implementation = "eager"  # by a loop: PyTorch does not count grouped products
    module = type(meta)(meta.config).train()
    if getattr(module.config, "is_encoder_decoder", False):
        module.config.decoder_start_token_id = 1
    inputs = {name: numbered(value) for name, value in examples_of(module, BATCH, one.seq).inputs.items()}
    counts = {torch.ops.aten.linalg_solve_triangular: solved_flop}
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False, custom_mapping=counts) as counter:
        made = module(**inputs)
    floats = [each for each in made.to_tuple() if torch.is_tensor(each) and each.requires_grad]
    (made.loss if made.get("loss") is not None else sum(each.float().sum() for each in floats)).backward()
    return module, counter.get_total_flops() - of_positions(counter)


def of_positions(counter):
    """Products of positions and frequencies, as some releases have them: constants, which no step computes again."""
    counts = counter.get_flop_counts()
    return sum(sum(flop.values()) for name, flop in counts.items() if name.rpartition(".")[2].startswith("rotary"))


def of_all_keys(found):
    """As PyTorch counts: masked scores too."""
    stretches = tuple(
        replace(stretch, parts=tuple(replace(part, window=0) for part in stretch.parts)) for stretch in found.stretches
    )
    return replace(found, stretches=stretches)


@pytest.mark.parametrize("name", CAPTURED)
def test_it_counts_as_pytorch_does(name, tmp_path):
    found = captured(name, tmp_path)
    module, flop = real_run(ARCHITECTURES[name])
    sample = Sample(batch=BATCH, seq=found.seq, dtype="bf16")
    graph = of_all_keys(found).forward(sample)
    of_experts = sum(
        stretch.repeat * 2 * prod(size.at(BATCH, found.seq) for size, _ in part.extents[:4])
        for stretch in found.stretches
        for part in stretch.parts
        if part.kind == "expert_linear"
    )
    assert graph.model_flop + (ALL_BY_ALL.get(name, 1) - 1) * of_experts == flop
    num_read = sum(each.numel() for each in module.parameters() if each.grad is not None or not each.requires_grad)
    num_all = sum(each.numel() for each in module.parameters())
    assert num_read <= found.num_parameters <= num_all
    if num_read < num_all:  # of some only an index is read, or nothing: PyTorch gives them no gradient
        assert any(note.startswith("no gradient reaches") for note in found.notes)
    else:
        assert found.num_parameters == num_all
    windows = {part.window for stretch in found.stretches for part in stretch.parts if part.kind == "attention"}
    assert windows - {0} == set(ARCHITECTURES[name].windows)


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name not in CAPTURED])
def test_what_cannot_be_captured_is_refused_in_one_line(name, tmp_path):
    with pytest.raises(DovetailError, match=rf"^{ARCHITECTURES[name].refusal}[^\n]+$"):
        captured(name, tmp_path)


def test_a_loop_over_positions_is_refused_with_the_operator_and_its_line(tmp_path):
    one = ARCHITECTURES["mamba"]
    file = tmp_path / "config.json"
    file.write_text(json.dumps(one.released_config))
    with pytest.raises(
        DovetailError, match=r"^backbone\S+ runs aten::\w+ once more after [\d,]+ operators at \S+:\d+,"
    ):
        dv.capture(file, cache=False)
