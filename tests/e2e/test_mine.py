"""`dovetail mine`: the best chip for a model, and its proof."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import MINED, ROOT
from tests.e2e.recorded import check_recorded
from tests.e2e.test_bad_input import check_refused

STAGES = """
workload: {model: gpt2-345m, global_batch: 8, seq: 128}
devices: 4
space: {pp: 2}
stages: pooled
keep: 3
chip: {sides: [64, 128, 256], lanes: [64, 256], counts: [1, 4, 16]}
"""
SMALL = """
workload: {model: resnet-18, global_batch: 4}
chip: {sides: [32, 128], lanes: [64, 256], counts: [1, 4, 16]}
"""


@pytest.mark.parametrize("spec", MINED, ids=lambda spec: spec.stem)
def test_an_example_says_what_it_said(dovetail, bless, spec):
    ran = dovetail("mine", spec.relative_to(ROOT))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert max(len(line) for line in ran.stdout.splitlines()) <= 80
    check_recorded(spec.with_suffix(".out.txt"), ran.stdout, bless)


def test_the_best_chip_is_told_for_people_and_programs(dovetail, tmp_path):
    spec = tmp_path / "small.yaml"
    spec.write_text(SMALL, encoding="utf-8")
    told, found = dovetail("mine", spec), dovetail("mine", spec, "--json")
    assert (told.returncode, found.returncode, told.stderr, found.stderr) == (0, 0, "", "")
    said = json.loads(found.stdout)
    assert said["is_proven"]
    assert said["gap_frac"] == 0
    counted = ("num_scheduled", "num_pruned", "num_over_limit", "num_open")
    assert sum(said[key] for key in counted) == said["num_designs"] == 2 * 2 * 2 * 3 * 3
    gains = [design["gain_frac"] for design in said["designs"]]
    assert gains == sorted(gains, reverse=True)
    assert all(design["area_mm2"] <= said["area_limit_mm2"] for design in said["designs"])
    assert {chip["chip"] for chip in said["hand_tuned"]} == {"tpuv2-like", "tpuv4-like", "nvdla-like"}
    best = said["best"]
    words = f"{best['num_tensor_cores']} x ({best['num_rows']}x{best['num_cols']})"
    for word in (words, "optimal in the model, of 72 designs", "limited by", "nvdla-like", "images/s"):
        assert word in told.stdout
    assert list(tmp_path.iterdir()) == [spec]  # nothing is written without a store


def test_limits_that_no_design_keeps_are_an_answer(dovetail):
    ran = dovetail("mine", "resnet-18", "--batch", "2", "--area", "100 mm2")
    assert (ran.returncode, ran.stderr) == (1, "")
    for word in ("No design is within the limits", "least area", "least power", "raise --area"):
        assert word in ran.stdout


def test_a_model_that_no_design_can_hold_is_an_answer_with_the_way_out(dovetail):
    ran = dovetail("mine", "llama3-8b", "--batch", "4", "--json")
    assert (ran.returncode, ran.stderr) == (1, "")
    said = json.loads(ran.stdout)
    assert not said["feasible"]
    assert said["plans_that_fit"][0]["pipeline_parallel"] > 1


def test_without_numba_it_says_so_once_and_answers_the_same(dovetail, tmp_path):
    spec = tmp_path / "small.yaml"
    spec.write_text(SMALL.replace("[1, 4, 16]", "[1, 4]"), encoding="utf-8")
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'numba':\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hidden())\n",
        encoding="utf-8",
    )
    slow = dovetail("mine", spec, PYTHONPATH=f"{hidden}:{ROOT / 'src'}")
    assert slow.returncode == 0
    assert slow.stderr.count("\n") == 1
    assert "dovetail-codesign[mine]" in slow.stderr
    assert slow.stdout == dovetail("mine", spec).stdout


def test_stages_have_designs_of_their_own_and_the_planner_says_which_stages(dovetail, tmp_path):
    spec = tmp_path / "stages.yaml"
    spec.write_text(STAGES, encoding="utf-8")
    told = dovetail("mine", spec, "--replan", "--json")
    assert (told.returncode, told.stderr) == (0, "")
    said = json.loads(told.stdout)
    [planned], [found], [again] = said["planned"], said["by_stage"], said["replanned"]
    assert planned["plan"]["pipeline_parallel"] == said["jobs"][0]["num_stages"] > 1
    assert found["method"] == "pooled"
    assert found["gain_frac"] >= 0
    assert found["mean_area_mm2"] <= said["area_limit_mm2"]
    assert sorted(stage for kind in found["kinds"] for stage in kind["stages"]) == [0, 1]
    assert again["gain_frac"] >= 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("mine bert-larg", "did you mean bert-large"),
        ("mine resnet-18 --stages mosaik", "did you mean mosaic"),
        ("mine resnet-18 --keep 0", "--keep must be at least 1"),
        ("mine resnet-18 --fix tp=2", "give the number of devices"),
        ("mine gpt2-345m --devices 2 --fix tp=3", "is more than the cluster's 2 devices"),
        ("mine gpt2-345m --devices 4 --fix interleave=2 --fix pp=2", "without interleaving"),
        ("mine resnet-18 --metric perf", "did you mean perf/tdp"),
        ("mine resnet-18 --algorithm exakt", "did you mean exact"),
        ("mine resnet-18 --base tpuv2-lik3", "did you mean tpuv2-like"),
        ("mine resnet-18 --base h200-sxm", "designs are built on chips with systolic arrays"),
        ("mine resnet-18 --base h200-sxm", "tpuv4-like"),
        ("mine resnet-18 --base h100", "and h100-pcie has none; take"),
        ("mine resnet-18 --base tpuv", "specify which: tpuv2-like, tpuv4-like (--base)"),
        ("mine resnet-18 --area 600", "a quantity needs its unit"),
        ("mine resnet-18 --power -1W", "--power must be above 0"),
        ("mine resnet-18 --budget 0", "--budget must be at least 1"),
        ("mine resnet-18 --batch 2 --store nowhere/designs.db", "--store names a file"),
        ("mine resnet-18 --batch 2 --store README.md", "is not a store"),
        ("mine examples/llama3-70b-512xh100.yaml", "no key of this file is named 'cluster'"),
    ],
)
def test_what_cannot_be_mined_is_refused(dovetail, words, reason):
    check_refused(dovetail(*words.split()), reason)
