"""DeepSpeed's log: samples per second of its throughput timer, or the pipeline engine's line, and its printed config.

Lines are as deepspeed/utils/timer.py and runtime/pipe/engine.py write them.
"""

from __future__ import annotations

import re

from dovetail.files.training_logs import LogFormat, log_formats, matching
from dovetail.files.training_logs.draft import Draft, Line, assume_eager, count_in, number_in
from dovetail.units import GIBI

STEP_LINE = re.compile(r"(?:/global_step=|stop\] \d+/)(\d+)(?:,|$)|\bsteps: (\d+) loss: ")
_RATE = re.compile(r"CurrSamplesPerSec=([^,\s]+)")
_TIMES = re.compile(r"iter time \(s\): (\S+)")
_MEMORY = re.compile(r"MaxMemAllocated=([\d.]+)GB")
_CONFIG = re.compile(r"config\.py:\d+:print\w*\]\s+([a-z_0-9]+) \.* (.*)")
_SAVED = re.compile(r"(?:Saved|Saving|is about to be saved)", re.IGNORECASE)


def read(lines: list[Line], draft: Draft) -> None:
    config: dict[str, str] = {}
    for line in lines:
        text = line.text
        if found := STEP_LINE.search(text):
            _take_step(line, count_in(found[1] or found[2]), draft)
        elif printed := _CONFIG.search(text):
            config[printed[1]] = printed[2].strip()
        elif "heckpoint" in text and _SAVED.search(text):
            draft.checkpointed()
        elif "DeepSpeed info: version=" in text and draft.steps:
            draft.started()
    _take_job(config, draft)


def _take_step(line: Line, step: int, draft: Draft) -> None:
    rate, seconds, memory = (pattern.search(line.text) for pattern in (_RATE, _TIMES, _MEMORY))
    allocated = number_in(memory[1]) * GIBI if memory else 0.0
    peak = allocated if allocated > 0 else 0.0
    if rate is not None:
        return draft.took(line, step, {"samples_per_s": number_in(rate[1])}, allocated_bytes=peak)
    if seconds is not None:
        return draft.took(line, step, {"step_s": number_in(seconds[1])}, allocated_bytes=peak)
    return draft.cannot_read(line, "it ends before its samples per second")


def _take_job(config: dict[str, str], draft: Draft) -> None:
    narrow = (
        "bf16" if config.get("bfloat16_enabled") == "True" else "fp16" if config.get("fp16_enabled") == "True" else ""
    )
    draft.describe(
        "workload",
        global_batch=count_in(config.get("train_batch_size", "")),
        precision={"compute": narrow, "compute_gradients": True, "unfused_accumulation": True} if narrow else {},
    )
    assume_eager(draft)
    draft.describe("cluster", devices=count_in(config.get("world_size", "")))
    if "zero_optimization_stage" in config and not any(one.pace.step_s for one in draft.steps):  # no pipeline engine
        draft.describe(
            "plan",
            zero_stage=count_in(config["zero_optimization_stage"]),
            microbatch=count_in(config.get("train_micro_batch_size_per_gpu", "")),
            framework="deepspeed",
        )


log_formats.register("deepspeed")(
    LogFormat(
        name="DeepSpeed",
        summary="global_step=N, RunningAvgSamplesPerSec=..., CurrSamplesPerSec=..., MaxMemAllocated=...",
        num_step_lines=matching(STEP_LINE),
        read=read,
    )
)
