"""`dovetail validate`: what ships, tables of one's own, folders, pictures, and exit codes."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from dovetail.api import appraised, measured_sets
from dovetail.api.timed import designing, proofs
from dovetail.cli import main
from dovetail.files.measurements import SHIPPED as SHIPPED_SETS
from dovetail.files.measurements import csv_files, shipped_folder
from tests.e2e.conftest import ROOT
from tests.e2e.recorded import check_recorded
from tests.e2e.test_bad_input import check_refused
from tests.shipped_accuracy import shipped_accuracy

SHIPPED = ROOT / "src" / "dovetail" / "accuracy" / "data"
HEADER = "m,n,k,layout,time_us\n"
NUM_LINES = 30
EXACT = "tool,m,n,k,array_rows,array_cols,dataflow,cycles,stall_cycles\nSCALE-Sim,16,16,16,8,8,os,119,0\n"


def said(ran):
    assert ran.returncode in (0, 1), ran.stderr
    assert ran.stderr == ""
    return json.loads(ran.stdout)


def test_what_ships_is_compared_and_the_exit_code_says_whether_every_bar_holds(dovetail, tmp_path):
    found = dovetail("validate", "--json", DOVETAIL_REFERENCE_DATA="")
    record = said(found)
    kept = tmp_path / "kept.json"
    kept.write_text(found.stdout, encoding="utf-8")
    told = dovetail("validate", kept)  # as it is told at once, without comparing all rows again
    bars = [bar["holds"] for one in record["sets"] for score in one["scores"] for bar in score["bars"]]
    bars += [choice["holds"] for one in record["sets"] for choice in one["choices"]]
    assert len(bars) > 10
    assert record["holds"] == all(bars)
    assert told.returncode == found.returncode == (0 if all(bars) else 1)
    names = [one["set"] for one in record["sets"]]
    assert {"gemm_models", "gemm_random", "attention", "vector", "layers", "models", "SCALE-Sim"} <= set(names)
    assert all(f"  {name} " in told.stdout for name in names)
    assert "published-gemm skipped" in told.stdout
    assert "ceilings" in told.stdout  # what is of no kind we predict is named
    assert max(len(line) for line in told.stdout.splitlines()) <= 80
    assert ("MISSED" in told.stdout) == (not all(bars))


def test_scale_sim_is_met_on_every_row(dovetail):
    ran = dovetail("validate", "array-sims", "--json")
    assert ran.returncode == 0
    [scale_sim] = [one for one in said(ran)["sets"] if one["set"] == "SCALE-Sim"]
    assert scale_sim["scores"][0]["num_rows"] > 400
    assert scale_sim["scores"][0]["worst_frac"] == 0


def test_a_missed_bar_ends_with_one_and_a_chip_without_bars_with_zero(dovetail, tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text(HEADER + "4096,4096,4096,nt,1\n", encoding="utf-8")
    missed = dovetail("validate", file)
    assert missed.returncode == 1
    assert "MISSED" in missed.stdout
    assert dovetail("validate", file, "--chip", "h100-sxm").returncode == 0
    file.write_text(EXACT, encoding="utf-8")
    assert dovetail("validate", file).returncode == 0
    file.write_text(EXACT.replace("119", "120"), encoding="utf-8")
    assert dovetail("validate", file).returncode == 1


def test_published_products_are_asked_for_by_name_or_brought_along(dovetail, tmp_path):
    ran = dovetail("validate", "published-gemm", DOVETAIL_REFERENCE_DATA="")
    check_refused(ran, "not shipped", "dovetail validate FILE.csv")
    text = "system,device,gemm_dtype,m,n,k,latency_ms\na100_sxm,A100,bfloat16,4096,4096,4096,0.5\n"
    (tmp_path / "gpu_measured_gemm.csv").write_text(text, encoding="utf-8")
    (tmp_path / "tpu_measured_gemm.csv").write_text("M,N,K,time_us_avg\n512,512,512,3\n", encoding="utf-8")
    record = said(dovetail("validate", "published-gemm", "--json", DOVETAIL_REFERENCE_DATA=str(tmp_path)))
    assert [one["chip"] for one in record["sets"]] == ["a100-80gb-sxm", "tpu-v4"]


def test_a_folder_is_compared_table_by_table_and_what_is_unknown_is_named(dovetail, tmp_path):
    (tmp_path / "gemm.csv").write_text(HEADER + "64,64,64,nt,5\n", encoding="utf-8")
    (tmp_path / "contention.csv").write_text("compute,slowdown\ngemm,1.1\n", encoding="utf-8")
    (tmp_path / "junk.csv").write_bytes(b"\xff\x00\xfe" * 100)
    record = said(dovetail("validate", tmp_path, "--json"))
    assert [one["set"] for one in record["sets"]] == ["gemm"]
    notes = " ".join(record["notes"])
    assert "contention" in notes
    assert "junk.csv" in notes


def test_the_dtype_and_the_chip_can_be_said(dovetail, tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text(HEADER + "8192,8192,8192,nt,1000\n", encoding="utf-8")

    def predicted_s(*options: str) -> float:
        [one] = said(dovetail("validate", file, "--json", *options))["sets"]
        return float(one["scores"][0]["worst"][0]["predicted"])

    assert predicted_s("--dtype", "fp8") < predicted_s("--dtype", "bf16") == predicted_s()
    assert predicted_s("--chip", "b200") < predicted_s("--chip", "h200")


def test_results_can_be_read_back(dovetail, tmp_path):
    first = dovetail("validate", "array-sims", "--json")
    file = tmp_path / "results.json"
    file.write_text(first.stdout, encoding="utf-8")
    assert said(dovetail("validate", file, "--json"))["sets"] == said(first)["sets"]
    assert dovetail("validate", file).stdout == dovetail("validate", "array-sims").stdout
    check_refused(dovetail("validate", file, "--plot", tmp_path / "p.svg"), "results hold no rows to draw")
    assert not (tmp_path / "p.svg").exists()
    for option in (("--chip", "h200"), ("--dtype", "bf16"), ("--worst", "3")):
        check_refused(dovetail("validate", file, *option), "leave it out", option[0])


@pytest.mark.parametrize("words", [("array-sims", "--chip", "h200"), ("dies", "--dtype", "bf16")])
def test_what_could_not_be_said_of_any_row_is_refused(dovetail, words):
    check_refused(dovetail("validate", *words), "no set that was named takes it", words[1])


def test_some_sets_as_markdown_say_nothing_of_others(dovetail):
    told = dovetail("validate", "dies", "--markdown").stdout
    assert told.startswith("# ")
    assert "## Worst rows" in told
    assert "H200" not in told
    assert "make accuracy" not in told


def test_a_set_is_compared_once(dovetail):
    check_refused(dovetail("validate", "dies", "dies"), "'dies' is named twice")


def test_worst_rows_may_be_none_and_no_fewer(dovetail):
    check_refused(dovetail("validate", "dies", "--worst", "-1"), "--worst must be at least 0; got -1")


def test_a_picture_is_written(dovetail, tmp_path):
    file = tmp_path / "plot.svg"
    assert dovetail("validate", "array-sims", "--plot", file).returncode == 0
    text = file.read_text(encoding="utf-8")
    assert "<svg" in text
    assert "SCALE-Sim" in text
    assert text.count("<circle") > 500


def test_as_many_worst_rows_as_asked_for(dovetail):
    def num_worst(text: str) -> int:
        ran = dovetail("validate", SHIPPED / "h200" / "bmm.csv", "--json", "--worst", text)
        return len(said(ran)["sets"][0]["scores"][0]["worst"])

    assert [num_worst(text) for text in ("0", "1", "7", "1000")] == [0, 1, 7, 71]


BAD_TABLES = {
    "no rows": (HEADER, "no row of measurements"),
    "a missing column": ("m,n,k\n1,2,3\n", "column time_us missing"),
    "a word for a number": (HEADER + "64,64,x,nt,5\n", "k must be a number; got 'x'"),
    "nothing but negative times": (HEADER + "64,64,64,nt,-5\n64,64,64,nt,-6\n", ":2"),
    "no size at all": (HEADER + "0,64,64,nt,5\n", "m must be from 1"),
    "a layout that is none": (HEADER + "8,8,8,xx,5\n", "no layout is named 'xx'"),
    "a column twice": ("m,m,n,k,time_us\n1,1,1,1,1\n", "column 'm' is given twice"),
    "nothing": ("", "empty"),
    "control characters": (HEADER + "8,8,8,\x1b[31m,5\n", "no layout is named"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_bad_table_is_refused_in_one_line_with_its_place(dovetail, tmp_path, case):
    text, words = BAD_TABLES[case]
    file = tmp_path / "mine.csv"
    file.write_text(text, encoding="utf-8")
    check_refused(dovetail("validate", file), str(file), words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("h20",), "did you mean h200"),
        (("absent.csv",), "there is no file"),
        (("h200", "--chip", "h100"), "h100-pcie, h100-sxm"),
        (("h200", "--chip", "h201"), "no chip is named"),
        (("h200", "--dtype", "bf61"), "did you mean bf16"),
        (("h200", "--worst", "few"), "--worst must be a whole number"),
        (("h200", "--plot", "x.png"), "a plot is written to .svg, a page by --html"),
        (("h200", "--plot", "absent/x.svg"), "there is no folder 'absent'"),
        (("docs",), "holds no CSV file"),
    ],
    ids=lambda part: part if isinstance(part, str) else " ".join(part),
)
def test_a_bad_word_is_refused(dovetail, arguments, words):
    check_refused(dovetail("validate", *arguments), words)


def test_the_accuracy_page_is_what_the_command_prints(bless):
    """As `make accuracy` writes it: what ships is predicted again, other rows are as they were recorded."""
    told = shipped_accuracy()
    assert told.code in (0, 1)
    assert told.stderr == ""
    assert f"dovetail validate {' '.join(SHIPPED_SETS)} $(PUBLISHED) --markdown" in (ROOT / "Makefile").read_text(
        encoding="utf-8"
    )
    check_recorded(ROOT / "benchmarks" / "results" / "accuracy.md", told.stdout, bless)


RUNS = (
    "row_id,source,quality,model,layers,hidden,heads,seq,global_batch,micro_batch,n_gpus,gpu,TP,PP,recompute,precision,"
    "iter_time_s,framework\n"
)


def shipped_in_brief(folder: Path) -> Path:
    """A few rows of each published table that ships: all of them take seconds to simulate."""
    folder.mkdir()
    for table in csv_files(shipped_folder("published")):
        lines = table.read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / table.name).write_text("".join(lines[:NUM_LINES]), encoding="utf-8")
    return folder


def test_published_runs_are_asked_for_by_name_or_brought_along(dovetail, tmp_path, monkeypatch, capsys):
    brief = shipped_in_brief(tmp_path / "shipped")
    monkeypatch.setattr(measured_sets, "shipped_folder", lambda _: brief)
    monkeypatch.setenv("DOVETAIL_REFERENCE_DATA", str(tmp_path))
    (tmp_path / "third_party").mkdir()
    file = tmp_path / "third_party" / "published_training_vtrain_single.csv"
    lines = [
        f"r{tp},A lab,table,GPT,4,1024,16,1024,16,1,8,A100-80GB,{tp},1,full,fp16,0.{tp}2,Megatron-LM"
        for tp in (1, 2, 4)
    ]
    odd = "odd,A lab,table,GPT,four,1024,16,1024,16,1,8,A100-80GB,1,1,full,fp16,0.1,Megatron-LM"
    file.write_text(RUNS + "\n".join([*lines, odd]) + "\n", encoding="utf-8")
    assert main(["validate", "published", "--json"]) in (0, 1)
    *shipped, beside = json.loads(capsys.readouterr().out)["sets"]
    [one] = said(dovetail("validate", file, "--json"))["sets"]
    assert beside == one
    assert {"published_training", "published_memory"} <= {each["set"] for each in shipped}
    assert one["scores"][0]["num_rows"] == 3
    assert one["scores"][0]["ranking"]["num_picked"] == 1
    assert one["memory_verdicts"][0] == {"kind": "", "num_ran": 3, "num_false": 0, "num_failed": 0, "num_missed": 0}
    assert [part["what"] for part in one["skipped"]] == [
        "rows not expressed: layers is 'four', not a number of 0 or more"
    ]


def test_a_table_of_runs_none_of_which_can_be_said_is_refused_with_the_reasons(dovetail, tmp_path):
    file = tmp_path / "runs.csv"
    file.write_text(RUNS + "r,A lab,table,GPT,4,1024,16,1024,16,1,8,abacus,1,1,full,fp16,1,Megatron-LM\n")
    check_refused(dovetail("validate", file), "no row could be compared", "no chip is known by 'abacus'")


def in_brief(monkeypatch):
    """All that is timed and proven, but once each, the search for a chip in the small space, schedules for a second."""
    appraise, small = appraised.appraised, designing.question(is_small=True)
    operations = [replace(one, num_runs=1) for one in appraised.OPERATIONS]
    monkeypatch.setattr(appraised, "appraised", lambda context: appraise(context, operations))
    monkeypatch.setattr(designing, "question", lambda **_: small)
    searched = cache(designing.searched)  # which speeds and gaps ask for three times
    for module in (designing, proofs):
        monkeypatch.setattr(module, "searched", searched)
    monkeypatch.setattr(proofs, "LIMIT_S", 1.0)


@pytest.mark.slow
def test_all_of_it_is_one_page_of_accuracy_speed_and_gaps(dovetail, tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.html"
    in_brief(monkeypatch)
    code = main(["validate", "--all", "dies", "--json", "--html", str(page)])
    ran = subprocess.CompletedProcess([], code, *capsys.readouterr())
    assert ran.returncode == 0
    record = said(ran)
    assert {one["set"] for one in record["sets"]} == {
        one["set"] for one in said(dovetail("validate", "dies", "--json"))["sets"]
    }
    assert {one["operation"] for one in record["speeds"]} >= {
        "operators",
        "evaluate",
        "plan-search",
        "ring",
        "events",
        "codesign",
    }
    assert all(one["per_item_s"] > 0 and one["peers"] for one in record["speeds"])
    now = [gap for gap in record["gaps"] if gap["source"] == "now"]
    assert {"plan of Llama 3 70B on 512 H100", "bounds against all of a small space of chips"} <= {
        gap["what"] for gap in now
    }
    assert all(0 <= gap["worst_frac"] < 0.05 for gap in now)
    text = page.read_text(encoding="utf-8")
    assert "Speed" in text
    assert "Gaps to the best" in text
    kept = tmp_path / "kept.json"
    kept.write_text(ran.stdout, encoding="utf-8")
    assert said(dovetail("validate", kept, "--json"))["sets"] == record["sets"]


def test_one_answer_is_not_asked_for_in_two_forms(dovetail):
    told = dovetail("validate", "array-sims", "--markdown", "--json")
    assert told.returncode == 2
    assert "--markdown and --json are two forms of one answer; choose one" in told.stderr


def test_what_all_cannot_go_with_is_refused_before_any_work(dovetail):
    check_refused(dovetail("validate", "--all", "--chip", "h100-sxm"), "leave out --chip, or --all")
    check_refused(dovetail("validate", "--all", "--markdown"), "two pages; choose one")
    check_refused(dovetail("validate", "--all", "no-such-set"), "no set of measurements is named 'no-such-set'")
