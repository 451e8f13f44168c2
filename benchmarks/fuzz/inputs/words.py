"""What is typed: sizes, quantities, networks, names and counts on the command line."""

from __future__ import annotations

from pathlib import Path

from benchmarks.fuzz.case import Seed, seed
from benchmarks.fuzz.inputs import add

COMMANDS = (
    "op matmul 64x64x64 --chip h200 --json",
    "op matmul 64 32 16 --chip h100-sxm --dtype fp8 --batch 2 --pass weight-grad --setting stream --json",
    "op attention --heads 8 --kv-heads 2 --seq 128 --head-dim 64 --causal --chip h200 --compare",
    "op convolution 3 16 32 --kernel 3 --stride 2 --batch 2 --chip tpuv4-like --json",
    "op embedding 64 32 --table-rows 1000 --chip h200 --json",
    "op layernorm 64 32 --chip h200 --fused --json",
    "network all-reduce --size 1MiB --topology ring:4@50GB/s,500ns --json",
    "network all-gather --size 1MiB..4MiB --topology ring:4..8@50GB/s,500ns --chunks 2 --active 2 --policy lifo --json",
    "network all-reduce --size 1MB --topology ring:4@50GB/s,500nsxswitch:2@9GB/s,1us --algorithm x=ring,y=direct",
    "network all-to-all --size 64KiB --topology torus:2x2x2@50GB/s,500ns --groups 0-3;4-7 --slow 2-3=0.5 --json",
    "network all-reduce --size 1MiB --topology ring:4@50GB/s,500ns --endpoint sm-ring --memory 450GB/s --sms 6@40GB/s",
    "network broadcast --size 1MiB --topology dragonfly:3x2x1@50GB/s,500ns --json",
    "simulate --model gpt2-345m --cluster dgx-h100x8 --plan zero3 --global-batch 8 --tokens 1B --compute fp8 --json",
    "plan --model gpt2-345m --cluster dgx-h100x2 --global-batch 4 --fix tp=1 --fix pp=1 --forbid recompute --limit 1",
    "mine resnet-18 --batch 2 --algorithm random --budget 2 --area 600mm2 --power 280W --seed 3 --json",
    "schedule resnet-18 --chip tpuv2-like --block stem --batch 1 --recompute full --json",
    "show h100-sxm --kind chip --json",
    "launch --model gpt2-345m --cluster dgx-h100x8 --plan zero1 --framework torchtitan --global-batch 8",
    "models --json",
    "reproduce phaze-dp --json",
)


@add("words", "the words of a command: sizes, quantities, networks, names and counts")
def words(_folder: Path) -> tuple[Seed, ...]:
    return tuple(seed({}, command) for command in COMMANDS)
