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


def test_a_schedule_is_called_exact_only_with_its_proof(dovetail):
    asked = ("schedule", "bert-large", "--chip", "tpuv2-like", "--exact", "--time", "1 ms")
    told, record = dovetail(*asked), json.loads(dovetail(*asked, "--json").stdout)
    assert record["gap_frac"] > 0
    assert (record["is_exact"], record["limit_s"], record["fits"]) == (False, 1e-3, True)
    assert "best found within a limit of 1.00 ms; at most" in told.stdout
    assert "exact schedule" not in told.stdout
    record = json.loads(dovetail(*SMALL, "--exact", "--json").stdout)
    assert (record["is_exact"], record["gap_frac"], record["limit_s"]) == (True, 0, 60.0)
    record = json.loads(dovetail(*SMALL, "--json").stdout)
    assert (record["is_exact"], record["limit_s"]) == (False, None)


def test_a_timeline_is_written_anew_each_time(dovetail, tmp_path):
    file = tmp_path / "old.perfetto-trace"
    file.write_bytes(b"old")
    ran = dovetail("schedule", "resnet-18", "--chip", "tpuv2-like", "--block", "stem", "--perfetto", file)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert file.read_bytes() != b"old"


def test_what_does_not_fit_is_told_with_its_exit_code(dovetail):
    asked = ("schedule", "bert-large", "--chip", "tpuv2-like", "--batch", "1000000000")
    told, found = dovetail(*asked), dovetail(*asked, "--json")
    assert (told.returncode, found.returncode, told.stderr, found.stderr) == (1, 1, "", "")
    assert "does not fit; lower --batch" in " ".join(told.stdout.split())
    assert json.loads(found.stdout)["fits"] is False


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("schedule resnet-18", "--chip is missing"),
        ("schedule resnet-18 --chip tpuv2-like --block stam", "did you mean stem"),
        ("schedule resnet-18 --chip tpuv2-like --recompute al", "no recompute policy"),
        ("schedule resnet-18 --chip tpuv2-like --exact --time 5", "a quantity"),
        ("schedule resnet-18 --chip tpuv2-like --time abc", "--time needs --exact; pass --exact too"),
        ("schedule resnet-18 --chip tpuv2-like --workers 2", "--workers needs --exact"),
        ("schedule resnet-18 --chip tpuv2-like --exact --time abc", "(--time)"),
        ("schedule resnet-18 --chip tpuv2-like --exact --time 0s", "--time must be at least 1 ms; got '0s'"),
        ("schedule resnet-18 --chip tpuv2-like --exact --time 1e-9s", "--time must be at least 1 ms"),
        ("schedule resnet-18 --chip tpuv2-like --exact --workers 100000", "at most 64; got 100,000"),
        ("mine resnet-18 --batch 2 --keep 3", "set stages: mosaic or pooled, or leave it out (--keep)"),
        ("schedule resnet-18 --chip tpuv2-like --batch 0", "--batch must be at least 1"),
    ],
)
def test_what_cannot_be_scheduled_is_refused(dovetail, words, reason):
    check_refused(dovetail(*words.split()), reason)
