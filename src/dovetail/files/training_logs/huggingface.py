"""The Hugging Face Trainer's console: dicts of metrics, its progress bar, and what it prints as training begins.

Only the bar and the closing `train_runtime` say how long steps took; dicts of losses have no time.
"""

from __future__ import annotations

import re

from dovetail.files.training_logs import LogFormat, log_formats, matching
from dovetail.files.training_logs.draft import Draft, Line, assume_eager, count_in, number_in
from dovetail.files.training_logs.progress_bar import BAR, CUT_BAR, TIMED, BarSteps, take_rates, take_windows

METRICS = re.compile(r"\{'(?:loss|eval_loss|eval_runtime|train_runtime)': ")
TRAIN_BAR = re.compile(r"^\s*\d{1,3}%\|[^|]*\|\s*\d+/\d+\s*\[")
_PAIR = re.compile(r"'([\w/.()-]+)': '?([^,'}]+)'?")
_FACT = re.compile(
    r"(Instantaneous batch size per (?:device|GPU)|Total train batch size[^=]*|Gradient Accumulation steps"
    r"|Total optimization steps) = ([\d,]+)"
)
_SAVED = re.compile(r"Saving (?:model )?checkpoint to")
WHOLE_RUN = (
    "the log times the run as a whole: its mean has the warm-up and every checkpoint in it, evaluations taken out"
)


def read(lines: list[Line], draft: Draft) -> None:
    bars, taken, total = BarSteps(), 0, 0
    facts: dict[str, int] = {}
    evaluation_s, closing = 0.0, None
    for line in lines:
        text = line.text
        if fact := _FACT.search(text):
            facts[fact[1].split(" (")[0].split(" per ")[0]] = count_in(fact[2])
        elif "***** Running training *****" in text:
            draft.started()
            bars.begin_window()
        elif _SAVED.search(text):
            draft.checkpointed()
        elif METRICS.search(text):
            found = metrics(text)
            if not found:
                draft.cannot_read(line, "a dict of metrics that ends early")
            elif "eval_runtime" in found or "eval_loss" in found:
                evaluation_s += max(0.0, found.get("eval_runtime", 0.0))
                draft.evaluated()
            elif "train_runtime" in found:
                closing = (line, found)
        elif TRAIN_BAR.match(text):
            bar = BAR.match(text)
            if bar is None:
                draft.cannot_read(line, "a progress bar that ends early")
                continue
            total = total or facts.get("Total optimization steps", 0) or count_in(bar["total"])
            if count_in(bar["total"]) == total and bars.take(line, bar, count_in(bar["done"])):
                taken = take_windows(draft, bars, taken)
        elif CUT_BAR.search(text) and "Evaluat" in text:
            draft.evaluated()
    if draft.steps:
        draft.notes.append(TIMED)
    elif closing is not None:
        _take_run(*closing, facts.get("Total optimization steps", total), evaluation_s, draft)
    else:
        take_rates(draft, bars)
    _take_job(facts, draft)


def metrics(text: str) -> dict[str, float]:
    """The numbers of a dict of metrics as the Trainer prints it; nothing where it ends early."""
    begin = text.find("{'")
    if not text.rstrip().endswith("}"):
        return {}
    return {key: number_in(value) for key, value in _PAIR.findall(text[begin:])}


def _take_run(line: Line, found: dict[str, float], num_steps: int, evaluation_s: float, draft: Draft) -> None:
    """The whole run as one reading."""
    runtime_s, rate = found["train_runtime"], found.get("train_steps_per_second", 0.0)
    steps = num_steps or (round(runtime_s * rate) if runtime_s * rate > 0 else 0)
    if not (steps > 0 and runtime_s > evaluation_s):
        return draft.cannot_read(line, "it does not state how many steps the run had")
    draft.is_whole_run = True
    draft.notes.append(WHOLE_RUN)
    return draft.took(line, steps, {"step_s": (runtime_s - evaluation_s) / steps}, num_steps=steps)


def _take_job(facts: dict[str, int], draft: Draft) -> None:
    batch, each = facts.get("Total train batch size", 0), facts.get("Instantaneous batch size", 0)
    passes = facts.get("Gradient Accumulation steps", 0)
    draft.describe("workload", global_batch=batch)
    assume_eager(draft)
    if batch and each and passes and batch % (each * passes) == 0:
        draft.describe("cluster", devices=batch // (each * passes))
    draft.describe("plan", microbatch=each)


log_formats.register("huggingface")(
    LogFormat(
        name="Hugging Face Trainer",
        summary="{'loss': ..., 'epoch': ...}, its progress bar, {'train_runtime': ...}",
        num_step_lines=matching(METRICS, TRAIN_BAR),
        read=read,
    )
)
