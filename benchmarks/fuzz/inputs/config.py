"""Hugging Face configurations, as Dovetail reads them itself."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.fuzz.case import Seed, seed
from benchmarks.fuzz.inputs import add
from tests.unit.workload.released_configs import RELEASED

COMMANDS = (
    "show config.json --json",
    "simulate --model config.json --cluster dgx-h100x8 --plan zero3 --global-batch 8 --seq 128 --json",
)


@add("config", "a model's config.json of Hugging Face")
def configurations(_folder: Path) -> tuple[Seed, ...]:
    return tuple(seed({"config.json": json.dumps(config)}, *COMMANDS) for config, _ in RELEASED.values())
