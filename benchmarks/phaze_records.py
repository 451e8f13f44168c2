"""Chip and plan together for PHAZE's models, recorded: `python -m benchmarks.phaze_records [MODEL:TERMS ...]`.

Without names all sixteen pairs; a record that is there already is replaced. Each has what `dovetail reproduce phaze`
searches for the model, by the plans that chips are searched with, and the CPU seconds that the joint search took.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.bar import REPOSITORY
from dovetail.hardware.template import design_of
from dovetail.papers.phaze import expert_placement
from dovetail.papers.phaze_cases import CASES, GLOBAL_BATCH, TERMS, Case, Terms
from dovetail.papers.phaze_joint import chip_of_point, question_of, separate_steps, stop_of
from dovetail.report.papers.phaze import rate
from dovetail.search.codesign.joint import joint_search, local_backend
from dovetail.search.codesign.scoring import Scorer
from dovetail.units import GIBI, MEBI

RECORDS = REPOSITORY / "benchmarks" / "results" / "phaze-joint.json"
PAIRS = {f"{case.model}:{terms.name}": (case, terms) for terms in TERMS for case in CASES}
HEAD = (
    *("model, terms", "chip", "HBM", "plan", "sequences per second", "gap", "over experts", "over our plan"),
    *("over plan then chip", "over chip then plan", "scored", "looked at", "found", "CPU-s"),
)

Record = dict[str, Any]


def records() -> dict[str, Record]:
    """Every record by model and terms; none where nothing was recorded."""
    return json.loads(RECORDS.read_text()) if RECORDS.exists() else {}


def searched(case: Case, terms: Terms) -> Record:
    """A model searched again; all of it by the plans that chips are searched with."""
    question, began_s = question_of(case, terms), time.process_time()
    scorer = Scorer(question)
    best = joint_search(scorer, local_backend(scorer))
    cpu_s = time.process_time() - began_s
    assert best is not None, case
    [own], steps, expert = best.best.cases, separate_steps(question), expert_placement(case, terms)
    assert steps is not None, case
    assert steps.chip_then_plan_s is not None, case
    assert expert is not None, case
    num_stopped, stopped_s = stop_of(question, scorer)
    chip = chip_of_point(question, best.best.point)
    return {
        "model": case.model,
        "reported_as": case.name,
        "terms": terms.name,
        "chip": str(design_of(chip)),
        "sram_bytes": chip.sram.capacity_bytes,
        "hbm_bytes": chip.hbm.capacity_bytes,
        "plan": [own.plan.pipeline_parallel, own.plan.data_parallel, own.plan.tensor_parallel],
        "microbatch": own.plan.microbatch,
        "layers_per_stage": list(own.plan.layers_per_stage),
        "sequences_per_s": GLOBAL_BATCH / own.step_s,
        "gap_frac": best.gap_frac,
        "gain_over_expert": GLOBAL_BATCH / own.step_s / expert.sequences_per_s,
        "gain_over_base": steps.base_s / own.step_s,
        "gain_over_plan_then_chip": steps.plan_then_chip_s / own.step_s,
        "gain_over_chip_then_plan": steps.chip_then_plan_s / own.step_s,
        "num_systems": best.census.num_systems,
        "num_scored": best.census.num_scored,
        "num_refined": best.census.num_refined,
        "num_open": best.census.num_open,
        "stopped_chips": num_stopped,
        "stopped_frac": own.step_s / stopped_s,
        "cpu_s": round(cpu_s, 1),
    }


def table(known: dict[str, Record]) -> str:
    """Records as the table of docs/model/phaze.md."""
    lines = [f"| {' | '.join(row)} |\n" for row in (HEAD, *map(_cells, known.values()))]
    return "".join((lines[0], f"{'|---' * len(HEAD)}|\n", *lines[1:]))


def _cells(row: Record) -> tuple[str, ...]:
    gains = ("gain_over_expert", "gain_over_base", "gain_over_plan_then_chip", "gain_over_chip_then_plan")
    return (
        f"{row['reported_as']}, {row['terms']}",
        f"{row['chip']}, {row['sram_bytes'] / MEBI:.0f} MiB",
        f"{row['hbm_bytes'] / GIBI:.0f} GiB",
        "/".join(map(str, row["plan"])),
        rate(row["sequences_per_s"]),
        f"{row['gap_frac']:.1%}" if row["gap_frac"] else "0",
        *(f"{row[name]:.2f}" for name in gains),
        f"{row['num_scored']:,}",
        f"{row['stopped_chips']:,}",
        f"{row['stopped_frac']:.2f}",
        f"{row['cpu_s']:.0f}",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *PAIRS], metavar="MODEL:TERMS")
    for name in parser.parse_args(arguments).names or PAIRS:
        found = searched(*PAIRS[name])
        known = records() | {name: found}
        kept = {each: known[each] for each in PAIRS if each in known}
        RECORDS.write_text(json.dumps(kept, indent=2) + "\n")
        print(
            f"{name}: gap {found['gap_frac']:.2%}, {found['num_scored']:,} scored, {found['cpu_s']} CPU-s", flush=True
        )


if __name__ == "__main__":
    main()
