"""A slip of the finger is met with the word that was meant: in one line, with exit code 2."""

from __future__ import annotations

import shlex

import pytest

from tests.e2e.test_bad_input import check_refused

SMALL = "--model llama3-8b --cluster dgx-h100 --devices 8"
RING = "--topology ring:4@50GB/s,1us"
TYPOS = {
    "simulat examples/my-cluster.yaml": "'simulate'",
    "codesing": "'codesign'",
    "netwrok all-reduce": "'network'",
    "trace rn x": "'run'",
    "simulate examples/my-cluster.yaml --modle llama3-8b": "--model",
    "simulate examples/my-cluster.yaml --quite": "--quiet",
    "simulate examples/my-cluster.yaml --perfeto x": "--perfetto",
    "simulate examples/my-cluster.yml": "my-cluster.yaml",
    "simulate exampels/my-cluster.yaml": "examples",
    "simulate --model lama3-8b --cluster dgx-h100 --plan zero3": "llama3-8b",
    "simulate --model llama3-8b --cluster dgxh100 --plan zero3": "dgx-h100",
    "simulate --model llama3-8b --cluster dgx-h100 --plan zero-3": "zero3",
    "simulate --model llama3-8b --cluster dgx-h100 --plan zero3 --compute bf61": "bf16",
    f"plan {SMALL} --objective tiem": "time",
    f"plan {SMALL} --fix zerostage=1": "zero_stage",
    f"plan {SMALL} --fix recompute=ful": "full",
    f"plan {SMALL} --forbid pipelin": "pipeline",
    "launch examples/my-cluster.yaml --framework megatorn": "megatron-lm",
    "op matmull 8 8 8 --chip h200": "matmul",
    "op matmul 8 8 8 --chip h100sxm": "h100-sxm",
    "op matmul 8 8 8 --chip h200 --dtype bf17": "bf16",
    "op matmul 8 8 8 --chip h200 --pass foward": "forward",
    "op matmul 8 8 8 --chip h200 --setting streem": "stream",
    f"network all-redcue --size 1MiB {RING}": "all-reduce",
    "network all-reduce --size 1MiB --topology rign:4@50GB/s,1us": "ring",
    f"network all-reduce --size 1MIB {RING}": "MiB",
    f"network all-reduce --size 1MiB {RING} --algorithm rng": "ring",
    f"network all-reduce --size 1MiB {RING} --engine event": "events",
    f"network all-reduce --size 1MiB {RING} --policy fifoo": "fifo",
    f"network all-reduce --size 1MiB {RING} --endpoint acee": "ace",
    f"trace run x {RING} --engine astra": "astra-sim",
    "schedule resnet-18 --chip tpuv2-like --block stm": "stem",
    "schedule resnet-18 --chip tpuv2-like --recompute ful": "full",
    "validate h20": "h200",
    "reproduce whm": "wham",
    "mine resnet-18 --metric thruput": "throughput",
    "mine resnet-18 --algorithm anneel": "anneal",
    "mine resnet-18 --stages mosaik": "mosaic",
    "mine resnet-18 --base tpv2-like": "tpuv2-like",
    "codesign gpt2-1.5b --network tours": "torus",
    "codesign gpt2-1.5b --preset core": "cores",
    "pareto gpt2-1.5b --axes throughput,aera": "area",
    "show h100-sxm --kind chp": "chip",
    "show lama3-8b": "llama3-8b",
    "compare h100x64 h20x64 --model llama3-8b --plan zero3": "h200",
    "sweep --model llama3-8b --cluster h100x8 --plan zero3 --over plan.tpp=1,2": "tp",
    "capture examples/capture/my_modle.py:decoder": "my_model.py",
    "trace run exampels/x --topology ring:4@50GB/s,1us": "examples",
    "completion bsh": "bash",
}


@pytest.mark.parametrize(("line", "meant"), TYPOS.items(), ids=TYPOS)
def test_a_typo_is_answered_with_what_was_meant(dovetail, line, meant):
    ran = dovetail(*shlex.split(line))
    check_refused(ran)
    _, asked, hint = ran.stderr.partition("did you mean ")
    assert asked, ran.stderr
    assert meant in hint.partition("?")[0].replace(", ", " or ").split(" or ")


def test_a_key_of_a_spec_is_answered_with_what_was_meant(dovetail, tmp_path):
    spec = tmp_path / "spec.yaml"
    spec.write_text("workload: {model: llama3-8b, globl_batch: 8}\ncluster: dgx-h100\nplan: zero3\n", encoding="utf-8")
    ran = dovetail("simulate", spec)
    check_refused(ran)
    assert "did you mean global_batch?" in ran.stderr


def test_a_short_name_of_a_cluster_says_which_it_is_and_how_many_devices_it_has(dovetail):
    ran = dovetail("simulate", "--model", "llama3-8b", "--cluster", "h100", "--plan", "zero3")
    assert ran.stderr == "dovetail: cluster h100 is dgx-h100 with 1,024 devices; h100x64 has 64 of them\n"
    assert dovetail("simulate", "--model", "llama3-8b", "--cluster", "h100x8", "--plan", "zero3").stderr == ""


def test_show_and_chip_take_the_same_short_names(dovetail):
    assert dovetail("show", "h200").stdout.startswith("chip h200-sxm")
    assert dovetail("show", "h100x64").stdout.startswith("cluster dgx-h100")
    check_refused(ran := dovetail("show", "h100"))
    assert "h100-pcie, h100-sxm" in ran.stderr


def test_a_missing_plan_is_answered_with_auto(dovetail):
    check_refused(ran := dovetail("simulate", "--model", "llama3-8b", "--cluster", "h100x8"))
    assert "--plan auto" in ran.stderr
