"""Kernels of models that nothing was fitted on, as profiled on an H200, beside what we say of each."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from benchmarks.bar import Bar

ISSUE = 24
LEAST_FRAC, MEMORY_FRAC = 0.90, 0.01
LIBRARIES = ("torch", "transformers", "torchvision", "numba")


def bars() -> Iterator[Bar]:
    missing = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
    name, bar = "kernels of models chosen unseen", f">= {LEAST_FRAC:.0%} of GPU time within 25 %, each step"
    if missing:
        note = f"{' and '.join(missing)} not installed"
        yield Bar(name=name, issue=ISSUE, bar=bar, measured="-", holds=None, note=note)
        return
    from benchmarks.profiled_models import compared

    found = list(compared())
    least = min(found, key=lambda one: one.within_frac)
    total = sum(one.within_s for one in found) / sum(one.kernels_s for one in found)
    yield Bar(
        name=name,
        issue=ISSUE,
        bar=bar,
        measured=f"{total:.1%} of {len(found)} steps, least {least.within_frac:.1%}",
        holds=least.within_frac >= LEAST_FRAC,
        note=f"least: {least.name}",
    )
    off = {one.name: one.predicted_bytes / one.measured_bytes - 1 for one in found}
    worst = max(off, key=lambda name: abs(off[name]))
    yield Bar(
        name="peak memory of models chosen unseen",
        issue=ISSUE,
        bar=f"MAPE <= {MEMORY_FRAC:.0%}",
        measured=f"{sum(map(abs, off.values())) / len(off):.2%}",
        holds=sum(map(abs, off.values())) / len(off) <= MEMORY_FRAC,
        note=f"worst {off[worst]:+.1%}: {worst}",
    )
    times = {one.name: one.predicted_s / one.measured_s - 1 for one in found}
    yield Bar(
        name="step time of models chosen unseen",
        issue=ISSUE,
        bar="printed",
        measured=f"MAPE {sum(map(abs, times.values())) / len(times):.1%}",
        holds=None,
        note="no bar; " + ", ".join(f"{name.split('|')[0]} {error:+.1%}" for name, error in times.items()),
    )
