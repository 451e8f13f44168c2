"""A row that cannot be predicted is named with its reason, and the rest of its table is scored."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import dovetail as dv
from dovetail.accuracy.prepared import TableContext
from dovetail.accuracy.runs.row import Row
from dovetail.accuracy.runs.stacks import compute_of
from dovetail.accuracy.runs.timing import timed_rows
from dovetail.accuracy.sets import prepared, published_memory
from dovetail.errors import InvalidInput, NotModelled
from dovetail.files.measurements import load_measurements

GEMM = "m,n,k,dtype,layout,time_us\n"
GOOD = "4096,4096,4096,bf16,nt,230"
RUN = {
    "row_id": "A1", "source": "our own runs", "quality": "table", "model": "Llama 8B", "layers": "32",
    "hidden": "4096", "heads": "32", "kv_heads": "8", "ffn": "14336", "vocab": "128256", "seq": "8192",
    "global_batch": "128", "micro_batch": "1", "n_gpus": "8", "gpu": "H100-80GB SXM", "tp": "1", "pp": "1",
    "dp": "8", "cp": "1", "recompute": "full", "zero_stage": "1", "precision": "bf16", "iter_time_s": "16",
    "framework": "NeMo/Megatron-Core",
}  # fmt: skip
# What a table of one's own runs may hold, with the reason that is given.
ODD_RUNS = {
    "out of memory": ({"iter_time_s": "OOM"}, "iter_time_s is 'OOM', not a number"),
    "zero": ({"iter_time_s": "0"}, "no time, rate of tokens or counted FLOP/s is given"),
    "not a number": ({"iter_time_s": "nan"}, "iter_time_s is 'nan', not a number"),
    "fp4 on an H100": ({"precision": "NVFP4"}, "h100-sxm has no rate for fp4"),
    "fp8 on an A100": ({"precision": "fp8", "gpu": "A100-80GB SXM"}, "a100-80gb-sxm has no rate for fp8"),
    "no precision": ({"precision": ""}, "precision not given"),
    "no precision on an A100": ({"precision": "", "gpu": "A100-80GB SXM"}, "precision not given"),
}


def table(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "gemm.csv"
    file.write_text(text, encoding="utf-8")
    return file


def left_out(found: dv.Validation) -> dict[str, int]:
    return {part["what"]: part["num_rows"] for one in found.record["sets"] for part in one["skipped"]}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("4096,4096,4096,bf16,nt,OOM", "time_us must be a number; got 'OOM' (line 3)"),
        ("4096,4096,4096,bf16,nt,0", "time_us must be above 0; got '0' (line 3)"),
        ("4096,4096,4096,bf16,nt,-3", "time_us must be above 0; got '-3' (line 3)"),
        ("4096,4096,4096,bf16,nt,nan", "time_us must be a finite number; got 'nan' (line 3)"),
        ("4096,4096.5,4096,bf16,nt,230", "n must be a whole number; got '4096.5' (line 3)"),
        ("4096,4096,4096,bf16,sideways,230", "no layout is named 'sideways'; known: nn, nt, tn, tt (line 3)"),
    ],
)
def test_a_cell_that_cannot_be_read_leaves_out_its_row_alone(tmp_path, row, reason):
    found = dv.validate(table(tmp_path, f"{GEMM}{GOOD}\n{row}\n{GOOD}\n"), chip="h100-sxm")
    assert left_out(found) == {f"rows not predicted: {reason}": 1}
    assert [one["scores"][0]["num_rows"] for one in found.record["sets"]] == [2]
    assert reason.split(" (")[0] in " ".join(str(found).split())


def test_a_dtype_that_the_chip_has_not_is_left_out(tmp_path):
    found = dv.validate(table(tmp_path, f"{GEMM}{GOOD}\n4096,4096,4096,fp4,nt,100\n"), chip="h100-sxm")
    assert left_out(found) == {"rows in fp4, for which h100-sxm has no rate": 1}


def test_the_rest_scores_as_it_does_alone(tmp_path):
    odd = [f"4096,4096,4096,bf16,nt,{time}" for time in ("OOM", "0", "nan", "OOM", "OOM", "OOM", "OOM", "OOM")]
    beside = dv.validate(table(tmp_path, GEMM + "\n".join([GOOD, *odd]) + "\n"), chip="h100-sxm")
    alone = dv.validate(table(tmp_path, f"{GEMM}{GOOD}\n"), chip="h100-sxm")
    [one], [other] = beside.record["sets"], alone.record["sets"]
    assert {key: value for key, value in one.items() if key != "skipped"} == {
        key: value for key, value in other.items() if key != "skipped"
    }
    assert left_out(beside)["rows not predicted: time_us must be a number; got 'OOM' (lines 3, 6, 7, 8, 9 ...)"] == 6


def test_a_table_without_a_row_that_can_be_read_is_refused_by_its_first(tmp_path):
    with pytest.raises(InvalidInput, match=r"time_us must be a number; got 'OOM' \(.*gemm.csv:2\)"):
        dv.validate(table(tmp_path, f"{GEMM}4096,4096,4096,bf16,nt,OOM\n4096,4096,4096,bf16,nt,0\n"), chip="h100-sxm")


def test_a_layer_that_cannot_be_expressed_leaves_out_its_row_alone(tmp_path):
    columns = "model,tp,micro_batch,seq,hidden,ffn,heads,kv_heads,head_dim,gated,causal,mode,fwd_bwd_ms\n"
    rows = [f"llama,1,1,4096,4096,14336,32,8,128,1,1,{mode},20\n" for mode in ("eager", "jit")]
    found = dv.validate(table(tmp_path, columns + "".join(rows)))
    assert [one["scores"][0]["num_rows"] for one in found.record["sets"]] == [1]
    [(told, count)] = left_out(found).items()
    assert "mode 'jit' is not modelled" in told
    assert count == 1


def test_peak_memory_that_is_no_figure_leaves_out_its_row_alone(tmp_path):
    columns = (*published_memory.NEEDED, *published_memory.READ)
    cells = {
        "mem_id": "X1",
        "source": "torchtitan",
        "quality": "table",
        "model": "x",
        "metric": "peak",
        "value_gib": "OOM",
    }
    rows = [{**cells, "value_gib": value, "mem_id": f"X{value}"} for value in ("20", "OOM", "nan")]
    text = "\n".join(",".join(row.get(column, "") for column in columns) for row in rows)
    measured = load_measurements(table(tmp_path, f"{','.join(columns)}\n{text}\n"))
    [found] = prepared(measured, TableContext())
    told = [what for what, _ in found.skipped if what.startswith("rows not predicted: value_gib must be")]
    assert [what.rpartition("(")[2] for what in told] == ["line 3)", "line 4)"]


@pytest.mark.parametrize("odd", ODD_RUNS)
def test_a_run_that_cannot_be_predicted_leaves_out_its_row_alone(odd):
    cells, reason = ODD_RUNS[odd]
    found, unsaid = timed_rows([Row(cells=RUN), Row(cells=RUN | {"row_id": "X"} | cells)])
    assert [one.run.name for one in found] == ["A1"]
    [told] = unsaid
    assert reason in told
    assert unsaid[told] == 1


def test_replicas_of_a_real_run_nest_where_stages_lie_inside_a_rack():
    cells = {"gpu": "GB200", "n_gpus": "2496", "tp": "4", "pp": "16", "dp": "39", "global_batch": "1248"}
    found, unsaid = timed_rows([Row(cells=RUN | cells)])
    assert (len(found), unsaid) == (1, {})
    assert found[0].run.plan.data_parallel == 39


def test_all_of_them_together_are_validated(tmp_path):
    file = tmp_path / "runs.csv"
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, list(RUN))
        writer.writeheader()
        writer.writerows([RUN, *(RUN | {"row_id": odd} | cells for odd, (cells, _) in ODD_RUNS.items())])
    found = dv.validate(file)
    assert [one["scores"][0]["num_rows"] for one in found.record["sets"]] == [1]
    assert sum(left_out(found).values()) == len(ODD_RUNS)


def test_a_blank_precision_is_what_the_publisher_is_known_for_and_never_a_guess():
    def said(**cells: str) -> str:
        return compute_of(Row(cells=RUN | {"precision": ""} | cells))

    assert said(source="NVIDIA Megatron-Bridge performance summary") == "fp8"
    assert said(source="MLPerf Training v4.0 closed-division logs") == "fp8"
    assert said(source="MLPerf Training v2.1 closed-division logs", gpu="A100-80GB SXM") == "bf16"
    assert said(framework="torchtitan") == "bf16"
    with pytest.raises(NotModelled, match="precision not given"):
        said()
