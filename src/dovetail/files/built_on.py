"""What every search for hardware reads: models to train, the template chip to build on, limits with their units."""

from __future__ import annotations

from dataclasses import replace

from dovetail.errors import DovetailError, InvalidInput
from dovetail.files.chip import chip_of, load_chip
from dovetail.files.entry import Entry, described, placed
from dovetail.files.job import check_dtype, workload_of
from dovetail.files.schema import LEAST_NUMBER
from dovetail.hardware.chip import Chip
from dovetail.hardware.template import check_array
from dovetail.units import quantity
from dovetail.workload.workload import Workload


def template_base(
    reference: str, entry: Entry | None, default: str, noun: str, headroom_frac: float | None = None
) -> Chip:
    """The chip to build on, which must have systolic arrays: a TPU, a template, or a file or entry with one."""
    where = "--base" if reference or entry is None else entry.where
    try:
        chip = load_chip(reference or default) if reference or entry is None else chip_of(entry)
    except DovetailError as error:
        raise type(error)(error.message, error.where or where) from None
    try:
        check_array(chip, noun)
    except InvalidInput as error:
        raise InvalidInput(error.message, where) from None
    if headroom_frac is None:
        return chip
    try:
        return chip.with_headroom(headroom_frac)
    except InvalidInput as error:
        raise InvalidInput(error.message, "--headroom") from None


def workload_entries(spec: Entry, purpose: str, *, has_own_size: bool) -> list[Entry]:
    """The workloads of a spec: the one of `workload`, or those of `models`; of several none may give a size."""
    if spec.has("workload") == spec.has("models"):
        raise spec.refused(f"a spec to {purpose} has either workload, for one model, or models, a list of them")
    if spec.has("workload"):
        return [spec.child("workload")]
    listed = spec.child("models")
    if not listed.value:
        raise listed.refused("models must not be empty; name one, or give workload")
    if has_own_size:
        raise InvalidInput("--batch and --seq are for one model; of several, set global_batch and seq in the spec")
    return [listed.child(place) for place in range(len(listed.value))]


def sized_workload(entry: Entry, batch: int, seq: int, base: Chip) -> Workload:
    """The workload at `entry`, with the size that the command line gives it, if any."""
    workload, _ = workload_of(entry)
    workload = replace(workload, global_batch=batch or workload.global_batch, seq=seq or workload.seq)
    with placed(entry):
        check_dtype(workload, base)
    return workload


def positive_amount(option: str, text: str, unit: str) -> float:
    """What an option says, which must be above 0."""
    try:
        value = quantity(text, unit)
    except InvalidInput as error:
        raise InvalidInput(error.message, option) from None
    if value <= 0:
        raise InvalidInput(f"{option} must be above 0; got {described(text)}")
    if value < LEAST_NUMBER:
        raise InvalidInput(f"{option} must be at least {LEAST_NUMBER:g} in base units; got {described(text)}")
    return value
