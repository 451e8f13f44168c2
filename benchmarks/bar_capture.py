"""Capturing models from PyTorch: what it finds beside the catalogue, what it takes, its cache, and doing without it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.bar import REPOSITORY, Bar
from benchmarks.captured_models import MOST_FRAC, captured_model, compared, worst
from dovetail.units import GIGA, KIBI, MEGA
from dovetail.workload.models import models

ISSUE = 9
TIMED = ("llama3-70b", "mixtral-8x7b", "bert-large", "gpt2-345m", "t5-large", "vit-l-16", "resnet-50")
MOST_S, MOST_BYTES = 60.0, 2 * GIGA
LIBRARIES = ("torch", "transformers", "onnx")

# A process counts the memory of the one it was forked from as its own: a small one in between keeps ours out of it.
RUNNER = """
import json, resource, subprocess, sys, time
begun = time.perf_counter()
ran = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, check=True)
wall = time.perf_counter() - begun
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([wall, used.ru_utime + used.ru_stime, used.ru_maxrss, *json.loads(ran.stdout.splitlines()[-1])]))
"""
CAPTURE = """
import json, sys, time
import dovetail
from tests.torch_models import BUILDS
module, inputs = BUILDS[sys.argv[1]]()
begun = time.perf_counter()
found = dovetail.capture(module, inputs, name=sys.argv[1])
print(json.dumps([time.perf_counter() - begun, found.is_from_cache, found.num_parameters]))
"""
# Everything but the front ends is imported and an example is answered where none of the libraries can be.
WITHOUT = """
import importlib, pkgutil, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {libraries!r}:
            asked.append(name)
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

asked = []
sys.meta_path.insert(0, Refuse())
import dovetail
left_out = tuple(f"dovetail.{{name}}" for name in ("importers.torch_", "importers.onnx_", "explorer", "__main__"))
names = [found.name for found in pkgutil.walk_packages(dovetail.__path__, "dovetail.")]
names = [name for name in names if not name.startswith(left_out)]
for name in names:
    importlib.import_module(name)
assert not asked, asked
answer = dovetail.simulate({example!r})
assert answer.fits and not asked, asked
try:
    dovetail.capture("some.module:factory", "x:float32[2,3]")
except dovetail.InvalidInput as error:
    told = str(error)
print(len(names), told)
"""
EXAMPLE = "examples/llama3-70b-512xh100.yaml"


def bars() -> Iterator[Bar]:
    yield without_bar()
    missing = [name for name in LIBRARIES[:2] if importlib.util.find_spec(name) is None]
    if missing:
        note = f"{' and '.join(missing)} not installed"
        yield Bar(name="captured models", issue=ISSUE, bar="measured", measured="-", holds=None, note=note)
        return
    yield from difference_bars()
    for name in TIMED:
        yield from taken_bars(name)


def difference_bars() -> Iterator[Bar]:
    """The worst of every figure over all models, kernels and plans."""
    found = [row for name in models.names() for row in compared(name, captured_model(name))]
    num_models = len({row.model for row in found})
    for figure, most_frac in MOST_FRAC.items():
        rows = [row for row in found if row.figure == figure]
        row = worst(found, figure)
        yield Bar(
            name=f"captured {figure} against the catalogue's",
            issue=ISSUE,
            bar=f"within {most_frac:.0%}",
            measured=f"{abs(row.difference_frac):.2%} at worst ({row.model}, {row.under})",
            holds=all(row.holds for row in rows),
            note=f"{len(rows)} rows of {num_models} models",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A capture in a process of its own, imports and all; `capture_s` is the call alone, by the wall clock."""

    wall_s: float
    cpu_s: float
    peak_bytes: float
    capture_s: float
    is_from_cache: bool
    num_parameters: int


def taken(name: str, cache: str) -> Taken:
    command = [sys.executable, "-S", "-c", RUNNER, sys.executable, "-c", CAPTURE, name]
    ran = subprocess.run(command, cwd=REPOSITORY, env=_environment(cache), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"the capture of {name} ended badly: {_last_line(ran.stderr)}"
    wall_s, cpu_s, peak_kibi_bytes, capture_s, is_from_cache, num_parameters = json.loads(ran.stdout)
    return Taken(
        wall_s=wall_s,
        cpu_s=cpu_s,
        peak_bytes=peak_kibi_bytes * KIBI,
        capture_s=capture_s,
        is_from_cache=is_from_cache,
        num_parameters=num_parameters,
    )


def taken_bars(name: str) -> Iterator[Bar]:
    """By CPU seconds of all threads: the wall clock counts what others do on the machine too."""
    with tempfile.TemporaryDirectory() as cache:
        first, second = taken(name, cache), taken(name, cache)
    yield Bar(
        name=f"capture of {name}, process start to end",
        issue=ISSUE,
        bar=f"< {MOST_S:.0f} s, < 2 GB",
        measured=f"{first.cpu_s:.1f} CPU-s, {first.wall_s:.1f} s by the wall clock, {first.peak_bytes / MEGA:.0f} MB",
        holds=first.cpu_s < MOST_S and first.peak_bytes < MOST_BYTES and not first.is_from_cache,
    )
    yield Bar(
        name=f"capture of {name} once more",
        issue=ISSUE,
        bar="from the cache, the same",
        measured=f"{second.capture_s:.2f} s in place of {first.capture_s:.2f} s",
        holds=second.is_from_cache and second.num_parameters == first.num_parameters,
    )


def without_bar() -> Bar:
    program = WITHOUT.format(libraries=LIBRARIES, example=EXAMPLE)
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, cwd=REPOSITORY, env=_environment(""), capture_output=True, text=True, check=False)
    num, _, told = ran.stdout.strip().partition(" ")
    holds = ran.returncode == 0 and "pip install 'dovetail-codesign[" in told
    return Bar(
        name="without torch, transformers and onnx",
        issue=ISSUE,
        bar="all else imports and answers",
        measured=f"{num or 0} modules imported, an example answered; a capture says: {told or '-'}",
        holds=holds,
        note="" if holds else _last_line(ran.stderr),
    )


def _last_line(text: str) -> str:
    """What an exception says, without where; a process that waited for another adds lines of its own."""
    lines = [line for line in text.strip().splitlines() if line and not line.startswith(" ")]
    told = [line for line in lines if "Error" in line and "CalledProcessError" not in line]
    return (told or lines or ["-"])[-1]


def _environment(cache: str) -> dict[str, str]:
    found = f"{REPOSITORY / 'src'}{os.pathsep}{REPOSITORY}"
    return os.environ | {"PYTHONPATH": found, **({"XDG_CACHE_HOME": cache} if cache else {})}
