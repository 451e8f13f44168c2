"""The foundation's promises: start-up, memory, counts and laws."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.bar import REPOSITORY, Bar
from benchmarks.closed_forms import closed_forms
from benchmarks.memory_rows import MemoryRow, h200_rows, published_rows
from dovetail.units import MEBI
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph
from dovetail.workload.transformer import Transformer

ISSUE = 2
NUM_RUNS = 7
EXAMPLE = "examples/llama3-405b-16384xh100.yaml"
KIBI_BYTES = 2**10  # what the kernel counts resident memory in
LAWS = ("tests/property/test_sharding_laws.py", "tests/property/test_time_laws.py")


def bars() -> Iterator[Bar]:
    yield from _start_up()
    yield from _memory()
    yield from _counts()
    yield from _laws()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Wall seconds of repeated runs of one command, first (cold) run left out, and its peak resident bytes."""

    median_s: float
    best_s: float
    peak_bytes: float


# A process counts the memory of the one it was forked from as its own: a small one in between keeps ours out of it.
RUNNER = """
import json, resource, subprocess, sys, time
begun = time.perf_counter()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
taken = time.perf_counter() - begun
print(json.dumps([code, taken, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]))
"""


def timed(arguments: Sequence[str]) -> Run:
    """Runs a Python command `NUM_RUNS` times after a warm-up, each in a process of its own."""
    times_s, peak_bytes = [], 0.0
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "src")}
    command = [sys.executable, "-S", "-c", RUNNER, sys.executable, *arguments]
    for _ in range(NUM_RUNS + 1):
        ran = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True)
        code, time_s, peak_kibi_bytes = json.loads(ran.stdout)
        assert code == 0, f"{' '.join(arguments)} ended with {code}"
        times_s.append(time_s)
        peak_bytes = max(peak_bytes, float(peak_kibi_bytes * KIBI_BYTES))
    return Run(median_s=statistics.median(times_s[1:]), best_s=min(times_s[1:]), peak_bytes=peak_bytes)


def _start_up() -> Iterator[Bar]:
    simulate = timed(["-m", "dovetail", "simulate", EXAMPLE])
    yield _bar(
        "simulate Llama-3-405B on 16,384 H100, process start to end", "< 1.5 s", simulate, simulate.median_s < 1.5
    )
    peak = f"{simulate.peak_bytes / MEBI:.0f} MiB"
    yield Bar(
        name="its peak memory", issue=ISSUE, bar="< 300 MB", measured=peak, holds=simulate.peak_bytes < 300 * MEBI
    )
    helped = timed(["-m", "dovetail", "--help"])
    yield _bar("dovetail --help", "< 0.5 s", helped, helped.median_s < 0.5)
    yield _help_imports_no_numpy()
    package, numpy = timed(["-c", "import numpy, dovetail"]), timed(["-c", "import numpy"])
    over_s = package.best_s - numpy.best_s
    text = f"{over_s:+.3f} s (NumPy {numpy.best_s:.2f} s)"
    yield Bar(
        name="import dovetail over NumPy's import", issue=ISSUE, bar="<= 0.1 s", measured=text, holds=over_s <= 0.1
    )


def _bar(name: str, bar: str, run: Run, holds: bool) -> Bar:
    return Bar(name=name, issue=ISSUE, bar=bar, measured=f"{run.median_s:.2f} s, best {run.best_s:.2f}", holds=holds)


def _help_imports_no_numpy() -> Bar:
    code = (
        "import sys, runpy\nsys.argv = ['dovetail', '--help']\n"
        "try:\n    runpy.run_module('dovetail', run_name='__main__')\nexcept SystemExit:\n    pass\n"
        "print('numpy' in sys.modules)"
    )
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "src")}
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True
    )
    has_numpy = run.stdout.strip().splitlines()[-1] == "True"
    words = "imported" if has_numpy else "not imported"
    return Bar(name="NumPy under --help", issue=ISSUE, bar="not imported", measured=words, holds=not has_numpy)


def _memory() -> Iterator[Bar]:
    forms = tuple(closed_forms())
    worst = max(forms, key=lambda form: abs(form.error_frac))
    yield Bar(
        name="memory against Korthikanti's closed forms",
        issue=ISSUE,
        bar="within 3 %",
        measured=f"worst {worst.error_frac:+.2%} of {len(forms)} ({worst.model}, {worst.what})",
        holds=abs(worst.error_frac) <= 0.03,
    )
    yield _rows_bar("step peak on an H200", h200_rows())
    published = [row for row in published_rows() if row.is_measured]
    for kind, words in (
        ("allocated", "published peak, torch allocated"),
        ("reserved", "published peak, torch reserved (+5 %)"),
        ("device", "published peak, all the device reports"),
    ):
        yield _rows_bar(words, (row for row in published if row.kind == kind))


def _rows_bar(name: str, rows: Iterable[MemoryRow]) -> Bar:
    errors = {row.row: row.error_frac for row in rows if not row.why_not}
    out = [f"{row} {error:+.0%}" for row, error in errors.items() if abs(error) > 0.10]
    mean = statistics.fmean(abs(error) for error in errors.values())
    return Bar(
        name=name,
        issue=ISSUE,
        bar="within 10 %",
        measured=f"{len(errors) - len(out)} of {len(errors)} rows, mean {mean:.1%}",
        holds=not out,
        note="out: " + ", ".join(out) if out else "",
    )


def _counts() -> Iterator[Bar]:
    exact = inexact = exact_missed = rounded_missed = 0
    for name in models.names():
        model = models[name]()
        counted = model.forward(Sample(batch=1, seq=model.seq, dtype="bf16")).num_parameters
        if model.is_exact:
            exact += 1
            exact_missed += counted != model.published_parameters
        elif model.published_parameters:
            inexact += 1
            rounded_missed += abs(counted / model.published_parameters - 1) > 0.005
    yield Bar(
        name="parameters, exact counts",
        issue=ISSUE,
        bar="equal",
        measured=f"{exact - exact_missed} of {exact} models",
        holds=exact_missed == 0,
    )
    yield Bar(
        name="parameters, rounded counts",
        issue=ISSUE,
        bar="within 0.5 %",
        measured=f"{inexact - rounded_missed} of {inexact} models",
        holds=rounded_missed == 0,
    )
    name, worst = max(_flop_errors(), key=lambda item: abs(item[1]))
    yield Bar(
        name="FLOP a token against 6N + attention",
        issue=ISSUE,
        bar="within 1 %",
        measured=f"worst {worst:+.3%} ({name})",
        holds=abs(worst) <= 0.01,
    )


def _flop_errors() -> Iterator[tuple[str, float]]:
    """Training FLOP of every decoder and encoder over 6N + 12 L a s, N the parameters that multiply a token."""
    for name in models.names():
        model = models[name]()
        shape = model.architecture
        if not isinstance(shape, Transformer) or shape.num_encoder_layers:
            continue
        graph = training_graph(model.forward(Sample(batch=1, seq=model.seq, dtype="bf16")), Precision())
        num_looked_up = (shape.num_positions + shape.num_token_types) * shape.hidden
        num_looked_up += 0 if shape.is_tied else shape.vocab * (shape.embedding_width or shape.hidden)
        num_idle = 0
        if shape.experts is not None:
            num_up = 3 if shape.activation.endswith("_mul") else 2
            num_expert_layers = shape.num_layers - shape.num_dense_layers
            idle = shape.experts.num_experts - shape.experts.num_experts_per_token
            num_idle = num_expert_layers * idle * num_up * shape.hidden * shape.experts.width
        multiplying = graph.num_parameters - num_looked_up - num_idle
        width = shape.num_heads * (shape.heads.key_width + shape.heads.value_width)
        expected = 6 * multiplying + 6 * shape.num_layers * width * model.seq
        yield name, graph.model_flop / graph.num_tokens / expected - 1


def _laws() -> Iterator[Bar]:
    command = [sys.executable, "-m", "pytest", "-q", *LAWS]
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    measured = run.stdout.strip().splitlines()[-1] if run.stdout.strip() else f"exit {run.returncode}"
    yield Bar(name="property tests", issue=ISSUE, bar="all hold", measured=measured, holds=run.returncode == 0)
