"""One run of `dovetail measure`: tables one after another, rows written as they are measured, those that stand kept."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.text import one_line, quoted
from dovetail.files.written import write_file
from dovetail.measuring.row_files import Key, RowFile
from dovetail.measuring.tables import MeasuredTable, tables
from dovetail.measuring.tables.steps import CASES_FILE, CONFIGS
from dovetail.measuring.torch_gpu import Gpu, machine_of

MACHINE_FILE = "machine.json"
LAST = ("power", "steps", "collectives")  # a card that ran these is warm, and operators are measured on a quiet one


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenTable:
    """One table of a run: rows measured in it, rows that stood before, and why others failed or all were left out."""

    name: str
    file: Path
    num_measured: int = 0
    num_kept: int = 0
    failed: tuple[tuple[str, int], ...] = ()
    why_not: str = ""

    @property
    def num_failed(self) -> int:
        return sum(count for _, count in self.failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a run is: rows done of all, and about how long the others take."""

    table: str
    num_done: int
    num_all: int
    left_s: float


Watch = Callable[[Standing], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A table, its file, and the rows that it lacks; or why this machine can measure none of them."""

    table: MeasuredTable
    file: RowFile
    missing: tuple[Key, ...] = ()
    num_kept: int = 0
    why_not: str = ""


@dataclass(slots=True)
class _Pace:
    """Seconds that rows took, by table, and an estimate of those to come."""

    tables: Sequence[MeasuredTable]
    left: dict[str, int]
    took: dict[str, list[float]] = field(default_factory=dict)

    def left_s(self) -> float:
        """Rows to come at the pace of their table; of a table without rows yet, its estimate, scaled as others were."""
        expected = {one.file: one.row_s for one in self.tables}
        planned_s = sum(expected[file] * len(times) for file, times in self.took.items())
        ratio = sum(map(sum, self.took.values())) / planned_s if planned_s else 1.0
        found = 0.0
        for file, count in self.left.items():
            times = self.took.get(file, ())
            found += count * (sum(times) / len(times) if times else expected[file] * ratio)
        return found


def chosen_tables(only: Sequence[str]) -> list[MeasuredTable]:
    """The tables of the groups that were named, or all; those that warm the card come last."""
    every = [tables[name] for name in tables.names()]
    groups = sorted({one.group for one in every})
    for name in only:
        if name not in groups:
            hint = did_you_mean(name, groups)
            raise InvalidInput(
                f"no group of measurements is named {quoted(name)}{hint}; it has {', '.join(groups)}", "--only"
            )
    order = {group: place for place, group in enumerate(LAST, start=1)}
    return sorted((one for one in every if not only or one.group in only), key=lambda one: order.get(one.group, 0))


def measured(
    gpu: Gpu,
    folder: Path,
    *,
    only: Sequence[str] = (),
    is_quick: bool = False,
    watch: Watch = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[WrittenTable, ...]:
    """Measures what `folder` lacks, table by table, and says what stands there then.

    Every row is on disk before the next is measured, so that an interrupt or a killed process loses one at most.
    """
    chosen = chosen_tables(only)
    first_s = clock()
    _check_machine(gpu, folder)
    jobs: list[_Job] = []
    for table in chosen:
        file = RowFile(file=folder / table.file, columns=table.columns, num_keys=table.num_keys)
        if why_not := table.why_not(gpu):
            jobs.append(_Job(table=table, file=file, why_not=why_not))
            continue
        standing = file.opened()
        missing = tuple(key for key in table.sample(is_quick=is_quick, gpu=gpu) if key not in standing)
        jobs.append(_Job(table=table, file=file, missing=missing, num_kept=len(standing)))
    pace = _Pace([job.table for job in jobs], {job.table.file: len(job.missing) for job in jobs})
    num_all, num_done, found = sum(pace.left.values()), 0, []
    for job in jobs:
        table, file, missing = job.table, job.file, job.missing
        name = Path(table.file).stem
        if job.why_not:
            found.append(WrittenTable(name=name, file=file.file, why_not=job.why_not))
            continue
        failed: Counter[str] = Counter()
        began_s = clock()
        for row in table.measure(gpu, missing) if missing else ():
            if row.why_not:
                failed[row.why_not] += 1
            else:
                file.append((*row.key, *row.cells))
            now_s = clock()
            pace.took.setdefault(table.file, []).append(now_s - began_s)
            pace.left[table.file] -= 1
            began_s, num_done = now_s, num_done + 1
            watch(Standing(table=name, num_done=num_done, num_all=num_all, left_s=pace.left_s()))
        if table.group == "steps":
            write_cases(folder, {})
        found.append(
            WrittenTable(
                name=name,
                file=file.file,
                num_measured=len(missing) - sum(failed.values()),
                num_kept=job.num_kept,
                failed=tuple(failed.items()),
            )
        )
    if num_done:
        _add_time(folder, clock() - first_s)
    return tuple(found)


def _add_time(folder: Path, passed_s: float) -> None:
    """Adds the time of a run to that of the runs before it, of those that came to their end."""
    file = folder / MACHINE_FILE
    facts = json.loads(file.read_text(encoding="utf-8"))
    write_file(file, _text(facts | {"took_s": round(facts.get("took_s", 0.0) + passed_s, 1)}))


def _text(facts: dict[str, Any]) -> str:
    return json.dumps(facts, indent=2) + "\n"


def _check_machine(gpu: Gpu, folder: Path) -> None:
    """Writes what is measured beside the tables; raises where rows of another card stand there."""
    file = folder / MACHINE_FILE
    facts = machine_of(gpu)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    except OSError as error:
        raise InvalidInput(
            f"cannot use folder {quoted(str(folder))}: {one_line(str(error.strerror)).lower()}"
        ) from None
    except ValueError:
        before = {}
    before = before if isinstance(before, dict) else {}
    other = before.get("gpu")
    if other and other != facts["gpu"]:
        rule = f"{quoted(str(folder))} holds rows of {one_line(str(other))[:60]}, and this is {facts['gpu']}"
        raise InvalidInput(f"{rule}; name another folder", "--out")
    if not before:
        write_file(file, _text({"date": time.strftime("%Y-%m-%d")} | facts))


def write_cases(folder: Path, more: dict[str, dict[str, Any]]) -> None:
    """Writes the configurations of the models in the table of steps where `validate` finds them."""
    from dovetail.importers.torch_cases import configs_in

    file = folder / CASES_FILE
    try:
        before = configs_in(file) if file.exists() else {}
    except InvalidInput:
        before = {}
    lines = [f"    {name!r}: {config!r}," for name, config in (CONFIGS | before | more).items()]
    head = '"""Configurations of the models in the table of steps beside it."""\n\n'
    write_file(file, f"{head}CONFIGS = {{\n" + "\n".join(lines) + "\n}\n")
