"""Speeds as files: one a commit and machine, read back and set beside the newest earlier one of the same machine."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.stamp import RESULTS, machine, stamp

WHAT = "speeds"
CPUINFO = Path("/proc/cpuinfo")
LIBRARIES = ("numpy", "numba", "pydantic", "typer")  # what starts and loops depend on


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """The least CPU seconds, user's and system's, that one of `what` took in so many runs."""

    name: str
    what: str
    cpu_s: float
    num_runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """All that was timed at one commit on one machine; `about` says which, and when."""

    about: dict[str, str]
    timed: tuple[Timed, ...]

    @property
    def when(self) -> str:
        return f"{self.about['date']} {self.about['time']}"

    @property
    def where(self) -> tuple[str, str]:
        """Times of one machine say nothing of another."""
        return self.about["machine"], self.about["processor"]

    @property
    def cpu_s(self) -> dict[str, float]:
        return {one.name: one.cpu_s for one in self.timed}


def about_now() -> dict[str, str]:
    """Commit, day and time, machine, Python and libraries of what is timed now; never the name of a host."""
    own = {f"{name}_version": _version(name) for name in LIBRARIES}
    return stamp() | {"time": datetime.now(UTC).strftime("%H:%M:%S"), "processor": processor()} | own


def processor(text: str | None = None) -> str:
    """The model of the processor in words, from Linux's `text` about it; elsewhere as Python has it."""
    if text is None:
        text = CPUINFO.read_text(encoding="utf-8") if CPUINFO.is_file() else ""
    named = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "none"


def write_speeds(speeds: Speeds, folder: Path = RESULTS) -> Path:
    """Writes them to speeds_MACHINE_DATE_COMMIT.json, over an earlier file of the same day and commit."""
    about = speeds.about
    file = folder / f"{WHAT}_{about['machine']}_{about['date']}_{about['commit'].replace(' ', '-')}.json"
    file.write_text(json.dumps(as_json(speeds), indent=1) + "\n", encoding="utf-8")
    return file


def as_json(speeds: Speeds) -> dict[str, object]:
    return {**speeds.about, "timed": [asdict(one) for one in speeds.timed]}


def read_speeds(file: Path) -> Speeds:
    found = json.loads(file.read_text(encoding="utf-8"))
    timed = tuple(Timed(**one) for one in found.pop("timed"))
    return Speeds(about=found, timed=timed)


def earlier_speeds(now: Speeds, folder: Path = RESULTS) -> tuple[Speeds, ...]:
    """The newest of the same machine from before `now`; nothing where there is none."""
    every = [read_speeds(file) for file in folder.glob(f"{WHAT}_{machine()}_*.json")]
    before = [one for one in every if one.where == now.where and one.when < now.when]
    return tuple(sorted(before, key=lambda one: one.when)[-1:])


def gains(now: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    """How many times as fast each is as before: above 1 is faster. Of what was timed both times."""
    return {name: before[name] / cpu_s for name, cpu_s in now.items() if name in before and cpu_s > 0}


def table(now: Speeds, earlier: Sequence[Speeds]) -> str:
    """What was timed, in lines; beside it the earlier times and how many times as fast it is now."""
    before = earlier[0].cpu_s if earlier else {}
    faster = gains(now.cpu_s, before)
    rows = [("", "CPU s", "before", "faster", "")]
    for one in now.timed:
        was = f"{before[one.name]:.4g}" if one.name in before else ""
        ratio = f"{faster[one.name]:.2f} x" if one.name in faster else ""
        rows.append((one.name, f"{one.cpu_s:.4g}", was, ratio, one.what))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [f"{row[0]:<{widths[0]}}  {_right(row[1:4], widths[1:4])}  {row[4]}".rstrip() for row in rows]
    message = f"before: commit {earlier[0].about['commit']}, {earlier[0].when}" if earlier else "nothing earlier here"
    return "\n".join([f"commit {now.about['commit']}, {now.when} UTC, {now.about['processor']}", *lines, message])


def _right(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
