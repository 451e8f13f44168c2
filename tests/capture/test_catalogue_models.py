"""Every model of the catalogue, captured from PyTorch: the same counts, and the same predictions by the same plans."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'dovetail-codesign[torch]'")
pytest.importorskip(
    "transformers", reason="transformers is not installed: pip install 'dovetail-codesign[transformers]'"
)

from torch.autograd.graph import saved_tensors_hooks

from benchmarks.captured_models import captured_model, compared
from dovetail.parallel.block_memory import kept_bytes
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph
from dovetail.workload.transformer import Transformer
from tests.torch_models import BUILDS, module_of
from tests.torch_models.from_shape import of_shape, strange_fields

QUICK = (
    *("bert-base", "dlrm", "gpt2-345m", "inception-v3", "llama2-7b", "megatron-bert-336m", "mixtral-8x7b"),
    *("mobilenet-v3-large", "opt-350m", "resnet-18", "resnet-50", "resnext-101-32x8d", "vgg-16", "vit-l-16"),
)
# The rest of each family differs in sizes alone; `python -m benchmarks.bars capture` compares all of them.
LARGE = ("deepseek-v3", "gnmt", "gpt3-175b", "opt-1.3b", "palm-540b", "qwen2.5-72b", "t5-large")
OVER_IMAGES = ("inception-v3", "mobilenet-v3-large", "resnet-18", "resnet-50", "resnext-101-32x8d", "vgg-16")
# transformers keeps the router's score correction, one an expert and layer, as a buffer: no gradient trains it
NOT_PARAMETERS = {"deepseek-v3": 58 * 256}
SHAPES = {name: shape for name, model in models.items() if isinstance(shape := model().architecture, Transformer)}
# Layers that are interleaved, which a capture does not fold into a pattern yet.
NOT_FOLDED = {models[name]().family for name, shape in SHAPES.items() if shape.layer_types or shape.mlp_layer_types}
WRITTEN_TWICE = [name for name, shape in SHAPES.items() if name in BUILDS and not strange_fields(shape)]


def marked(names: tuple[str, ...]) -> list[object]:
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names]


def test_every_model_of_the_catalogue_is_there_in_pytorch():
    assert set(BUILDS) <= set(models.names())
    assert all(module_of(name) for name in models.names())
    assert set(OVER_IMAGES) <= set(QUICK)
    families = {models[name]().family for name in (*QUICK, *LARGE)}
    assert families == {models[name]().family for name in BUILDS} - NOT_FOLDED


@pytest.mark.parametrize("name", WRITTEN_TWICE)
def test_a_module_from_a_shape_has_the_parameters_of_the_one_that_is_written_down(name):
    both = (of_shape(SHAPES[name]), BUILDS[name])
    assert len({sum(each.numel() for each in build()[0].parameters()) for build in both}) == 1


@pytest.mark.parametrize("name", models.names())
def test_the_module_has_the_catalogue_s_parameters(name):
    module, _ = module_of(name)()
    ours = models[name]()
    graph = ours.forward(Sample(batch=1, seq=ours.seq, dtype="bf16"))
    assert sum(parameter.numel() for parameter in module.parameters()) == (
        graph.num_parameters - NOT_PARAMETERS.get(name, 0)
    )
    assert all(tensor.is_meta for tensor in (*module.parameters(), *module.buffers()))


@pytest.mark.parametrize("name", marked((*QUICK, *LARGE)))
def test_a_captured_model_is_within_a_hundredth_of_the_catalogue_s_counts_and_three_of_its_steps(name):
    found = list(compared(name, captured_model(name)))
    missed = [f"{row.figure} {row.under}: {row.difference_frac:+.2%}" for row in found if not row.holds]
    assert not missed, f"{name}: {missed}"
    assert {row.figure for row in found} == {"parameters", "model FLOP", "executed FLOP", "activations", "step"}


@pytest.mark.parametrize("name", OVER_IMAGES)
def test_what_a_network_over_images_keeps_is_what_autograd_saves(name):
    """Storages that PyTorch saves, each once and without parameters; ours leave out labels and statistics of norms."""
    module, inputs = BUILDS[name](batch=8)
    parameters = {parameter.untyped_storage()._cdata for parameter in module.parameters()}
    saved = {}

    def note(tensor):
        saved[tensor.untyped_storage()._cdata] = tensor  # held, so that no number is given again
        return tensor

    with saved_tensors_hooks(note, lambda tensor: tensor):
        module(**inputs)
    saved_bytes = sum(tensor.untyped_storage().nbytes() for number, tensor in saved.items() if number not in parameters)
    forward = models[name]().forward(Sample(batch=8, seq=1, dtype="bf16", kernels="eager"))
    graph = training_graph(forward, Precision())
    kept = sum(block.repeat * kept_bytes(block, "none") for block in graph.blocks)
    assert kept == pytest.approx(saved_bytes, rel=2e-3)
