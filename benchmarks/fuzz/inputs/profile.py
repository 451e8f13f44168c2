"""Traces of profilers: PyTorch's, plain and packed, and Chakra's of one rank."""

from __future__ import annotations

import gzip
from pathlib import Path

from benchmarks.fuzz.case import Seed, seed
from benchmarks.fuzz.inputs import add
from tests.traces_of_profilers import backward, chakra, chakra_node, kernel, op, trace

MM = ([64, 32], [32, 16])
EVENTS = (
    op("aten::linear", 0, 100, 1, [64, 32], [16, 32]),
    op("aten::mm", 10, 50, 2, *MM),
    backward(200, 50, 3),
    op("aten::mm", 210, 10, 4, *MM),
    op("aten::convolution", 300, 9, 5, [2, 4, 8, 8], [4, 4, 3, 3], Concrete_Inputs=[""] * 3 + ["[1, 1]"] * 3),
    op("aten::layer_norm", 320, 9, 6, [64, 32], [32], [32]),
    op("aten::_softmax", 340, 9, 7, [2, 4, 8, 8]),
    op("aten::scaled_dot_product_attention", 360, 9, 8, [2, 4, 16, 8], [2, 4, 16, 8], [2, 4, 16, 8]),
    kernel("gemm", 80, 2),
    kernel("gemm", 40, 4),
    kernel("conv", 20, 5),
    kernel("norm", 10, 6),
    kernel("softmax", 10, 7),
    kernel("flash", 10, 8),
    kernel("Memcpy HtoD", 3, 1, cat="gpu_memcpy"),
    kernel("ncclDevKernel", 9, 0, dtype="Float", Collective_name="allreduce", In_msg_nelems=8, Group_size=2),
)
BF16 = "['Tensor(c10::BFloat16)', 'Tensor(c10::BFloat16)']"
SPEC = (
    "workload: {model: gpt2-345m, global_batch: 8}\ncluster: {name: dgx-h200, devices: 8}\nplan: zero3\nprofile: %s\n"
)


@add("profile", "traces of PyTorch's profiler (.json, .json.gz) and of Chakra (.et), for --profile")
def profiles(_folder: Path) -> tuple[Seed, ...]:
    text = trace(*EVENTS, distributedInfo={"world_size": 2})
    node = chakra(
        chakra_node(1, "aten::mm", shapes="[[64, 32], [32, 16]]", types=BF16),
        chakra_node(2, "gemm", caller=1, took=80, is_cpu=False),
    )
    validate = "validate --profile %s --json"
    spec = "{file: t.json, chip: h200-sxm}"
    return (
        seed({"t.json": text}, validate % "t.json", "validate --profile t.json"),
        seed({"t.json.gz": gzip.compress(text.encode(), 1)}, validate % "t.json.gz"),
        seed({"t.0.et": node}, (validate + " --chip h200") % "t.0.et"),
        seed({"t.json": text, "spec.yaml": SPEC % spec}, "simulate spec.yaml --json"),
    )
