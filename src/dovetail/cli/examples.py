"""Examples of every command, as its --help shows them; tests run those that are quick, and parse the others.

They are run in this order and in one folder: what one writes, a later one may read.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """A line as one types it, and whether it answers within seconds from files that are there."""

    line: str
    is_quick: bool = True


WIDTH = 70  # of a line, so that help with its margins and a backslash stays within 80 columns
RING = "ring:4@50GB/s,500ns"
EXAMPLES: dict[str, tuple[Example, ...]] = {
    "dovetail": (
        Example("dovetail simulate examples/llama3-70b-512xh100.yaml"),
        Example("dovetail plan --model llama3-70b --cluster dgx-h100 --devices 64", is_quick=False),
        Example("dovetail show h100-sxm"),
    ),
    "dovetail simulate": (
        Example("dovetail simulate examples/llama3-70b-512xh100.yaml"),
        Example("dovetail simulate --model llama3-8b --cluster dgx-h100 --plan zero3"),
        Example("dovetail simulate examples/llama3-70b-512xh100.yaml --seq 16384"),
        Example("dovetail simulate examples/mixtral-8x7b-64xh100.yaml --perfetto s.pftrace"),
        Example("dovetail simulate spec.yaml --profile trace.json.gz", is_quick=False),
    ),
    "dovetail compare": (
        Example("dovetail compare h100x64 h200x64 --model llama3-8b --plan zero3"),
        Example("dovetail compare --model llama3-8b --cluster h100x64 --plan tp=8 --plan tp=4,pp=2"),
        Example("dovetail compare a.yaml b.yaml --price '2.5 $/h' --tokens 15T", is_quick=False),
    ),
    "dovetail sweep": (
        Example("dovetail sweep examples/llama3-70b-512xh100.yaml --over plan.tp=2,4,8"),
        Example("dovetail sweep spec.yaml --over chip.hbm.bandwidth=2TB/s..8TB/s:7", is_quick=False),
    ),
    "dovetail plan": (
        Example("dovetail plan --model llama3-8b --cluster dgx-h100 --devices 8 --fix tp=8"),
        Example("dovetail plan examples/llama3-70b-512xh100.yaml", is_quick=False),
        Example("dovetail plan examples/llama3-70b-mixed.yaml --plan-file p.yaml", is_quick=False),
    ),
    "dovetail launch": (
        Example("dovetail launch examples/llama3-70b-512xh100.yaml --framework megatron-lm"),
        Example("dovetail launch examples/my-cluster.yaml --framework deepspeed --json"),
    ),
    "dovetail capture": (
        Example("dovetail capture examples/capture/my_model.py:decoder"),
        Example("dovetail capture my_package.models:factory --inputs 'x:fp32[8,3,224,224]'", is_quick=False),
        Example("dovetail capture config.json --seq 4096 --out model.json", is_quick=False),
        Example("dovetail capture model.onnx --batch 8 --json", is_quick=False),
        Example("dovetail capture train.py --world-size 64 -- --layers 8", is_quick=False),
    ),
    "dovetail op": (
        Example("dovetail op matmul 4096x4096x4096 --chip h200"),
        Example("dovetail op attention --heads 32 --seq 8192 --head-dim 128 --chip h200"),
        Example("dovetail op list"),
    ),
    "dovetail schedule": (
        Example("dovetail schedule resnet-18 --chip tpuv2-like --block stem"),
        Example("dovetail schedule llama3-8b --chip tpuv4-like --exact", is_quick=False),
    ),
    "dovetail network": (
        Example(f'dovetail network all-reduce --size "64 MiB" --topology {RING}'),
        Example(f"dovetail network all-reduce --size 1MiB..16MiB --topology {RING}"),
        Example(f"dovetail network all-gather --size 1MB --topology {RING} --astra-sim run"),
    ),
    "dovetail trace": (
        Example("dovetail trace run run --topology run.network.yml --system run.system.json"),
    ),
    "dovetail trace run": (
        Example("dovetail trace run run --topology run.network.yml --system run.system.json"),
        Example(f"dovetail trace run run --topology {RING} --perfetto run.pftrace"),
    ),
    "dovetail trace import": (
        Example(f"dovetail trace import workload.txt run --topology {RING}", is_quick=False),
    ),
    "dovetail models": (Example("dovetail models"), Example("dovetail models --json")),
    "dovetail chips": (Example("dovetail chips"), Example("dovetail chips --json")),
    "dovetail clusters": (Example("dovetail clusters"), Example("dovetail clusters --json")),
    "dovetail plans": (Example("dovetail plans"), Example("dovetail plans --json")),
    "dovetail methods": (Example("dovetail methods"), Example("dovetail methods --json")),
    "dovetail show": (
        Example("dovetail show h100-sxm"),
        Example("dovetail show examples/my-cluster.yaml"),
        Example("dovetail show megatron-175b --kind plan --json"),
    ),
    "dovetail validate": (
        Example("dovetail validate array-sims"),
        Example("dovetail validate h200 --worst 5 --plot h200.svg", is_quick=False),
        Example("dovetail validate mine.csv --chip h200", is_quick=False),
        Example("dovetail validate --profile examples/llama-2-layers-h200.json.gz"),
        Example("dovetail validate --all --html page.html", is_quick=False),
    ),
    "dovetail calibrate": (
        Example("dovetail calibrate --runs examples/nemo-runs-dgx-h100.csv --out own.yaml", is_quick=False),
        Example("dovetail calibrate mine.csv --chip h200 --out mine.yaml", is_quick=False),
    ),
    "dovetail measure": (
        Example("dovetail measure --out my-gpu", is_quick=False),
        Example("dovetail measure --only gemm,attention --quick", is_quick=False),
        Example("dovetail measure step config.json --batch 4 --seq 2048", is_quick=False),
    ),
    "dovetail reproduce": (
        Example("dovetail reproduce phaze-dp", is_quick=False),
        Example("dovetail reproduce ace --figures figures", is_quick=False),
        Example("dovetail reproduce wham --model bert-large --quick", is_quick=False),
    ),
    "dovetail mine": (
        Example("dovetail mine resnet-18 --batch 2 --algorithm grid --budget 20 --store s.db"),
        Example("dovetail mine bert-large --metric perf/tdp --area '400 mm2'", is_quick=False),
        Example("dovetail mine examples/mine-a-mosaic.yaml", is_quick=False),
    ),
    "dovetail codesign": (
        Example("dovetail codesign", is_quick=False),
        Example("dovetail codesign examples/codesign-two-models.yaml --store s.db", is_quick=False),
    ),
    "dovetail pareto": (
        Example("dovetail pareto gpt2-1.5b --axes throughput,power --csv front.csv", is_quick=False),
        Example("dovetail pareto --plot front.svg --store s.db", is_quick=False),
    ),
    "dovetail studies": (Example("dovetail studies s.db"), Example("dovetail studies s.db --json")),
    "dovetail export": (Example("dovetail export s.db --out rows.csv"),),
    "dovetail completion": (
        Example("dovetail completion bash >> ~/.bashrc"),
        Example("dovetail completion zsh >> ~/.zshrc"),
        Example("dovetail completion fish > ~/.config/fish/completions/dovetail.fish"),
    ),
    "dovetail ui": (
        Example("dovetail ui --open", is_quick=False),
        Example("dovetail ui --port 8040 --store s.db", is_quick=False),
    ),
}  # fmt: skip


def example_text(path: str) -> str:
    """The examples of a command for its help, each on a line that is not filled; empty where it has none."""
    lines = [line for example in EXAMPLES.get(path, ()) for line in _wrapped(example.line)]
    return "\n".join(["\b", "Examples:", *lines]) if lines else ""


def _wrapped(line: str) -> Iterator[str]:
    """A line as a shell takes it on several, where it is too long for one."""
    first, *rest = textwrap.wrap(line, WIDTH, break_on_hyphens=False, break_long_words=False)
    *before, last = [f"  {first}", *(f"    {more}" for more in rest)]
    yield from (f"{some} \\" for some in before)
    yield last
