"""`dovetail schedule`: the operators of a block on the cores of a chip."""

from __future__ import annotations

import json

import pytest

from tests.e2e.test_bad_input import check_refused

SMALL = ("schedule", "resnet-18", "--chip", "tpuv2-like", "--block", "stem")


def test_a_block_is_told_for_people_and_programs(dovetail, tmp_path):
    trace = tmp_path / "stem.pftrace"
    told, found = dovetail(*SMALL, "--perfetto", str(trace)), dovetail(*SMALL, "--exact", "--json")
    assert (told.returncode, found.returncode, told.stderr, found.stderr) == (0, 0, "", "")
    record = json.loads(found.stdout)
    assert 0 < record["bound_s"] == pytest.approx(record["makespan_s"])
    assert record["makespan_s"] == max(operator["end_s"] for operator in record["operators"])
    for word in ("tensor cores", "vector cores", "HBM", "SRAM", "no schedule of these operators is shorter", "█"):
        assert word in told.stdout
    for operator in record["operators"]:
        assert operator["name"] in told.stdout
    assert max(len(line) for line in told.stdout.splitlines()) <= 80
    assert trace.stat().st_size > 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("schedule resnet-18", "--chip is missing"),
        ("schedule resnet-18 --chip tpuv2-like --block stam", "did you mean stem"),
        ("schedule resnet-18 --chip tpuv2-like --recompute al", "no recompute policy"),
        ("schedule resnet-18 --chip tpuv2-like --exact --limit 5", "a quantity"),
        ("schedule resnet-18 --chip tpuv2-like --batch 0", "--batch must be at least 1"),
    ],
)
def test_what_cannot_be_scheduled_is_refused(dovetail, words, reason):
    check_refused(dovetail(*words.split()), reason)
