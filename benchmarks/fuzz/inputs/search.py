"""Specs of searches: plans, chips and whole systems, with spaces small enough to be searched in a moment."""

from __future__ import annotations

from pathlib import Path

from benchmarks.fuzz.case import Seed, seed
from benchmarks.fuzz.inputs import add

MODEL = "{base: gpt2-345m, name: small, num_layers: 2}"
PLAN = f"""\
workload: {{model: {MODEL}, global_batch: 8, seq: 128}}
cluster: {{name: dgx-h100, devices: 4}}
space: {{tp: [1, 2], pp: 1, recompute: none, overlap: {{tensor: [true, false]}}, zero_stage: [0, 1],
        microbatch: [1, 2], stages: even}}
plan: {{tp: 2, zero_stage: 1}}
"""
PARTS = f"""\
workload: {{model: {MODEL}, global_batch: 8, seq: 128}}
cluster: {{parts: [{{name: dgx-h100, devices: 2}}, {{name: dgx-a100, devices: 2}}],
          between: {{bandwidth: 25 GB/s, latency: 8 us}}}}
space: {{tp: [1, 2], recompute: [none, full], zero_stage: 1, microbatch: 1}}
"""
CHIP = "{base: tpuv2-like, area: 606.68 mm2, power: 280 W, sides: [64, 128], lanes: [64], counts: [1, 2, 4]}"
MINE = f"models: [{{model: {MODEL}, global_batch: 2, seq: 128}}, {{model: resnet-18, global_batch: 2}}]\nchip: {CHIP}\n"
PLANNED = f"""\
workload: {{model: {MODEL}, global_batch: 4, seq: 128}}
devices: 2
space: {{pipeline_parallel: 2, microbatch: 1, recompute: none, zero_stage: 0}}
stages: pooled
keep: 2
chip: {CHIP}
"""
SYSTEMS = f"""\
name: small
models: [{{model: {MODEL}, global_batch: 8, seq: 128}},
         {{model: {{base: bert-base, num_layers: 2}}, global_batch: 8, seq: 128}}]
weights: [2, 1]
devices: 2
network: torus
chip: {{base: tpuv2-like, num_tensor: [1, 2], num_rows: 128, num_cols: 128, num_lanes: 128, num_vector: 2, sram_mib: 16,
       hbm_stacks: 2, stack_gib: 8, clock_mhz: 700, link_gb_per_s: 62, endpoint: sm}}
budget: {{area: 700 mm2, power: 400 W, total_power: 2 kW, total_area: 3000 mm2, total_usd: 100000}}
space: {{tensor_parallel: 1, microbatch: [1, 2], recompute: none, zero_stage: 0}}
"""


@add("search", "specs of plan, mine, codesign and pareto: workloads, spaces, budgets", needs=("optuna",))
def searches(_folder: Path) -> tuple[Seed, ...]:
    return (
        seed(
            {"spec.yaml": PLAN},
            "plan spec.yaml --top 2 --limit 2 --json",
            "plan spec.yaml --top 2 --limit 2 --objective tokens/J",
        ),
        seed({"spec.yaml": PARTS}, "plan spec.yaml --top 2 --limit 2 --json"),
        seed({"spec.yaml": MINE}, "mine spec.yaml --json", "mine spec.yaml --algorithm random --budget 4"),
        seed({"spec.yaml": PLANNED}, "mine spec.yaml --json"),
        seed(
            {"spec.yaml": SYSTEMS},
            "codesign spec.yaml --no-sensitivity --json",
            "codesign spec.yaml --no-sensitivity --algorithm random --budget 4",
            "pareto spec.yaml --axes throughput,power --json",
        ),
    )
