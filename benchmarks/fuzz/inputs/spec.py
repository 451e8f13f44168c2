"""Specs and what they are made of: jobs, models, chips, clusters and plans."""

from __future__ import annotations

from pathlib import Path

from benchmarks.bar import REPOSITORY
from benchmarks.fuzz.case import Seed, seed
from benchmarks.fuzz.inputs import add
from dovetail.files.job import load_spec
from dovetail.files.job_text import job_text
from dovetail.files.plan_text import plan_text
from dovetail.hardware.cluster import Cluster

SIMULATE = (
    "simulate spec.yaml --json",
    "simulate spec.yaml",
    "launch spec.yaml --framework megatron-lm",
    "show spec.yaml",
)
EXAMPLES = ("llama3-70b-512xh100", "llama3-70b-mixed", "mixtral-8x7b-64xh100", "my-cluster", "resnet-50-16xtorus")
MODEL = """\
{base: gpt2-345m, name: own, num_layers: 4, hidden: 256, num_heads: 4, num_kv_heads: 2, head_width: 64, ffn_width: 512,
 vocab: 1000, seq: 128, batch: 8}
"""
MIXTURE = """\
workload:
  model: {base: mixtral-8x7b, num_layers: 4, experts: {num_experts: 8, num_experts_per_token: 2, width: 1024}}
  global_batch: 32
  seq: 512
  attention: flash-2
  kernels: compiled
  precision: {optimizer: adam, compute: fp8, weights: bf16, gradients: fp32, moments: fp32, master_weights: true}
  routing: {expert_imbalance: 1.3, capacity_factor: 1.25, pads_to_capacity: true}
cluster:
  name: llama3-grandteton
  devices: 16
  host: {devices: 8, link: 31.5 GB/s, memory: 2 TB, memory_bandwidth: 614 GB/s, latency: 10 us}
  reliability:
    failures: {mtbf: 150 d, devices: 8}
    restart: 15 min
    checkpoint: {storage: 2 TB/s, device_storage: 1 GB/s, write: 30 s, asynchronous: true, interval: 30 min}
    slow_devices: {speed: 0.9, count: 2, onsets: {mtbf: 150 d}, detect: 1 d}
plan:
  tp: 2
  ep: 4
  dp: 4
  pp: 2
  interleave: 2
  sp: true
  zero_stage: 1
  microbatch: 1
  recompute: [full, none]
  recompute_layers: [1, 1]
  offload_activations_frac: 0.5
  offload_optimizer: true
  framework: megatron-lm
  axis_order: [tp, cp, dp, pp]
  overlap: {data: true, tensor: false, expert: true}
"""
CHIP = """\
base: h100-sxm
name: own
clock: 1.5 GHz
tensor: {units: 132, rows: 16, cols: 16, rates: {bf16: 900 TFLOP/s, fp8: 1800 TFLOP/s},
         tiling: {tiles: [[128, 128], [64, 256]], stationary: [output, weight], steps: 8, fill: load, staging: 1 MiB}}
vector: {units: 132, lanes: 128, peak: 60 TFLOP/s}
core_buffer: 256 KiB
sram: {capacity: 50 MiB, bandwidth: 5 TB/s}
hbm: {capacity: 80 GiB, bandwidth: 3.3 TB/s}
tdp: 700 W
interconnect: 450 GB/s
endpoint: dma
calibration: {tensor_frac: 0.9, hbm_frac: 0.8, link_frac: 0.7, launch: 2 us, exchange: 5 us, sram_reuse: 2}
energy: {tensor_per_flop: 0.5 pJ, hbm_per_byte: 30 pJ, idle: 100 W}
"""
CLUSTER = """\
base: {name: own, chip: chip.yaml, topology: [{name: a, kind: switch, devices: 4, bandwidth: 450 GB/s, latency: 2 us},
       {name: b, kind: fat-tree, devices: 2, bandwidth: 400 Gb/s, latency: 5 us, oversubscription: 2}]}
name: own-calibrated
calibration: {compute: 0.9, links: 0.8, fitted_on: own.csv, runs: 9, scales: 1, spread: 0.1}
"""


@add("spec", "specs, and files with a model, chip, cluster or plan: YAML and JSON")
def specs(_folder: Path) -> tuple[Seed, ...]:
    jobs = {name: (REPOSITORY / "examples" / f"{name}.yaml").read_text(encoding="utf-8") for name in EXAMPLES}
    job, images = (load_spec(str(REPOSITORY / "examples" / f"{name}.yaml")) for name in EXAMPLES[-3::2])
    assert isinstance(images.cluster, Cluster)
    whole = job_text("whole", images.workload, images.cluster, images.plan)
    parts = {"model.yaml": MODEL, "chip.yaml": CHIP, "cluster.yaml": CLUSTER, "plan.yaml": plan_text(job.plan)}
    own = "workload: {model: model.yaml, global_batch: 16}\ncluster: cluster.yaml\nplan: {tp: 2, zero_stage: 1}\n"
    return (
        *(seed({"spec.yaml": text}, *SIMULATE) for text in (*jobs.values(), whole, MIXTURE)),
        seed(parts | {"spec.yaml": own}, *SIMULATE, "simulate spec.yaml --tokens 1T --json"),
        seed(parts, "show chip.yaml --json", "op matmul 64x64x64 --chip chip.yaml --json", broken=("chip.yaml",)),
        seed(parts, "show cluster.yaml --kind cluster --json", broken=("cluster.yaml", "chip.yaml")),
        seed(
            parts,
            "show model.yaml --kind model",
            "schedule model.yaml --chip tpuv4-like --json",
            broken=("model.yaml",),
        ),
        seed(
            parts,
            "simulate --model mixtral-8x7b --cluster dgx-h100x64 --plan plan.yaml --global-batch 256 --json",
            broken=("plan.yaml",),
        ),
    )
