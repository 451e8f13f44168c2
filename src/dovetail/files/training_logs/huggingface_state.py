"""The Hugging Face Trainer's trainer_state.json: its log_history, beside the config.json of a checkpoint."""

from __future__ import annotations

import json
import math
from typing import Any

from dovetail.files.training_logs import SURELY, LogFormat, log_formats
from dovetail.files.training_logs.draft import MAX_STEP, Draft, Line, assume_eager
from dovetail.files.training_logs.huggingface import WHOLE_RUN
from dovetail.units import GIBI

HISTORY = '"log_history"'
_TIMES = ("step_time", "train_step_time")
_RATES = ("train_speed(iter/s)", "steps_per_second")  # of callbacks and of trainers that build on this one
_MEMORY = ("memory(GiB)",)


def read(lines: list[Line], draft: Draft) -> None:
    try:
        state = json.loads("\n".join(line.text for line in lines))
    except (ValueError, RecursionError):
        return draft.cannot_read(lines[-1], "this is no whole JSON file")
    history = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(history, list):
        return draft.cannot_read(lines[0], "it has no log_history")
    evaluation_s, closing = 0.0, {}
    for place, entry in enumerate(history, start=1):
        line = Line(place, "")
        if not isinstance(entry, dict):
            draft.cannot_read(line, "an entry of log_history is no mapping")
        elif any(key.startswith("eval_") for key in entry):
            evaluation_s += max(0.0, _number(entry, "eval_runtime"))
            draft.evaluated()
        elif "train_runtime" in entry:
            closing = entry
        else:
            _take_entry(line, entry, draft)
    if not draft.steps and closing:
        _take_run(Line(len(history), ""), closing, state, evaluation_s, draft)
    config = draft.folder / "config.json"
    draft.describe("workload", model=str(config) if config.is_file() else "")
    assume_eager(draft)
    each = state.get("train_batch_size")
    draft.describe("plan", microbatch=each if type(each) is int and 0 < each <= MAX_STEP else 0)
    return None


def _take_entry(line: Line, entry: dict[str, Any], draft: Draft) -> None:
    """An entry with a time of its own, which some trainers and callbacks add."""
    step = entry.get("step")
    seconds = next((_number(entry, key) for key in _TIMES if key in entry), 0.0)
    rate = next((_number(entry, key) for key in _RATES if key in entry), 0.0)
    if not seconds and not rate:
        return None
    if type(step) is not int:
        return draft.cannot_read(line, "an entry of log_history has no step")
    memory = next((_number(entry, key) for key in _MEMORY if key in entry), 0.0)
    step_s = seconds or (1.0 / rate if rate > 0 else math.nan)
    return draft.took(line, step, {"step_s": step_s}, reserved_bytes=memory * GIBI if memory > 0 else 0.0)


def _take_run(line: Line, closing: dict[str, Any], state: dict[str, Any], evaluation_s: float, draft: Draft) -> None:
    steps = state.get("max_steps") or state.get("global_step")
    runtime_s = _number(closing, "train_runtime")
    if type(steps) is not int or not runtime_s > evaluation_s:
        return draft.cannot_read(line, "it does not state how many steps the run had, or how long it took")
    draft.is_whole_run = True
    draft.notes.append(WHOLE_RUN)
    return draft.took(line, steps, {"step_s": (runtime_s - evaluation_s) / max(1, steps)}, num_steps=max(1, steps))


def _number(entry: dict[str, Any], key: str) -> float:
    value = entry.get(key, 0.0)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        return float(value) if is_number and math.isfinite(value) else 0.0
    except OverflowError:
        return 0.0


log_formats.register("huggingface-state")(
    LogFormat(
        name="Hugging Face Trainer",
        summary="trainer_state.json with its log_history",
        num_step_lines=lambda lines: SURELY * any(HISTORY in line.text for line in lines[:400]),
        read=read,
    )
)
