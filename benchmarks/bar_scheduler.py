"""Operators on cores: how near the best the fast schedule is, what the exact one proves, and what both cost.

Solvers run with limits that keep all of it under four minutes, so "best known" is a second of the exact schedule and
what `schedule_records` has of longer runs. DOVETAIL_SCHEDULER_S=60 gives every block the seconds of the bar.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import fmean

import numpy as np

from benchmarks.bar import Bar
from benchmarks.operator_graphs import catalogue_blocks, random_graph
from benchmarks.schedule_records import CHIPS, LARGE_GAP, RANDOM, SMALL, SMALL_GAP, Record, better, record_of, records
from dovetail.api.timed.designing import template_chips
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.opsched.batch import scheduled
from dovetail.opsched.exact import Limit, exact_schedule
from dovetail.opsched.fast import QUICK, list_schedule
from dovetail.opsched.phaze import phaze_schedule, without_bandwidth
from dovetail.opsched.problem import CoreSchedule
from dovetail.opsched.work import chip_batch, core_problem, work_of
from dovetail.units import MICRO
from dovetail.workload.graph import Ops
from dovetail.workload.optimizer import Precision

ISSUE = 6
MANY_CORES = "nvdla-like"  # the third of the hand-tuned templates, of 64 cores, reported beside CHIPS
NUM_RANDOM = 200  # graphs by seed, all of which have records
BLOCK_S = float(os.environ.get("DOVETAIL_SCHEDULER_S", "1"))
BAR_S = 60.0
MEAN_OFF, WORST_OFF = 0.05, 0.15
NUM_MANY, MANY_S = 100_000, 1.0
LAYER_S = 50 * MICRO
LAYER = "bert-large layer"
PHAZE_S = 5.0


def bars() -> Iterator[Bar]:
    blocks = dict(catalogue_blocks())
    yield random_quality()
    found = {f"{block} on {chip}": pair for chip in CHIPS for block, pair in both(blocks, chips[chip]()).items()}
    yield block_quality(found, len(blocks))
    yield from exact_gaps({name: exact for name, (_, exact) in found.items()})
    yield many_cores(blocks)
    yield against_phaze(blocks)
    yield many_operators()
    yield layer_on_chips(blocks[LAYER])


Pair = tuple[CoreSchedule, CoreSchedule]  # fast, exact


def random_quality() -> Bar:
    """Against records of long runs, of layers of states and CP-SAT: another search than the fast one."""
    known = {name: record for name, record in records().items() if name.startswith(RANDOM)}
    off = []
    for name, record in known.items():
        found = list_schedule(random_graph(int(name.removeprefix(RANDOM)))).makespan_beats
        off.append(found / min(found, record.makespan_beats) - 1)
    gaps = [record.gap_frac for record in known.values()]
    small = [record.gap_frac for record in known.values() if record.num_operators <= SMALL]
    closed = sum(gap <= SMALL_GAP for gap in small)
    return Bar(
        name=f"fast schedules of {len(known)} random graphs, above the best known",
        issue=ISSUE,
        bar=f"<= {MEAN_OFF:.0%} on average, {WORST_OFF:.0%} at worst",
        measured=f"{fmean(off):.2%}, {max(off):.2%}",
        holds=len(known) >= NUM_RANDOM and fmean(off) <= MEAN_OFF and max(off) <= WORST_OFF,
        note=f"recorded long runs: gap {fmean(gaps):.1%} on average, {max(gaps):.1%} at most;"
        f" {closed} of {len(small)} of up to {SMALL} operators within {SMALL_GAP:.0%}",
    )


def both(blocks: dict[str, Ops], chip: Chip) -> dict[str, Pair]:
    """Every distinct problem of the blocks on a chip, fast and exact; blocks that cost the same are solved once."""
    found: dict[str, Pair] = {}
    seen: set[bytes] = set()
    for name, ops in blocks.items():
        problem = core_problem(work_of(ops, Precision()), chip)
        key = problem.modes.beats.tobytes() + problem.dag.edge_to.tobytes()
        if key not in seen:
            seen.add(key)
            exact = exact_schedule(problem, Limit(wall_s=BLOCK_S, num_workers=2, gap_frac=SMALL_GAP / 2))
            found[name] = (list_schedule(problem), exact)
    return found


def block_quality(found: dict[str, Pair], num_blocks: int) -> Bar:
    known = records()
    best = {name: exact.makespan_beats for name, (_, exact) in found.items()}
    best |= {name: min(best[name], known[name].makespan_beats) for name in best if name in known}
    off = {name: fast.makespan_beats / best[name] - 1 for name, (fast, _) in found.items()}
    worst = max(off, key=lambda key: off[key])
    return Bar(
        name=f"fast schedules of the catalogue's {num_blocks} distinct blocks, above the best known",
        issue=ISSUE,
        bar=f"<= {MEAN_OFF:.0%} on average, {WORST_OFF:.0%} at worst",
        measured=f"{fmean(off.values()):.2%}, {off[worst]:.2%} ({worst})",
        holds=fmean(off.values()) <= MEAN_OFF and off[worst] <= WORST_OFF,
        note=f"on {' and '.join(CHIPS)}",
    )


def exact_gaps(found: dict[str, CoreSchedule]) -> Iterator[Bar]:
    known = records()
    live = {name: record_of(schedule, BLOCK_S, 0.0) for name, schedule in found.items()}
    best = {name: better(known[name], record) if name in known else record for name, record in live.items()}
    small, large = f"up to {SMALL} operators", "more"
    for label, most in ((small, SMALL_GAP), (large, LARGE_GAP)):
        names = [name for name, record in live.items() if (record.num_operators > SMALL) == (label == large)]
        quick, full = (gaps_text([records_of[name] for name in names], most) for records_of in (live, best))
        yield Bar(
            name=f"exact schedules of catalogue blocks of {label}: proven gap",
            issue=ISSUE,
            bar=f"<= {most:.0%} in {BAR_S:g} s on 2 cores",
            measured=f"{full}; in {BLOCK_S:g} s {quick}",
            holds=all(best[name].gap_frac <= most for name in names),
            note=f"with recorded runs of up to {max((r.wall_s for r in known.values()), default=BLOCK_S):g} s",
        )


def gaps_text(found: list[Record], most: float) -> str:
    gaps = [record.gap_frac for record in found]
    return f"{sum(gap <= most for gap in gaps)} of {len(gaps)}, largest {max(gaps):.1%}"


def many_cores(blocks: dict[str, Ops]) -> Bar:
    """32 + 32 cores split in six ways: the hardest to prove. No bar of its own."""
    names = (LAYER, "llama3-8b layer", "resnet-50 layer1_0", "mixtral-8x7b expert_layer", "vgg-16 head")
    chip = chips[MANY_CORES]()
    found = both({name: blocks[name] for name in names if name in blocks}, chip)
    gaps = {name: exact.gap_frac for name, (_, exact) in found.items()}
    return Bar(
        name=f"exact schedules on {MANY_CORES}, 64 cores: proven gap",
        issue=ISSUE,
        bar="reported",
        measured=", ".join(f"{name} {gap:.1%}" for name, gap in gaps.items()),
        holds=None,
        note=f"no bar was set for so many cores; {BLOCK_S:g} s each",
    )


def against_phaze(blocks: dict[str, Ops]) -> Bar:
    """Small blocks without bandwidth, as PHAZE's program has it; blocks it finds nothing for are left out."""
    ratios = []
    for name in ("bert-large embedding", "deepseek-v3 head", "gnmt encoder_2", "gnmt encoder_3", "gnmt decoder_2"):
        problem = without_bandwidth(core_problem(work_of(blocks[name], Precision()), chips[CHIPS[0]]()))
        theirs = phaze_schedule(problem, wall_s=PHAZE_S)
        ratios.append(exact_schedule(problem, Limit(wall_s=PHAZE_S)).makespan_beats / theirs.makespan_beats)
    return Bar(
        name=f"exact schedules over those of PHAZE's program, {len(ratios)} blocks",
        issue=ISSUE,
        bar="<= 1 everywhere",
        measured=f"{max(ratios):.4f} at most, {min(ratios):.4f} at least",
        holds=max(ratios) <= 1.0,
    )


def many_operators() -> Bar:
    problem = random_graph(1, NUM_MANY)
    list_schedule(random_graph(1, 30), QUICK)  # compiled before it is timed
    took_s = least_cpu_s(lambda: list_schedule(problem, replace(QUICK, rules=QUICK.rules[:1])), 3)
    return Bar(
        name=f"list schedule of {NUM_MANY:,} operators, with a bound",
        issue=ISSUE,
        bar=f"< {MANY_S:g} s",
        measured=f"{took_s:.2f} CPU-s",
        holds=took_s < MANY_S,
    )


def layer_on_chips(ops: Ops) -> Bar:
    many = template_chips()
    work = work_of(ops, Precision())
    batch = chip_batch(work, many)
    scheduled(batch)
    costs_s = least_cpu_s(lambda: chip_batch(work, many), 3) / len(many)
    took_s = least_cpu_s(lambda: scheduled(batch), 25) / len(many)
    return Bar(
        name=f"list schedule of a layer ({len(ops)} operators), over {len(many)} chips",
        issue=ISSUE,
        bar=f"< {LAYER_S / MICRO:.0f} us a chip",
        measured=f"{took_s / MICRO:.0f} us by {len(QUICK.rules)} rules (its costs: {costs_s / MICRO:.0f} us)",
        holds=took_s < LAYER_S,
    )


def least_cpu_s(act: Callable[[], object], num_repeats: int) -> float:
    """The least of some repeats, which is the work and not the machine's other business."""
    took_s = []
    for _ in range(num_repeats):
        began_s = time.process_time()
        act()
        took_s.append(time.process_time() - began_s)
    return float(np.min(took_s))
