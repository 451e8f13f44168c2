"""Models of the libraries that people take them from: torchvision, diffusers, and peft on top of transformers."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, an extra, is not installed")

from torch import nn  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import dovetail as dv  # noqa: E402
from dovetail.workload.layers import Sample  # noqa: E402
from dovetail.workload.optimizer import Precision  # noqa: E402
from dovetail.workload.recorded.captured import Captured  # noqa: E402
from dovetail.workload.training import training_graph  # noqa: E402

pytestmark = pytest.mark.slow
BATCH, SEQ = 2, 32
NETS = ("resnet50", "vgg16", "convnext_tiny", "swin_t", "mobilenet_v2", "mobilenet_v3_large")


def on_meta(values):
    return {name: value.to("meta") if torch.is_tensor(value) else value for name, value in values.items()}


def captured(module, inputs):
    found = dv.capture(module, inputs, cache=False).captured
    assert isinstance(found, Captured)
    return found


def check_counts(module, inputs):
    """Parameters, and the FLOP of the forward pass by PyTorch's own counter."""
    found = captured(module, inputs)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        module(**inputs)
    graph = found.forward(Sample(batch=BATCH, seq=found.seq, dtype="bf16"))
    assert graph.model_flop == counter.get_total_flops()
    assert found.num_parameters == graph.num_parameters == sum(each.numel() for each in module.parameters())
    return found


@pytest.mark.parametrize("name", NETS)
def test_a_network_of_torchvision(name):
    torchvision = pytest.importorskip("torchvision", reason="torchvision is not installed")
    with torch.device("meta"):
        module = getattr(torchvision.models, name)().train()
    check_counts(module, {"x": torch.empty(BATCH, 3, 224, 224, device="meta")})


def unet():
    diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed")
    module = diffusers.UNet2DConditionModel(
        sample_size=16,
        block_out_channels=(32, 64),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=8,
        norm_num_groups=8,
    )
    text, step = torch.randn(BATCH, 7, 32), torch.zeros(BATCH, dtype=torch.long)
    return module, {"sample": torch.randn(BATCH, 4, 16, 16), "timestep": step, "encoder_hidden_states": text}


def diffusion_transformer():
    diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed")
    module = diffusers.DiTTransformer2DModel(
        num_attention_heads=4,
        attention_head_dim=16,
        num_layers=2,
        sample_size=16,
        in_channels=4,
        out_channels=8,
        num_embeds_ada_norm=10,
    )
    step, label = (torch.zeros(BATCH, dtype=torch.long) for _ in range(2))
    return module, {"hidden_states": torch.randn(BATCH, 4, 16, 16), "timestep": step, "class_labels": label}


@pytest.mark.parametrize("build", [unet, diffusion_transformer])
def test_a_model_of_diffusers(build):
    module, inputs = build()
    check_counts(module.train().to("meta"), on_meta(inputs))


def llama():
    transformers = pytest.importorskip("transformers", reason="transformers, an extra, is not installed")
    config = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=128,
        use_cache=False,
    )
    return transformers.LlamaForCausalLM(config).train()


def test_lora_trains_its_adapters_alone():
    peft = pytest.importorskip("peft", reason="peft is not installed")
    settings = peft.LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    module = peft.get_peft_model(llama(), settings).train()
    tokens = torch.zeros(BATCH, SEQ, dtype=torch.long)
    found = check_counts(module, {"input_ids": tokens, "labels": tokens})
    assert found.num_trained == sum(each.numel() for each in module.parameters() if each.requires_grad)
    assert any("parameters are frozen" in note for note in found.notes)
    sample = Sample(batch=BATCH, seq=SEQ, dtype="bf16")
    whole = captured(llama(), {"input_ids": tokens, "labels": tokens})
    ours, all_trained = (training_graph(each.forward(sample), Precision()).model_flop for each in (found, whole))
    assert 2 / 3 < ours / all_trained < 0.8  # the gradients of frozen weights, a third, are left out; adapters come in


def test_a_frozen_encoder_has_no_backward_pass():
    class Probe(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4))).requires_grad_(False)
            self.head = nn.Linear(64, 10)

        def forward(self, x):
            return self.head(self.encoder(x))

    found = captured(Probe(), torch.zeros(8, 64))
    forward = found.forward(Sample(batch=8, seq=1, dtype="bf16"))
    step = training_graph(forward, Precision())
    assert step.model_flop - forward.model_flop == 2 * 8 * 64 * 10  # of the head's weight


CAPTURE = """
import dovetail, json, sys
config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 96,
          "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 128}
open("config.json", "w").write(json.dumps(config))
from dovetail.cli import main
sys.exit(main(["capture", "config.json", "--seq", "32", "--no-cache"]))
"""


def test_torchvision_that_cannot_be_imported_ends_in_one_line(tmp_path):
    """Whatever it raises: transformers imports it wherever it is installed."""
    pytest.importorskip("transformers", reason="transformers, an extra, is not installed")
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    about = tmp_path / "torchvision-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: torchvision\nVersion: 0.1\n")
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH", ""))))
    ran = subprocess.run(
        [sys.executable, "-c", CAPTURE],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode in (0, 2), ran.stderr
    if ran.returncode:
        [line] = ran.stderr.strip().splitlines()
        assert "operator torchvision::nms does not exist" in line
