"""What was measured on this machine's GPU: tables of rows, or one step beside its prediction."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dovetail.api.answer import Answer
from dovetail.api.calibrated import is_chip
from dovetail.api.progress import Progress, Tell
from dovetail.api.requests.measurements import MeasureRequest
from dovetail.errors import InvalidInput
from dovetail.files.python_values import as_chip
from dovetail.files.text import one_line
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.measuring.row_files import RowFile
from dovetail.measuring.session import Standing, WrittenTable, measured, write_cases
from dovetail.measuring.tables.steps import COLUMNS, FILE, NUM_KEYS
from dovetail.measuring.torch_gpu import Gpu, found_gpu
from dovetail.report.gpu_measured import ComparedFigure, measured_record, measured_tables, step_record, step_tables
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.units import format_s

STEP = "step"
UNKNOWN = "no chip of the catalogue"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Measurement(Answer):
    """Tables measured on `gpu`, or a measured step and its prediction on `chip`.

    `written` has every table of the run, those that this machine cannot measure among them; `figures` are of a step.
    """

    gpu: str
    chip: str
    folder: Path
    call: str
    written: tuple[WrittenTable, ...] = ()
    step: str = ""
    figures: tuple[ComparedFigure, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        return True

    @property
    def headline(self) -> str:
        if self.step:
            first = self.figures[0]
            error = f"{100 * first.error_frac:+.1f} %"
            return f"{self.step} on {self.gpu}: {format_s(first.measured)} per step, {error} predicted"
        return f"{sum(one.num_measured for one in self.written):,} rows measured on {self.gpu} in {self.folder}"

    @property
    def tables(self) -> tuple[Table, ...]:
        if self.step:
            return step_tables(self.step, self.gpu, self.chip, self.figures, self.notes)
        return measured_tables(self.gpu, self.written, self._next)

    @property
    def _next(self) -> tuple[str, ...]:
        """Commands to go on with."""
        where, base = one_line(str(self.folder)), self.chip or "CHIP"
        found = [f"dovetail calibrate {where}/*.csv --chip {base} --out my-gpu.yaml"]
        if any(one.name == "nccl" and not one.why_not for one in self.written):
            found.append(f"dovetail calibrate {where}/collectives/nccl.csv --cluster CLUSTER --out my-cluster.yaml")
        return (*found, f"dovetail validate {where} --chip my-gpu.yaml")

    @property
    def _record(self) -> Record:
        if self.step:
            return step_record(self.step, self.gpu, self.chip, self.figures, self.notes)
        return measured_record(self.gpu, str(self.folder), self.written, self._next)


def measured_answer(
    request: MeasureRequest, tell: Tell = lambda _: None, gpu_found: Callable[[], Gpu] = found_gpu
) -> Measurement:
    """What was asked for, measured here; `gpu_found` gives the device."""
    target = _target(request)
    gpu = gpu_found()
    folder = Path(os.fspath(request.out))
    if target:
        return _step(request, target, gpu, folder, tell)

    def watch(now: Standing) -> None:
        words = f"{now.table}; {format_s(now.left_s, 0)} left"
        tell(Progress(task="measure", words=words, num_done=now.num_done, num_all=now.num_all))

    written = measured(gpu, folder, only=request.only, is_quick=request.quick, watch=watch)
    return Measurement(gpu=gpu.name, chip=chip_name(gpu), folder=folder, call=request.call, written=written)


def _target(request: MeasureRequest) -> str:
    """The model whose step is measured; empty where operators are. Raises where options are of the other of both."""
    of_step = {
        "--chip": request.chip, "--batch": request.batch, "--seq": request.seq, "--autocast": request.autocast,
        "--checkpoint": request.checkpoint, "--compile": request.compile,
    }  # fmt: skip
    words = tuple(os.fspath(one) for one in request.what)
    if not words:
        for flag in [flag for flag, value in of_step.items() if value != "" and value]:
            raise InvalidInput("it is for a step; name one: dovetail measure step config.json", flag)
        return ""
    if len(words) != 2 or words[0] != STEP:
        got = one_line(" ".join(words))[:80]
        raise InvalidInput(f"measure nothing by name, or a step of one model: measure step config.json; got {got!r}")
    for flag in [flag for flag, value in {"--quick": request.quick, "--only": request.only}.items() if value]:
        raise InvalidInput("it is for tables of operators; leave it out of measure step", flag)
    return str(words[1])


def chip_name(gpu: Gpu) -> str:
    """The chip of the catalogue that a GPU is, by its name and memory; empty where none is."""
    product = gpu.name
    same = [name for name in chips.names() if is_chip(product, name)]
    if not same or gpu.is_cpu:
        return ""
    memory_bytes = float(gpu.torch.cuda.get_device_properties(0).total_memory)
    return min(same, key=lambda name: abs(chips[name]().hbm.capacity_bytes - memory_bytes))


def _chip(request: MeasureRequest, gpu: Gpu) -> Chip:
    if request.chip != "":
        return as_chip(request.chip)
    if not (name := chip_name(gpu)):
        raise InvalidInput(f"{UNKNOWN} is named as {gpu.name} is; name the nearest, or a file", "--chip")
    return as_chip(name)


def _step(request: MeasureRequest, target: str, gpu: Gpu, folder: Path, tell: Tell) -> Measurement:
    from dovetail.importers.captures import CaptureJob
    from dovetail.importers.target_steps import TrainedAs, recorded_target
    from dovetail.measuring.torch_steps import measured_step, trained_target
    from dovetail.step.eager import eager_step

    chip = _chip(request, gpu)
    options = TrainedAs(
        autocast=request.autocast,
        optimizer=request.optimizer,
        is_checkpointed=request.checkpoint,
        is_compiled=request.compile,
    )
    job = CaptureJob(model=target, batch=request.batch, seq=request.seq)
    tell(Progress(task="measure", words="predicting the step"))
    recorded = recorded_target(job, options)
    predicted = eager_step(recorded.step, chip)
    tell(Progress(task="measure", words="running the step"))
    trained = trained_target(gpu, target, batch=recorded.batch, seq=recorded.seq, options=options)
    found = measured_step(gpu, trained, options)
    name = step_name(target)
    mode = "compile" if request.compile else "eager"
    key = (name, str(found.batch), str(found.seq), mode, str(int(request.checkpoint)), str(int(bool(request.autocast))))
    notes = _kept(request, folder, target, name, (*key, *found.cells))
    figures = (
        ComparedFigure(name="step", unit="s", measured=found.step_s, predicted=predicted.step_s),
        ComparedFigure(name="forward pass", unit="s", measured=found.forward_s, predicted=predicted.phase_s[0][1]),
        ComparedFigure(name="peak memory", unit="B", measured=found.peak_bytes, predicted=predicted.peak_bytes),
        ComparedFigure(
            name="reserved memory", unit="B", measured=found.reserved_bytes, predicted=predicted.reserved_bytes
        ),
    )
    return Measurement(
        gpu=gpu.name,
        chip=chip.name,
        folder=folder,
        call=request.call,
        step=f"{name} b{found.batch} s{found.seq} {mode}",
        figures=figures,
        notes=(*recorded.step.notes, *notes),
    )


def step_name(target: str) -> str:
    """What a row calls a model: its folder where its file is named as every configuration is, or else its file."""
    path = Path(target.partition(":")[0])
    stem = path.resolve().parent.name if path.stem == "config" else path.stem
    return re.sub(r"[^\w.-]+", "-", stem) or "model"


def _kept(request: MeasureRequest, folder: Path, target: str, name: str, cells: tuple[str, ...]) -> tuple[str, ...]:
    """Puts the row into the table of steps, and its configuration beside it; says where, or why not."""
    if request.autocast not in ("", "bf16") or request.optimizer != "adamw":
        return ("in no table of steps: these have AdamW, and autocast to bf16 alone",)
    file = RowFile(file=folder / FILE, columns=COLUMNS, num_keys=NUM_KEYS)
    if cells[:NUM_KEYS] in file.opened():
        return (f"{one_line(str(file.file))} has a row of this step already, which stays",)
    file.append(cells)
    from dovetail.importers.captures import config_in
    from dovetail.importers.targets import is_config

    write_cases(folder, {name: dict(config_in(Path(target)))} if is_config(target) else {})
    return (f"row added to {one_line(str(file.file))}",)
