"""Makes the pictures of the documentation: `python docs/images/pictures.py` writes all, with names those alone.

Every chart is that of an answer, as `dovetail` gives it today; diagrams are drawn in diagrams.py. One SVG serves light
and dark. `--quick` leaves out those whose answers take more than some seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import dovetail as dv
from dovetail.errors import did_you_mean
from dovetail.files.published_runs import load_published_runs
from dovetail.hardware.catalog import chips
from dovetail.report.charts.adaptive import adaptive_svg
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.floorplan import area_by_part, floorplan, power_by_part
from dovetail.report.charts.pipeline import pipeline_timeline
from dovetail.report.charts.published import published_scatter

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))
from diagrams import DIAGRAMS  # noqa: E402  # beside this file, which is no package

SPEC = "examples/llama3-70b-512xh100.yaml"
TORUS = "torus:4x4@150GB/s,500ns"
SMALL = {"model": "gpt2-1.5b", "cluster": "h100x8", "global_batch": 8}
NUM_PUBLISHERS = 12


@cache
def answer(name: str) -> Any:
    """The answers that pictures are of, each found once."""
    return ANSWERS[name]()


ANSWERS: dict[str, Callable[[], Any]] = {
    "step": lambda: dv.simulate(SPEC),
    "pools": lambda: dv.simulate("examples/llama3-70b-mixed.yaml"),
    "experts": lambda: dv.simulate("examples/mixtral-8x7b-64xh100.yaml"),
    "plan": lambda: dv.plan(model="llama3-8b", cluster="h100x64", global_batch=128),
    "chips-compared": lambda: dv.compare(
        "a100x64", "h100x64", "h200x64", model="llama3-8b", plan="tp=8,pp=2,sp,zero=1"
    ),
    "bandwidth-sweep": lambda: dv.sweep(
        model="llama3-70b",
        cluster="h100x512",
        plan="tp=8,pp=4,sp,zero=1",
        over={"chip.hbm.bandwidth": ["1.5TB/s", "2TB/s", "3TB/s", "4TB/s", "6TB/s", "8TB/s"]},
    ),
    "degree-sweep": lambda: dv.sweep(
        model="llama3-70b", cluster="h100x512", plan="pp=4,sp,zero=1", over={"plan.tp": [2, 4, 8]}
    ),
    "torus": lambda: dv.network("all-reduce", size="256MiB", topology=TORUS, chunks=8),
    "themis": lambda: dv.network("all-reduce", size="256MiB", topology=TORUS, chunks=8, themis=True),
    "sizes": lambda: dv.network("all-reduce", size="1KiB..1GiB", topology="ring:8@50GB/s,500ns"),
    "product": lambda: dv.op("matmul", 4096, 4096, 4096, chip="h200", compare=True),
    "block": lambda: dv.schedule("bert-large", chip="tpuv2-like"),
    "mined": lambda: dv.mine("bert-large", batch=8, area="600 mm2", power="280 W"),
    "system": lambda: dv.codesign("bert-large", devices=16, area="700 mm2", power="320 W"),
    "front": lambda: dv.pareto(
        "bert-large", preset="cores", devices=16, area="600 mm2", power="280 W", axes="throughput,area,power"
    ),
    "ace": lambda: dv.reproduce("ace"),
    "published": lambda: dv.validate("published"),
    "shipped": lambda: dv.validate(),
}


def plotted(of: str, name: str) -> Chart:
    """The chart of this name of an answer."""
    found: Chart = answer(of).plot(name)
    return found


def schedule_timeline(schedule: str, **more: Any) -> Chart:
    """A small pipeline by one schedule."""
    found = dv.simulate(**SMALL, plan={"pp": 4, "dp": 2, "schedule": schedule, **more})
    [chart, *_] = pipeline_timeline(found.outcome)
    return chart


def two_chips(draw: Callable[..., tuple[Chart, ...]], *names: str) -> Chart:
    values = [chips[name]() for name in names]
    [chart] = draw(*values) if draw is floorplan else draw(values)
    return chart


def errors_by_publisher() -> Chart:
    """Mean and 90th percentile of the error on runs of each publisher."""
    from dovetail.report.charts.set_errors import errors_by_set

    [whole] = [one for one in answer("published").record["sets"] if one["set"] == "published_training"]
    parts = sorted(whole["scores"][1:], key=lambda scored: -scored["num_rows"])[:NUM_PUBLISHERS]
    [chart] = errors_by_set({"sets": [{"set": part["kind"], "scores": [part]} for part in parts]})
    return chart


QUICK: dict[str, Callable[[], Chart]] = {
    **{f"step-{name}": partial(plotted, "step", name) for name in (
        "memory-by-stage", "time-by-stage", "elasticities", "topology", "network-use", "roofline", "memory-over-time",
    )},
    **{f"experts-{name}": partial(plotted, "experts", name) for name in ("time-by-stage", "pipeline", "roofline")},
    "compare-time": partial(plotted, "chips-compared", "time-by-job"),
    "compare-memory": partial(plotted, "chips-compared", "memory-by-job"),
    "sweep-bandwidth": partial(plotted, "bandwidth-sweep", "step-over-axis"),
    "sweep-degree-time": partial(plotted, "degree-sweep", "time-by-job"),
    **{f"network-{name}": partial(plotted, "torus", name) for name in ("topology", "chunks", "link-load")},
    "network-pools": partial(plotted, "pools", "topology"),
    "network-themis": partial(plotted, "themis", "chunks"),
    "network-time": partial(plotted, "sizes", "time"),
    "network-bandwidth": partial(plotted, "sizes", "bandwidth"),
    "op-roofline": partial(plotted, "product", "roofline"),
    "op-estimates": partial(plotted, "product", "estimates"),
    "pipeline-gpipe": partial(schedule_timeline, "gpipe"),
    "pipeline-1f1b": partial(schedule_timeline, "1f1b"),
    "pipeline-interleaved": partial(schedule_timeline, "interleaved", interleave=2),
    "pipeline-zb-h1": partial(schedule_timeline, "zb-h1"),
    "chip-floorplan": partial(two_chips, floorplan, "h100-sxm", "tpu-v4"),
    "chip-floorplan-tpus": partial(two_chips, floorplan, "tpu-v5e", "tpu-v4"),
    "chip-area": partial(two_chips, area_by_part, "a100-80gb-sxm", "h100-sxm", "tpu-v4"),
    "chip-power": partial(two_chips, power_by_part, "a100-80gb-sxm", "h100-sxm", "tpu-v4"),
    "published-scatter": lambda: published_scatter(load_published_runs()),
}  # fmt: skip
SLOW: dict[str, Callable[[], Chart]] = {
    **{f"plan-{name}": partial(plotted, "plan", name) for name in ("plans-scatter", "plans", "convergence")},
    **{f"schedule-{name}": partial(plotted, "block", name) for name in ("schedule", "held")},
    **{f"mine-{name}": partial(plotted, "mined", name) for name in ("designs", "convergence")},
    **{f"codesign-{name}": partial(plotted, "system", name) for name in (
        "floorplan", "waterfall", "coordinates", "importances", "systems-by-area",
    )},
    "pareto-area": partial(plotted, "front", "front-area"),
    "ace-beside-paper": partial(plotted, "ace", "beside-paper"),
    "ace-memory": partial(plotted, "ace", "ace-memory"),
    "memory-measured": partial(plotted, "published", "measured-gib"),
    "error-by-publisher": errors_by_publisher,
    "error-by-set": partial(plotted, "shipped", "set-errors"),
}  # fmt: skip
CHARTS = QUICK | SLOW


def picture(name: str) -> str:
    """The SVG of one picture."""
    return DIAGRAMS[name]() if name in DIAGRAMS else adaptive_svg(CHARTS[name]()).rstrip("\n") + "\n"


def names(chosen: list[str]) -> Iterator[str]:
    """Those to make: the ones that were named, or all."""
    if "--quick" in chosen:
        yield from (*DIAGRAMS, *QUICK)
        return
    known = (*DIAGRAMS, *CHARTS)
    for name in chosen or known:
        if name not in known:
            raise SystemExit(f"no picture is named {name!r}{did_you_mean(name, known)}")
        yield name


if __name__ == "__main__":
    for name in names(sys.argv[1:]):
        (FOLDER / f"{name}.svg").write_text(picture(name), encoding="utf-8")
        sys.stderr.write(f"{name}.svg\n")
