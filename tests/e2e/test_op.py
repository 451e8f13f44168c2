"""`dovetail op`: one operator on one chip."""

from __future__ import annotations

import json

import pytest

from tests.e2e.test_bad_input import check_refused


@pytest.mark.parametrize(
    "words",
    [
        "matmul 4096 4096 4096 --chip h200",
        "matmul 4096x4096x4096 --chip h200 --dtype fp8 --compare",
        "matmul 512 512 512 --batch 16 --chip tpu-v4i --compare",
        "linear 4096 1024 8192 --chip h200 --pass weight-grad",
        "attention --batch 4 --heads 32 --seq 2048 --head-dim 128 --chip h200",
        "attention --heads 32 --kv-heads 8 --seq 8192 --head-dim 128 --causal --pass input-grad --chip h200",
        "layernorm 8192 4096 --chip h200",
        "convolution 64 64 56 --batch 32 --kernel 3 --chip h200 --pass input-grad",
        "adam 1000000000 --chip h200",
    ],
)
def test_an_operator_is_told_for_people_and_programs(dovetail, words):
    told, found = dovetail("op", *words.split()), dovetail("op", *words.split(), "--json")
    assert (told.returncode, found.returncode, told.stderr, found.stderr) == (0, 0, "", "")
    record = json.loads(found.stdout)
    assert record["time_s"] > 0
    assert record["flop_per_s"] == pytest.approx(record["flop"] / record["time_s"])
    assert record["kind"] in told.stdout
    for word in ("time", "FLOP/s", "of peak", "of its bandwidth", "energy", "waits for"):
        assert word in told.stdout
    assert max(len(line) for line in told.stdout.splitlines()) <= 80
    assert bool(record["others"]) == ("--compare" in words)


def test_ours_stands_beside_the_roofline_and_closed_forms(dovetail):
    told = dovetail("op", "matmul", "4096", "4096", "4096", "--chip", "tpu-v5e", "--compare").stdout
    for model in ("this model", "roofline at peak", "output-stationary, exact", "weight-stationary, overlapped"):
        assert model in told


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("matmul 1 2 3", "--chip is missing"),
        ("matmul 1 2 --chip h200", "got 2 sizes"),
        ("matmul 1 2 zz --chip h200", "a size must be a whole number"),
        ("matmul 0 1 2 --chip h200", "a size must be at least 1"),
        ("matmul 4096 -1 4096 --chip h200", "sizes must be at least 1; got one below 0 (see dovetail op --help)"),
        ("matmul 4096 -128 4096 --chip h200", "sizes must be at least 1; got one below 0"),
        ("matmul 1 2 3 -z --chip h200", "no such option: -z"),
        ("matmull 1 2 3 --chip h200", "did you mean matmul"),
        ("matmul 1 2 3 --chip h100", "specify which: h100-pcie, h100-sxm"),
        ("matmul 1 2 3 --chip nope", "no chip is named 'nope'"),
        ("matmul 1 2 3 --chip a100-80gb-sxm --dtype fp8", "no rate for fp8"),
        ("matmul 1 2 3 --chip h200 --pass sideways", "no pass is named"),
        ("gelu 4096 4096 --causal --chip h200", "--causal is of attention; leave it out (gelu on h200-sxm)"),
        ("matmul 512 512 512 --heads 8 --chip h200", "--heads is of attention; leave it out"),
        ("matmul 512 512 512 --kernel 3 --chip h200", "--kernel is of convolution; leave it out"),
        ("list --causal", "op list names the operators, and takes --json alone"),
        ("list --html out.html", "op list names the operators, and takes --json alone"),
        ("attention --chip h200", "attention needs --seq and --head-dim"),
        ("attention --seq 8 --head-dim 0 --chip h200", "--head-dim must be at least 1"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(dovetail, words, reason):
    check_refused(dovetail("op", *words.split()), reason)
