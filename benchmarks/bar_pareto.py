"""The Pareto front of ten million systems: how long, how much memory, and whether bounds leave out what they may."""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.bar import REPOSITORY, Bar
from dovetail.files.codesign import CodesignOverrides, load_codesign
from dovetail.search.codesign.joint import places_at
from dovetail.search.codesign.networks import network_named
from dovetail.search.codesign.pareto import DEFAULT_AXES, local_backend, pareto_front
from dovetail.search.codesign.question import Budget, JointQuestion, system_space, systems_at
from dovetail.search.codesign.scoring import Scorer
from dovetail.search.codesign.systems import built_systems
from dovetail.search.metrics import metrics
from dovetail.units import GIGA, KIBI

ISSUE = 7
MOST_S, MOST_BYTES = 300.0, 2 * GIGA
NUM_DESIGNS = 10_000_000
# The space `chip` of 294,000 systems, at five clocks and seven speeds of links; no die is too large, so all are met.
SPEC = """
workload: {model: gpt2-1.5b}
chip:
  clock_mhz: [700, 850, 1050, 1250, 1400]
  link_gb_per_s: [100, 150, 200, 300, 400, 500, 600]
budget: {area: 100000 mm2}
"""
FEW = {
    "num_tensor": (1, 4, 16),
    "num_rows": (64, 128, 256),
    "num_cols": (64, 128, 256),
    "num_vector": (2, 8, 32),
    "num_lanes": (128, 256),
    "sram_mib": (16, 64),
    "hbm_stacks": (2, 4),
    "stack_gib": (8, 16),
    "link_gb_per_s": (100, 300),
}


def bars() -> Iterator[Bar]:
    yield _ten_million()
    yield _exact()


def _ten_million() -> Bar:
    """In one process; its children's largest is this one, as it is the first."""
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder, "ten-million.yaml")
        spec.write_text(SPEC)
        began_s, cpu_s = time.monotonic(), _children_s()
        done = subprocess.run(
            [sys.executable, "-m", "dovetail", "pareto", str(spec), "--json"],
            capture_output=True,
            check=True,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY / "src")},
        )
        took_s, cpu_s = time.monotonic() - began_s, _children_s() - cpu_s
    used_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * KIBI
    found = json.loads(done.stdout)
    counts = f"{found['num_front']:,} on the front, {found['num_scored']:,} scored of {found['num_systems']:,}"
    return Bar(
        name="Pareto front by throughput, area, power and cost of 10^7 systems, one process",
        issue=ISSUE,
        bar="< 5 min of CPU, < 2 GB",
        measured=f"{cpu_s:.0f} CPU-s, {used_bytes / GIGA:.2f} GB; {counts}",
        holds=found["num_systems"] >= NUM_DESIGNS and cpu_s < MOST_S and used_bytes < MOST_BYTES,
        note=f"{took_s:.0f} s by the clock, with whatever else ran",
    )


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _exact() -> Bar:
    spec = load_codesign("gpt2-1.5b", CodesignOverrides())
    question = JointQuestion(
        cases=spec.cases,
        base=spec.base,
        network=network_named(spec.network),
        space=system_space(spec.base, 256, FEW),
        budget=Budget(),  # as all are scored below, whatever they take
        metric=metrics["throughput"],
        reference_losses=(1.0,),
    )
    scorer = Scorer(question)
    found = pareto_front(question, local_backend(scorer), DEFAULT_AXES)
    expected = _by_scoring_all(scorer)
    return Bar(
        name="the same front of a small space with every system scored",
        issue=ISSUE,
        bar="equal",
        measured=f"{len(found.systems):,} and {len(expected):,} systems; {found.census.num_scored:,} scored of"
        f" {question.space.num_points:,}",
        holds={one.score.point for one in found.systems} == expected,
    )


def _by_scoring_all(scorer: Scorer) -> set[tuple[int, ...]]:
    """Points that no other is before: every one with every other, nothing bounded."""
    question, points = scorer.question, list(scorer.question.space.points())
    systems = systems_at(question.space, places_at(question, np.arange(len(points))))
    built, num = built_systems(question.base, systems), systems["num_devices"]
    losses = [score.loss for score in scorer.score(points, math.inf)]
    figures = np.stack([losses, num * built.area_mm2, num * built.power_w, num * built.price_usd]).astype(np.float32)
    kept = set()
    for row, point in enumerate(points):
        no_worse = (figures <= figures[:, [row]]).all(axis=0)
        is_before = (figures < figures[:, [row]]).any(axis=0) | (np.arange(len(points)) < row)
        if math.isfinite(losses[row]) and not (no_worse & is_before).any():
            kept.add(point)
    return kept
