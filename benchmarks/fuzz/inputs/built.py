"""Hugging Face configurations, as transformers builds a model of them that is then captured."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.fuzz.case import Seed, seed
from benchmarks.fuzz.inputs import add
from tests.unit.workload.released_configs import RELEASED

SMALL = {"num_hidden_layers": 2, "n_layer": 2, "num_layers": 2, "num_decoder_layers": 2}
MODELS = ("gpt2", "llama-3-8b", "opt-1.3b", "bert-base-uncased", "qwen3-8b")


@add("built", "a config.json that dovetail capture builds by transformers", needs=("torch", "transformers"))
def built(_folder: Path) -> tuple[Seed, ...]:
    shallow = [{key: SMALL.get(key, value) for key, value in RELEASED[name][0].items()} for name in MODELS]
    command = "capture config.json --seq 16 --batch 2 --no-cache --out out.json --json"
    return tuple(seed({"config.json": json.dumps(config)}, command) for config in shallow)
