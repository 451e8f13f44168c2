"""Architectures of Hugging Face at their released width and depth: each captured, or refused in one line, in time."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bar import REPOSITORY, Bar
from benchmarks.bar_capture import RUNNER
from dovetail.units import GIGA, KIBI, MEGA
from tests.torch_architectures import ARCHITECTURES

ISSUE = 24
MOST_S, MOST_BYTES = 30.0, 2 * GIGA
LEAST_CAPTURED = 45
CAPTURE = """
import json, sys
import dovetail
try:
    found = dovetail.capture(sys.argv[1], cache=False)
    print(json.dumps([found.num_parameters, ""]))
except dovetail.DovetailError as error:
    print(json.dumps([0, str(error)]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One capture in a process of its own, imports and all."""

    name: str
    cpu_s: float
    peak_bytes: float
    num_parameters: int
    refusal: str

    @property
    def is_in_time(self) -> bool:
        return self.cpu_s < MOST_S and self.peak_bytes < MOST_BYTES

    @property
    def is_as_expected(self) -> bool:
        """Captured, or refused for what is written down beside the architecture, in one line."""
        one = ARCHITECTURES[self.name]
        expected = one.refusal or one.long_refusal
        return "\n" not in self.refusal and (expected in self.refusal if expected else not self.refusal)


def bars() -> Iterator[Bar]:
    missing = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
    if missing:
        note = f"{' and '.join(missing)} not installed"
        yield Bar(name="architectures captured", issue=ISSUE, bar="measured", measured="-", holds=None, note=note)
        return
    with tempfile.TemporaryDirectory() as folder:
        found = [taken(name, Path(folder)) for name in ARCHITECTURES]
    yield from released_bars(found)


def released_bars(found: list[Taken]) -> Iterator[Bar]:
    slowest, largest = max(found, key=lambda one: one.cpu_s), max(found, key=lambda one: one.peak_bytes)
    most = f"{slowest.cpu_s:.1f} CPU-s ({slowest.name}), {largest.peak_bytes / MEGA:.0f} MB ({largest.name})"
    yield Bar(
        name="a released architecture captured, process start to end",
        issue=ISSUE,
        bar=f"each < {MOST_S:.0f} CPU-s, < 2 GB",
        measured=f"{most} at most",
        holds=all(one.is_in_time for one in found),
        note=f"{len(found)} architectures, {sum(one.cpu_s for one in found):.0f} CPU-s in all",
    )
    strange = [f"{one.name}: {one.refusal or 'captured'}" for one in found if not one.is_as_expected]
    refused = [one.name for one in found if one.refusal]
    yield Bar(
        name="released architectures captured, or refused with the operator named",
        issue=ISSUE,
        bar=f">= {LEAST_CAPTURED} captured, the rest refused in one line",
        measured=f"{len(found) - len(refused)} captured; refused: {', '.join(refused) or 'none'}",
        holds=len(found) - len(refused) >= LEAST_CAPTURED and not strange,
        note="; ".join(strange),
    )


def taken(name: str, folder: Path) -> Taken:
    file = folder / f"{name}.json"
    file.write_text(json.dumps(ARCHITECTURES[name].released_config))
    command = [sys.executable, "-S", "-c", RUNNER, sys.executable, "-c", CAPTURE, str(file)]
    paths = f"{REPOSITORY / 'src'}{os.pathsep}{REPOSITORY}"
    ran = subprocess.run(
        command,
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"the capture of {name} ended badly: {ran.stderr.strip().splitlines()[-1:]}"
    _, cpu_s, peak_kibi_bytes, num_parameters, refusal = json.loads(ran.stdout)
    return Taken(
        name=name,
        cpu_s=cpu_s,
        peak_bytes=peak_kibi_bytes * KIBI,
        num_parameters=num_parameters,
        refusal=refusal,
    )
