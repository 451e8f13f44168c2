"""Logs of nccl-tests, rccl-tests and OSU as tables: facts from header lines, rows as printed, broken ones named."""

from __future__ import annotations

from pathlib import Path

import pytest

import dovetail as dv
from dovetail.errors import DovetailError
from dovetail.files.collective_logs import is_collective_log, log_measurements
from tests.collective_logs import COLUMNS, GOOD, KEPT, OLD, OSU, RCCL, REFUSED, ROWS, SIZES, START, devices, nccl_row


def table(text: str, name: str = "log.txt") -> dict[str, list[str]]:
    found = log_measurements(text, Path(name))
    return {column: found.words(column) for column in found.columns}


def test_a_log_of_nccl_tests_says_everything():
    found = table(GOOD)
    assert set(found["log_platform"]) == {"NVIDIA H100 80GB HBM3"}
    assert set(found["log_collective"]) == {"all-reduce"}
    assert (found["log_ranks"][0], found["log_nodes"][0]) == ("8", "1")
    assert found["buffers"] == ["out-of-place", "in-place"] * len(SIZES)
    assert found["size_bytes"][::2] == [str(size) for size in SIZES]
    assert found["time_us"][0] == found["time_us"][1] == "20.00"


def test_older_logs_tell_a_reduction_by_its_bus_bandwidth():
    assert table(OLD)["log_collective"][0] == "all-reduce"
    once = START + devices() + COLUMNS + "".join(nccl_row(size, 20.0 + size / 3e5, passes=1) for size in SIZES)
    assert table(once)["log_collective"][0] == "reduce-scatter"


def test_the_file_s_name_tells_what_bandwidths_cannot():
    none = OLD.replace("   sum ", "  none ")
    assert table(none, "alltoall_perf-h100.log")["log_collective"][0] == "all-to-all"
    assert table(none, "all_gather.txt")["log_collective"][0] == "all-gather"


def test_a_log_of_rccl_tests_over_nodes():
    found = table(RCCL)
    assert (found["log_ranks"][0], found["log_nodes"][0], found["log_nics"][0]) == ("16", "2", "400000000000.0")
    assert "MI300X" in found["log_platform"][0]


def test_osu_counts_the_bytes_of_each_rank():
    found = table(OSU)
    assert (found["log_collective"][0], found["log_ranks"][0]) == ("all-gather", "8")
    assert found["size_bytes"] == [str(8 * size) for size in SIZES[:6]]
    reduced = table(OSU.replace("Allgather", "Allreduce"))
    assert reduced["size_bytes"] == [str(size) for size in SIZES[:6]]
    exchanged = OSU.replace("Allgather", "All-to-All Personalized Exchange")
    assert table(exchanged)["log_collective"][0] == "all-to-all"


def test_lines_may_have_the_rank_before_them():
    tagged = "".join(f"[1,0]<stdout>:{line}\n" for line in GOOD.splitlines())
    labelled = "".join(f"0: {line}\n" for line in GOOD.splitlines())
    assert table(tagged) == table(GOOD) == table(labelled)


def test_rows_without_a_reduction_or_root_are_read_by_their_columns():
    older = GOOD.replace("redop    root", "").replace("     sum      -1", "")
    assert table(older)["time_us"] == table(GOOD)["time_us"]


def test_a_table_of_one_s_own_is_no_log():
    assert all(is_collective_log(text) for text in (GOOD, OSU, RCCL))
    assert not is_collective_log("# my own\nsystem,collective,num_gpus,size_bytes,time_us\nh100,all_gather,8,8,9\n")


@pytest.mark.parametrize("name", REFUSED)
def test_a_log_that_cannot_be_compared_is_refused_in_one_line(tmp_path, name):
    text, word = REFUSED[name]
    file = tmp_path / "log.txt"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DovetailError) as caught:
        dv.validate(file)
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", KEPT)
def test_rows_that_can_be_read_are_kept(tmp_path, name):
    text, count, word = KEPT[name]
    file = tmp_path / "log.txt"
    file.write_text(text, encoding="utf-8")
    [found] = dv.validate(file).record["sets"]
    assert found["scores"][0]["num_rows"] == count
    left_out = " ".join(part["what"] for part in found["skipped"])
    assert word in left_out
    assert bool(word) == bool(left_out)


def test_the_chip_may_be_said_where_the_log_does_not(tmp_path):
    file = tmp_path / "log.txt"
    file.write_text(GOOD.replace(devices(), devices(product="")), encoding="utf-8")
    record = dv.validate(file, chip="h100-sxm").record
    assert record["sets"][0]["chip"] == "h100-sxm"
    file.write_text(GOOD, encoding="utf-8")
    said = dv.validate(file).record
    assert said["sets"][0]["chip"] == ""
    assert said["sets"][0]["scores"] == record["sets"][0]["scores"]


def test_wherever_a_log_is_cut_no_row_before_is_lost():
    for end in range(GOOD.index(ROWS[0]) + len(ROWS[0]), len(GOOD), 37):
        text = GOOD[:end]
        whole = sum(row.rstrip() in text for row in ROWS)
        found = log_measurements(text, Path("log.txt"))
        assert 2 * whole <= len(found) <= 2 * whole + 1
    for end in range(0, GOOD.index(ROWS[0]), 37):
        with pytest.raises(DovetailError, match="no row"):
            log_measurements(GOOD[:end], Path("log.txt"))


def run_of(test: str, ranks: int, *, starts: bool = True, product: str = "NVIDIA H100 80GB HBM3") -> str:
    name = f"# Collective test starting: {test}_perf\n" if starts else f"+ ./{test}_perf -b 1K -e 1M\n"
    rows = "".join(nccl_row(size, 20.0, ranks=ranks) for size in SIZES[:3])
    end = f"# Collective test concluded: {test}_perf\n" if starts else ""
    return name + START.replace("nGpus 8", f"nGpus {ranks}") + devices(ranks, product=product) + COLUMNS + rows + end


@pytest.mark.parametrize("starts", [True, False])
def test_runs_of_one_file_keep_their_own_ranks_and_collective(starts):
    found = table(
        run_of("all_reduce", 8, starts=starts) + run_of("all_gather", 4, starts=starts) + run_of("alltoall", 2)
    )
    assert found["log_collective"] == ["all-reduce"] * 6 + ["all-gather"] * 6 + ["all-to-all"] * 6
    assert found["log_ranks"] == ["8"] * 6 + ["4"] * 6 + ["2"] * 6


def test_lines_added_to_a_file_hold_for_all_its_runs():
    over_nodes = run_of("all_reduce", 16).replace(devices(16), devices(16, 2))
    found = table(over_nodes + over_nodes + "# nics: 400 GB/s\n# collective: all_gather\n")
    assert set(found["log_nics"]) == {"400000000000.0"}
    assert found["log_collective"] == ["all-reduce"] * 6 + ["all-gather"] * 6  # the first names itself


def test_runs_on_several_kinds_of_gpu_are_refused():
    with pytest.raises(DovetailError, match="several kinds of GPU"):
        table(run_of("all_reduce", 8) + run_of("all_reduce", 8, product="NVIDIA A100-SXM4-80GB"))


def test_a_run_that_failed_does_not_name_the_next():
    failed = run_of("all_reduce", 8, starts=False) + "srun: error: ./all_reduce_perf: Segmentation fault\n"
    found = log_measurements(failed + run_of("all_gather", 8), Path("log.txt"))
    assert found.words("log_collective") == ["all-reduce"] * 6 + ["all-gather"] * 6
    assert len(found.uneven) == 1
