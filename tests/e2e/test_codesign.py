"""`dovetail codesign`: from a model, or a spec, to a proven system; and the same after kills and by workers."""

from __future__ import annotations

import csv
import json

import pytest

from tests.e2e.conftest import CODESIGNED, ROOT
from tests.e2e.killing import kill_often
from tests.e2e.recorded import check_recorded
from tests.e2e.test_bad_input import check_refused

SMALL = """
name: small
models: [{model: gpt2-345m, global_batch: 16, seq: 128}, {model: bert-base, global_batch: 16, seq: 128}]
weights: [2, 1]
devices: [4, 8]
chip: {base: tpuv2-like, num_tensor: [1, 2, 4], num_cols: [64, 128], num_lanes: [64, 256], num_vector: 2,
       num_rows: 128, sram_mib: 16, hbm_stacks: [2, 4], stack_gib: [4, 8]}
space: {tensor_parallel: [1, 2], microbatch: [1, 2], recompute: [none, full]}
"""
OF_ONE_MODEL = SMALL.replace(", {model: bert-base, global_batch: 16, seq: 128}", "").replace("weights: [2, 1]\n", "")
COUNTS = ("num_scored", "num_pruned", "num_over_limit", "num_out_of_memory")


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    file = tmp_path_factory.mktemp("codesign") / "small.yaml"
    file.write_text(SMALL, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def alone(dovetail, spec):
    ran = dovetail("codesign", spec, "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


@pytest.mark.parametrize("example", CODESIGNED, ids=lambda example: example.stem)
def test_an_example_says_what_it_said(dovetail, bless, example):
    ran = dovetail("codesign", example.relative_to(ROOT))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert max(len(line) for line in ran.stdout.splitlines()) <= 80
    check_recorded(example.with_suffix(".out.txt"), ran.stdout, bless)


def test_without_a_word_an_example_is_answered(dovetail):
    ran = dovetail("codesign")
    assert (ran.returncode, ran.stderr) == (0, "")
    proven = "optimal in the model, of 1,234,800 systems"
    for word in ("Best system for gpt2-1.5b by throughput", proven, "The system", "dp 256"):
        assert word in " ".join(ran.stdout.split())


def test_a_spec_of_two_models_is_answered_for_programs(alone):
    said = json.loads(alone)
    assert (said["name"], said["feasible"], said["is_proven"], said["gap_frac"]) == ("small", True, True, 0.0)
    assert sum(said[key] for key in COUNTS) == said["num_systems"] == 3 * 2 * 2 * 2 * 2 * 2
    best = said["best"]
    assert set(best["system"]) == set(said["space"])
    derived = {"core_buffer_kib": ["by size"], "vmem_bytes_per_clock": ["by lanes"]}
    assert {name: said["space"][name] for name in derived} == derived
    assert (best["system"]["core_buffer_kib"] > 0, best["system"]["vmem_bytes_per_clock"]) == (True, 0.0)  # has none
    chosen = {name: value for name, value in best["system"].items() if name not in derived}
    assert all(value in said["space"][name] for name, value in chosen.items())
    assert [one["model"] for one in best["models"]] == ["gpt2-345m", "bert-base"]
    for one in best["models"]:
        assert one["step_s"] > 0
        assert one["energy_j"] > 0
        assert one["unit"] == "tokens/s"
        assert one["plan"]["data_parallel"] >= 1
    gains = [system["gain_frac"] for system in (best, *said["others"])]
    assert gains == pytest.approx(sorted(gains, reverse=True), rel=1e-12)
    assert said["plan_then_chip"] is None  # not asked for


def test_one_after_the_other_is_never_better_and_exhaustive_answers_the_same(dovetail, spec, alone):
    ran = dovetail("codesign", spec, "--json", "--compare", "--exhaustive")
    assert (ran.returncode, ran.stderr) == (0, "")
    said, first = json.loads(ran.stdout), json.loads(alone)
    assert said["best"] == first["best"]
    assert (said["num_pruned"], said["num_scored"]) == (
        0,
        said["num_systems"] - said["num_out_of_memory"] - said["num_over_limit"],
    )
    gains = [said[key]["gain_frac"] for key in ("plan_then_chip", "chip_then_plan", "best")]
    assert max(gains) <= gains[2] + 1e-9


def test_the_best_system_is_written_as_specs_that_predict_the_same(dovetail, spec, alone, tmp_path):
    file, store = tmp_path / "best.yaml", tmp_path / "kept.db"
    ran = dovetail("codesign", spec, "--json", "--spec-file", file, "--store", store)
    said = json.loads(ran.stdout)
    best = said["best"]
    names = [f"best-{one['model']}.yaml" for one in best["models"]]
    assert said.pop("written") == [str(tmp_path / name) for name in names]
    assert said == json.loads(alone)
    for name, one in zip(names, best["models"], strict=True):
        read = json.loads(dovetail("simulate", tmp_path / name, "--json").stdout)
        assert read["step_s"] == pytest.approx(one["step_s"], rel=1e-9)
        assert read["energy_j"] == pytest.approx(one["energy_j"], rel=1e-9)
        assert read["plan"] == one["plan"]
    check_refused(dovetail("codesign", spec, "--spec-file", file), "exists; pass --force")
    check_refused(dovetail("codesign", spec, "--spec-file", "best.txt"), "a spec file ends in .yaml")
    check_refused(dovetail("codesign", spec, "--force"), "--force needs --spec-file; pass")
    _check_exported(dovetail, store, best, tmp_path / "rows.csv")


def _check_exported(dovetail, store, best, file):
    """Every row has what a front is made from, and the plan that is best by even stages, as JSON."""
    assert dovetail("export", store, "--out", file).returncode == 0
    rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    even = [row for row in rows if row["kind"] == "codesign" and row["loss"]]
    assert even
    for row in even:
        assert min(float(row[name]) for name in ("area_mm2", "power_w", "price_usd")) > 0
        assert all("data_parallel" in plan or plan.get("pipeline_parallel", 1) > 1 for plan in json.loads(row["plan"]))
        assert (row["batch"], row["seq"], row["network"], row["rule"]) == ("16 + 16", "128 + 128", "torus", "chip")
        assert json.loads(row["plan_space"])[0]["microbatch"] == [1, 2]
    assert not [name for name in rows[0] if name.startswith(("plan of", "_"))]
    first = min(rows, key=lambda row: float(row["loss"] or "inf"))
    told = [float(first[name]) for name in ("area_mm2", "power_w", "price_usd")]
    assert told == pytest.approx([best["area_mm2"], best["power_w"], best["price_usd"]])


def test_an_answer_is_asked_again_by_its_own_spec_and_workers_answer_the_same(dovetail, alone, tmp_path):
    said = json.loads(alone)
    file = tmp_path / "again.json"
    file.write_text(json.dumps(said["spec"]), encoding="utf-8")
    ran = dovetail("codesign", file, "--json", "--workers", "2")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout) == said


def test_a_search_killed_by_time_and_by_rows_answers_as_if_nothing_had_been(tmp_path):
    """For one model, as five processes run it; of so many systems that rows are kept in several pieces."""
    spec = tmp_path / "one-model.yaml"
    spec.write_text(OF_ONE_MODEL, encoding="utf-8")
    kills, wrong = kill_often(("codesign", str(spec), "--json"), tmp_path, 2)
    assert len(kills) == 2
    assert wrong == []


def test_limits_that_nothing_keeps_are_an_answer(dovetail, spec):
    ran = dovetail("codesign", spec, "--area", "20 mm2")
    assert (ran.returncode, ran.stderr) == (1, "")
    assert "No system of the space keeps the limits" in ran.stdout
    found = dovetail("codesign", spec, "--area", "20 mm2", "--json")
    assert found.returncode == 1
    assert json.loads(found.stdout)["reason"] == "limits"


def test_a_model_that_no_system_holds_is_an_answer(dovetail, tmp_path):
    file = tmp_path / "large.yaml"
    text = "workload: {model: llama3-8b, global_batch: 4, seq: 512}\ndevices: 4\n"
    file.write_text(text + "chip: {base: tpuv2-like, hbm_stacks: 1, stack_gib: [1, 2]}\n", encoding="utf-8")
    ran = dovetail("codesign", file, "--preset", "cores", "--json")
    assert (ran.returncode, ran.stderr) == (1, "")
    assert json.loads(ran.stdout)["reason"] == "memory"


def rows_of(dovetail, store) -> dict[str, int]:
    """Of every study of a store, its rows."""
    studies = json.loads(dovetail("studies", store, "--json").stdout)["studies"]
    return {one["study"]: one["num_rows"] for one in studies}


def test_a_black_box_says_that_it_proves_nothing_and_goes_on_from_its_store(dovetail, spec, alone, tmp_path):
    store = tmp_path / "box.db"
    words = ("codesign", spec, "--algorithm", "anneal", "--seed", "4", "--store", store, "--json")
    short = json.loads(dovetail(*words, "--budget", "5").stdout)
    num_rows = rows_of(dovetail, store)
    ran = dovetail(*words, "--budget", "12")
    again = dovetail(*words, "--budget", "12")
    assert (ran.returncode, ran.stderr, ran.stdout) == (0, "", again.stdout)
    said, exact = json.loads(ran.stdout), json.loads(alone)
    assert said["proof"].startswith("no certificate: anneal proves nothing of what it did not look at")
    assert (said["algorithm"], exact["algorithm"]) == ("anneal", "exact")
    assert short["best"]["gain_frac"] <= said["best"]["gain_frac"] <= exact["best"]["gain_frac"] * (1 + 1e-9)
    assert sum(said[key] for key in (*COUNTS, "num_unvisited")) == said["num_systems"]
    assert sum(num_rows.values()) < sum(rows_of(dovetail, store).values())
    assert num_rows.keys() == rows_of(dovetail, store).keys()


def test_own_bests_are_kept_and_the_same_from_the_store_by_workers(dovetail, spec, tmp_path):
    store = tmp_path / "own.db"
    words = ("codesign", spec, "--per-model-best", "--json")
    first = dovetail(*words, "--store", store)
    kept = rows_of(dovetail, store)
    again = dovetail(*words, "--store", store, "--workers", "2")
    assert (first.returncode, first.stderr) == (0, "")
    assert again.stdout == first.stdout
    assert rows_of(dovetail, store) == kept  # nothing was scored again
    assert len(kept) == 2 * 3  # even plans and uneven ones, of both models and of each


@pytest.mark.parametrize("command", ["codesign", "pareto"])
def test_devices_that_no_plan_cuts_are_an_answer(dovetail, command):
    ran = dovetail(command, "gpt2-345m", "--devices", "29", "--batch", "8", "--network", "torus")
    assert (ran.returncode, ran.stderr) == (1, "")
    assert "no plan of the space cuts gpt2-345m for 29 devices" in " ".join(ran.stdout.split())
    pod = dovetail(command, "gpt2-345m", "--devices", "29", "--batch", "8", "--network", "pod")
    check_refused(pod, "tpu-v4-pod has no slice of 29 chips; try 16 or 32")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("gpt2-345n", "did you mean gpt2-345m"),
        ("gpt2-345m --metric speed", "--metric"),
        ("gpt2-345m --preset chips", "--preset"),
        ("gpt2-345m --network ring", "--network"),
        ("gpt2-345m --base h100-sxm", "built on chips with systolic arrays"),
        ("gpt2-345m --area 600", "--area"),
        ("gpt2-345m --devices 0", "--devices must be at least 1"),
        ("gpt2-345m --algorithm annealing", "--algorithm"),
        ("gpt2-345m --budget 10", "--budget and --seed are of black boxes"),
        ("gpt2-345m --algorithm random --exhaustive", "--exhaustive checks bounds"),
        ("gpt2-345m --algorithm random --budget 0", "--budget must be at least 1"),
        ("gpt2-345m --workers 0", "--workers must be at least 1"),
        ("no-such-file.yaml", "no-such-file.yaml"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(dovetail, words, reason):
    check_refused(dovetail("codesign", *words.split()), reason)
