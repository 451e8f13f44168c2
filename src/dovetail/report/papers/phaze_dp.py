"""PHAZE's placement instances as plain data for JSON, and as a table with the recorded optimum beside ours."""

from __future__ import annotations

from dovetail.papers.phaze_dp import TOLERANCE_S, PhazeCase, PhazeDpStudy, Placed
from dovetail.report.plain import Record
from dovetail.report.table import Table

NOTES = (
    f"holds when batch times, ours and the experts', are the recorded ones within {TOLERANCE_S:g} s",
    "PHAZE's cost formulas come as tables, with what they leave out: no weight-gradient product, gradients exchanged"
    " for the first stage alone (which is why the embedding is cut off by itself), memory of 4 bytes a parameter. The"
    " instances test the placement program and say nothing of a real cluster.",
)


def phaze_dp_record(study: PhazeDpStudy) -> Record:
    return {"paper": "PHAZE", "holds": study.holds, "cases": [_case_record(case) for case in study.cases]}


def _case_record(case: PhazeCase) -> Record:
    return {
        "instance": case.name,
        "recorded": _placed_record(case.recorded),
        "ours": _placed_record(case.ours),
        "gap_s": case.gap_s,
        "expert_gap_s": case.expert_gap_s,
        "is_same_partition": case.is_same_partition,
        "holds": case.holds,
    }


def _placed_record(placed: Placed) -> Record:
    return {
        "batch_s": placed.batch_s,
        "expert_batch_s": placed.expert_batch_s,
        "tensor_parallel": placed.tensor_parallel,
        "data_parallel": placed.data_parallel,
        "num_stages": placed.num_stages,
    }


def phaze_dp_tables(record: Record) -> tuple[Table, ...]:
    """One table; `record` as `phaze_dp_record` gives it."""
    rows = tuple(
        (
            case["instance"],
            f"{case['ours']['batch_s']:.6f}",
            f"{case['recorded']['batch_s']:.6f}",
            f"{case['gap_s']:.0e}",
            "/".join(str(case["ours"][key]) for key in ("num_stages", "data_parallel", "tensor_parallel")),
            "same" if case["is_same_partition"] else "other",
            "ok" if case["holds"] else "MISSED",
        )
        for case in record["cases"]
    )
    return (
        Table(
            title="PHAZE's placement program: seconds a batch, ours beside the recorded",
            columns=("instance", "ours", "recorded", "gap", "pp/dp/tp", "cut", ""),
            rows=rows,
            align="lrrrrl",
            notes=NOTES,
        ),
    )
