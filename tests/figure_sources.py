"""What figures in sentences come from: generated tables, recorded results, constants of the code, predictions.

Everything is worked out when it is first asked for. `SOURCES[name]` is by its key a value, or a group of them.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from dovetail.api import simulate
from dovetail.cost.price import price
from dovetail.hardware.catalog import chips
from dovetail.hardware.failures import failures
from dovetail.step.pipelines import pipelines
from dovetail.step.work import slowest_frac
from dovetail.units import GIGA, MICRO, MILLI, PICO, SECONDS_PER_YEAR, TERA
from tests.figure_measured import (
    beside,
    choice,
    contention,
    covered,
    die,
    interval,
    memory,
    mixtures,
    products,
    publishers,
    refitted,
    releases,
    scores,
    slowdown,
    unpredicted,
    worst,
)
from tests.figure_records import bar, bounding, converged, nest, phaze, proof, replays, schedule_gaps, wham

ROOT = Path(__file__).resolve().parent.parent


class Lazy(Mapping[str, Any]):
    """Values by key, each worked out by a function of its key when it is asked for."""

    def __init__(self, value_of: Callable[[str], Any]) -> None:
        self._value_of = cache(value_of)

    def __getitem__(self, key: str) -> Any:
        return self._value_of(key)

    def __iter__(self) -> Iterator[str]:
        raise TypeError("what a source has is not listed")

    def __len__(self) -> int:
        raise TypeError("what a source has is not counted")


# --- the code -------------------------------------------------------------------------------------------------------


@cache
def modules_with(name: str) -> tuple[str, ...]:
    """Modules of the package that set this name at their top."""
    package = ROOT / "src"
    files = sorted((package / "dovetail").rglob("*.py"))
    found = [file for file in files if re.search(rf"^{name}(?:: [^=]+)? = ", file.read_text(encoding="utf-8"), re.M)]
    return tuple(".".join(file.relative_to(package).with_suffix("").parts).removesuffix(".__init__") for file in found)


def constant(key: str) -> Any:
    """A constant of the package by its name, wherever it stands; attributes go behind it, the module's name before."""
    where, _, path = key.rpartition(":")
    name, *attributes = path.split(".")
    [module] = [module for module in modules_with(name) if module.endswith(where)]
    found: Any = getattr(importlib.import_module(module), name)
    for part in attributes:
        found = getattr(found, part)
    return found


def benchmark(key: str) -> Any:
    """A constant of a benchmark, behind its module's name."""
    module, _, name = key.partition(":")
    return getattr(importlib.import_module(f"benchmarks.{module}"), name)


def short(key: str) -> list[float]:
    """By how much of a step a pipeline's closed form may be too short, in percent: transfers to 5, 20 and 50 %."""
    return [100 * frac for frac in pipelines[key].worst_short_frac]


def in_units_of(unit: float) -> Callable[[str], float]:
    """Constants over a unit: seconds in microseconds, shares in percent."""
    return lambda key: float(constant(key)) / unit


def device_years(key: str) -> float:
    """How long a device lasts until it stops its job, by a published count."""
    return failures[key]().among_s(1) / SECONDS_PER_YEAR


def slowest(key: str) -> float:
    """The clock of the slowest of so many GPUs, over that of the mean."""
    return float(slowest_frac(int(key), constant("CLOCK_SPREAD_FRAC")))


def usd(key: str) -> float:
    """What a chip costs to make."""
    return float(price(chips[key]()).total_usd)


def step(key: str) -> float:
    """Seconds that a job of `JOBS` takes a step."""
    return float(simulate(JOBS[key]).step_s)


def _shared(exchange: str, **changes: object) -> dict[str, object]:
    """Llama 3 8B whose sequences eight ranks share."""
    plan = {"context_parallel": 8, "zero_stage": 1, "recompute": "full", "context_comm_type": exchange}
    workload = {"model": "llama3-8b", "seq": 131072, "global_batch": 8}
    cluster = {"name": "dgx-h100", "devices": 64}
    if changes:
        workload, plan = workload | {"seq": 8192, "global_batch": 128}, plan | changes
    return {"workload": workload, "cluster": cluster, "plan": plan}


def _routed(**routing: float) -> dict[str, object]:
    """Mixtral of the examples, its rows routed unevenly."""
    spec: dict[str, Any] = yaml.safe_load((ROOT / "examples" / "mixtral-8x7b-64xh100.yaml").read_text(encoding="utf-8"))
    return spec | {"workload": spec["workload"] | ({"routing": routing} if routing else {})}


JOBS = {
    **{f"{way}, long": _shared(way) for way in ("gather", "ring", "all-to-all")},
    **{f"{way}, short": _shared(way, recompute="none") for way in ("gather", "ring", "all-to-all")},
    "mixtral": _routed(),
    "mixtral, uneven": _routed(expert_imbalance=1.3),
    "mixtral, uneven and cut": _routed(expert_imbalance=1.3, capacity_factor=1.25),
}


SOURCES: Mapping[str, Any] = {
    "accuracy": Lazy(scores),
    "beside": Lazy(beside),
    "benchmark": Lazy(benchmark),
    "unpredicted": Lazy(unpredicted),
    "choice": Lazy(choice),
    "interval": Lazy(interval),
    "memory": Lazy(memory),
    "refitted": Lazy(refitted),
    "mixtures": Lazy(mixtures),
    "releases": Lazy(releases),
    "die": Lazy(die),
    "products": Lazy(products),
    "publishers": Lazy(publishers),
    "bar": Lazy(bar),
    "nest": Lazy(nest),
    "wham": Lazy(wham),
    "phaze": Lazy(phaze),
    "converged": Lazy(converged),
    "proof": Lazy(proof),
    "schedules": Lazy(schedule_gaps),
    "code": Lazy(constant),
    "tera": Lazy(in_units_of(TERA)),
    "giga": Lazy(in_units_of(GIGA)),
    "percent": Lazy(in_units_of(0.01)),
    "milli": Lazy(in_units_of(MILLI)),
    "micro": Lazy(in_units_of(MICRO)),
    "pico": Lazy(in_units_of(PICO)),
    "square_micron": Lazy(in_units_of((MICRO / MILLI) ** 2)),
    "device_years": Lazy(device_years),
    "slowest": Lazy(slowest),
    "price": Lazy(usd),
    "worst": Lazy(worst),
    "step": Lazy(step),
    "short": Lazy(short),
    "contention": Lazy(contention),
    "slowdown": Lazy(slowdown),
    "covered": Lazy(covered),
    "bounding": Lazy(bounding),
    "replays": Lazy(replays),
}
