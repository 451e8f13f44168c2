"""Lightning's console: its progress bar by epoch, and NeMo's line of an iteration, which is Lightning's too."""

from __future__ import annotations

import re

from dovetail.files.training_logs import LogFormat, log_formats, matching
from dovetail.files.training_logs.draft import Draft, Line, assume_eager, count_in, number_in
from dovetail.files.training_logs.progress_bar import BAR, TIMED, BarSteps, take_rates, take_windows

EPOCH_BAR = re.compile(r"\bEpoch (\d+):\s+\d{1,3}%\|")
ITERATION = re.compile(r"\bTraining epoch \d+, iteration (\d+)/\d+ \|")
_VALIDATION = re.compile(r"\bValidat\w+(?: DataLoader \d+)?:\s+\d{1,3}%\|")
_TIMING = re.compile(r"train_step_timing in s: ([^|\s]+)")
_GLOBAL_STEP = re.compile(r"global_step: (\d+)")
_BATCH = re.compile(r"global_batch_size: (\d+)")
_PEAK = re.compile(r"peak_memory_usage: ([\d.e+]+)")
_PROCESSES = re.compile(r"Starting with (\d+) processes")


def read(lines: list[Line], draft: Draft) -> None:
    bars, taken, before = BarSteps(), 0, 0
    for line in lines:
        text = line.text
        if ITERATION.search(text):
            _take_iteration(line, draft)
        elif epoch := EPOCH_BAR.search(text):
            bar = BAR.match(text)
            if bar is None:
                draft.cannot_read(line, "a progress bar that ends early")
                continue
            total, done = count_in(bar["total"]), count_in(bar["done"])
            if done < before:  # the clock of a bar begins again with every epoch
                bars.begin_window()
            before = done
            if bars.take(line, bar, count_in(epoch[1]) * total + done):
                taken = take_windows(draft, bars, taken)
        elif _VALIDATION.search(text):
            draft.evaluated()
        elif processes := _PROCESSES.search(text):
            draft.describe("cluster", devices=count_in(processes[1]))
            if draft.steps:
                draft.started()
    if bars.windows:
        draft.notes.append(TIMED)
    elif not draft.steps:
        take_rates(draft, bars)
    if bars.shown_s:
        assume_eager(draft)


def _take_iteration(line: Line, draft: Draft) -> None:
    iterations, timing = list(ITERATION.finditer(line.text)), _TIMING.search(line.text)
    if len(iterations) > 1:
        return draft.cannot_read(line, "two ranks wrote into one another")
    if timing is None:
        return draft.cannot_read(line, "it ends before its train_step_timing")
    step, batch, peak = (pattern.search(line.text) for pattern in (_GLOBAL_STEP, _BATCH, _PEAK))
    size = count_in(batch[1]) if batch else 0
    draft.describe("workload", global_batch=size)
    peak_bytes = number_in(peak[1]) if peak else 0.0
    return draft.took(
        line,
        count_in(step[1] if step else iterations[0][1]) + 1,  # counted from 0
        {"step_s": number_in(timing[1])},
        global_batch=size,
        allocated_bytes=peak_bytes if peak_bytes > 0 else 0.0,
    )


log_formats.register("lightning")(
    LogFormat(
        name="Lightning",
        summary="Epoch N:  12%|...| 100/800 [..., 2.00it/s], or NeMo's Training epoch N, iteration ...",
        num_step_lines=matching(EPOCH_BAR, ITERATION),
        read=read,
    )
)
