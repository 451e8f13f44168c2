"""Megatron-LM's log, and those of its forks: the line of an iteration, the memory of ranks, the printed arguments.

Lines are as training_log of megatron/training/training.py writes them, from 2019 (no date, `learning rate 1.5E-4`
without a colon) to Megatron Core 0.15, and in Megatron-DeepSpeed (consumed tokens, samples per second, seconds).
"""

from __future__ import annotations

import re

from dovetail.files.training_logs import LogFormat, log_formats, matching
from dovetail.files.training_logs.draft import Draft, Line, count_in, number_in
from dovetail.files.training_logs.megatron_arguments import take_arguments
from dovetail.units import MEBI, MILLI

STEP_LINE = re.compile(r"\biteration\s+(\d+)\s*/\s*(?:\d+|infinity)\s*\|")
_TIME = re.compile(r"elapsed time per iteration \((ms|s)\)\s*:?\s*([^|\s]+)\s*(\|?)")
_BATCH = re.compile(r"global batch size\s*:?\s*(\d+)")
_SKIPPED = re.compile(r"number of skipped iterations\s*:?\s*(\d+)")
_MEMORY = re.compile(r"memory \(MB\)\s*\|.*?max allocated\s*:\s*([\d.]+)(?:.*?max reserved\s*:\s*([\d.]+))?")
_ARGUMENT = re.compile(r"\s*([a-z][a-z0-9_]*) \.{2,} (.*)")
_SAVED = re.compile(r"(?:successfully )?sav(?:ed|ing) checkpoint (?:at|from) iteration", re.IGNORECASE)
_EVALUATED = re.compile(r"validation loss at |^\s*Evaluating (?:on|iter)")


def read(lines: list[Line], draft: Draft) -> None:
    arguments: dict[str, str] = {}
    is_inside = False
    for line in lines:
        text = line.text
        if "- arguments -" in text or "arguments ---" in text:
            is_inside = "end of" not in text
            if is_inside and arguments:
                draft.started()
        elif is_inside and (argument := _ARGUMENT.match(text)):
            arguments[argument[1]] = argument[2].strip()
        elif _SAVED.search(text):
            draft.checkpointed()
        elif _EVALUATED.search(text):
            draft.evaluated()
        elif memory := _MEMORY.search(text):
            _take_memory(memory, draft)
        elif "[before the start of training step]" in text:
            draft.started()
        elif STEP_LINE.search(text) or "elapsed time per iteration" in text:
            _take_step(line, draft)
    take_arguments(arguments, draft)


def _take_step(line: Line, draft: Draft) -> None:
    steps, time = list(STEP_LINE.finditer(line.text)), _TIME.search(line.text)
    if len(steps) != 1:
        what = "two ranks wrote into one another" if steps else "it does not state its iteration"
        return draft.cannot_read(line, what)
    if time is None or not time[3]:
        return draft.cannot_read(line, "it ends before its elapsed time per iteration")
    batch, skipped = _BATCH.search(line.text), _SKIPPED.search(line.text)
    return draft.took(
        line,
        count_in(steps[0][1]),
        {"step_s": number_in(time[2]) * (MILLI if time[1] == "ms" else 1.0)},
        global_batch=count_in(batch[1]) if batch else 0,
        is_skipped=bool(skipped and count_in(skipped[1])),
    )


def _take_memory(memory: re.Match[str], draft: Draft) -> None:
    """The most that any rank that prints had; the line is of Megatron's MB, which are 2^20 bytes."""
    allocated, reserved = number_in(memory[1]) * MEBI, number_in(memory[2] or "0") * MEBI
    if allocated > 0:
        draft.allocated_bytes = max(draft.allocated_bytes, allocated)
    if reserved > 0:
        draft.reserved_bytes = max(draft.reserved_bytes, reserved)


log_formats.register("megatron-lm")(
    LogFormat(
        name="Megatron-LM",
        summary="iteration N/ M | consumed samples: ... | elapsed time per iteration (ms): ... |",
        num_step_lines=matching(STEP_LINE),
        read=read,
    )
)
