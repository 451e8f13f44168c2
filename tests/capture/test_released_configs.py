"""Released configurations of Hugging Face, captured from transformers and read by Dovetail itself: one model."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'dovetail-codesign[torch]'")
pytest.importorskip(
    "transformers", reason="transformers is not installed: pip install 'dovetail-codesign[transformers]'"
)

import dovetail
from benchmarks.captured_models import MOST_FRAC, figures
from dovetail.errors import InvalidInput
from dovetail.workload.huggingface import model_from_config
from dovetail.workload.layers import Sample
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph
from tests.unit.workload.released_configs import RELEASED

NUM_LAYERS, SEQ = 6, 256
DEPTHS = ("num_hidden_layers", "n_layer", "num_layers", "num_decoder_layers")
NOT_BUILT = {
    "deepseek-moe-16b": "knows no model_type 'deepseek'",
    "qwen-7b": "knows no model_type 'qwen'",
    "t5-large": "no class 'T5WithLMHeadModel'",
    "phi-3.5-moe": "rope_parameters",
}
# what transformers does in another way than the published model or its first code: by model, the figures that differ
OTHERWISE = {
    "t5-v1.1-large": {"parameters"},  # since version 5 all heads of T5 are tied, whatever the configuration says
    "mt5-small": {"parameters"},
    "phi-2": {"activations"},  # both branches of a layer have a dropout of their own
}
# layers with a window and without take turns: those of one turn are one block, and one layer to a pipeline
INTERLEAVED = {"gemma-2-9b": 2, "gpt-oss-20b": 2, "gpt-oss-120b": 2}


def shallow(config):
    cut = config | {key: min(config[key], NUM_LAYERS) for key in DEPTHS if key in config}
    return cut | ({"layer_types": config["layer_types"][:NUM_LAYERS]} if "layer_types" in config else {})


@pytest.mark.parametrize("name", [name for name in RELEASED if name not in NOT_BUILT])
def test_a_configuration_captured_counts_as_dovetail_reads_it(name, tmp_path):
    config = shallow(RELEASED[name][0])
    file = tmp_path / f"{name}.json"
    file.write_text(json.dumps(config))
    captured = dovetail.capture(file, seq=SEQ, batch=2, cache=False).model
    sample = Sample(batch=4, seq=SEQ, dtype="bf16")
    graphs = [
        training_graph(model.forward(sample), Precision()) for model in (model_from_config(config, name), captured)
    ]
    both = list(zip(*map(figures, graphs), strict=True))
    off = {
        figure: theirs / ours - 1
        for (figure, _, ours), (_, _, theirs) in both
        if abs(theirs / ours - 1) > MOST_FRAC[figure]
    }
    assert set(off) == OTHERWISE.get(name, set()), off
    assert graphs[0].num_layers == INTERLEAVED.get(name, 1) * graphs[1].num_layers


@pytest.mark.parametrize("name", NOT_BUILT)
def test_a_configuration_that_transformers_cannot_build_says_why(name, tmp_path):
    file = tmp_path / f"{name}.json"
    file.write_text(json.dumps(shallow(RELEASED[name][0])))
    with pytest.raises(InvalidInput, match=NOT_BUILT[name]):
        dovetail.capture(file, seq=SEQ, cache=False)
