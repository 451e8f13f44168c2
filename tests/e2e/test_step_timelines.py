"""The timeline of a simulated step, read by Perfetto's own trace processor: it says what the answer says."""

from __future__ import annotations

import json

import pytest

from tests.e2e.test_bad_input import check_refused
from tests.perfetto_traces import seen
from tests.trace_processor import answers, missing

SPEC = "examples/mixtral-8x7b-64xh100.yaml"
NEEDS = pytest.mark.skipif(bool(missing()), reason=f"not installed: {', '.join(missing())}")
SLICES = """
select process.name as process, track.name as track, slice.ts as ts, slice.dur as dur, slice.name as name,
       slice.category as category
from slice join process_track on slice.track_id = process_track.id join process using (upid)
join track on track.id = slice.track_id order by process.pid, track.id, slice.ts
"""


def said(ran):
    assert (ran.returncode, ran.stderr) == (0, "")
    return json.loads(ran.stdout)


@NEEDS
@pytest.mark.parametrize("spec", [SPEC, "examples/llama3-405b-16384xh100.yaml"])
def test_the_trace_processor_finds_the_step_that_is_told(dovetail, tmp_path, spec):
    file = tmp_path / "step.pftrace"
    record = said(dovetail("simulate", spec, "--perfetto", file, "--json"))
    assert record.pop("timeline")["end_s"] == pytest.approx(record["step_s"], rel=1e-12)
    assert record == said(dovetail("simulate", spec, "--json")), "what is recorded changed what is answered"
    [rows, errors] = answers(file.read_bytes(), SLICES, "select name from stats where severity = 'error' and value > 0")
    assert not errors
    assert max(row["ts"] + row["dur"] for row in rows) == round(record["step_s"] * 1e9)
    check_no_overlap(rows)
    num_stages, count = record["plan"]["pipeline_parallel"], record["num_microbatches"]
    chunks = record["plan"]["interleave"]
    processes = sorted({row["process"] for row in rows}, key=lambda name: int(name.split(":")[0].split()[1]))
    assert [name.split(":")[0] for name in processes] == [f"stage {stage}" for stage in range(num_stages)]
    slowest = processes[record["time"]["slowest_stage"]]
    for process in processes:
        own = [row for row in rows if (row["process"], row["track"]) == (process, "pipeline")]
        for kind in ("forward", "backward"):
            named = [row["name"] for row in own if row["category"] == kind]
            assert len(named) == len(set(named)) == count * chunks
        assert [row["name"] for row in own if row["category"] == "update"] == ["update"]
        if process == slowest:
            busy_ns = sum(row["dur"] for row in own if row["category"] in ("forward", "backward"))
            assert busy_ns * 1e-9 == pytest.approx(busy_s(record), abs=1e-9 * len(own))


def busy_s(record):
    """What the answer says that the slowest stage works: the step without bubble, update and what comes once a step."""
    time = record["time"]
    within = sum(time["communication"][axis]["exposed_s"] for axis in ("tp", "cp", "ep"))
    return time["compute_s"] + time["host_s"] + within


def check_no_overlap(rows):
    last: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row["process"], row["track"])
        assert row["dur"] >= 0
        assert row["ts"] >= last.get(key, 0), f"{row['name']} begins before its track is free"
        last[key] = row["ts"] + row["dur"]


def test_operators_are_those_of_one_microbatch(dovetail, tmp_path):
    file = tmp_path / "step.pftrace"
    record = said(dovetail("simulate", SPEC, "--perfetto", file, "--json"))
    found = seen(file.read_bytes())
    process = found.processes[1]
    units = [one for one in found.slices if one.process == process and one.track in ("tensor units", "vector units")]
    middle = record["num_microbatches"] // 2
    passes = [one for one in found.on(process, "pipeline") if one.name in (f"forward {middle}", f"backward {middle}")]
    assert len(passes) == 2
    waits = found.on(process, "waits")
    told_s = sum(one.notes["duration_s"] for one in (*units, *waits))
    assert told_s == pytest.approx(sum(one.notes["duration_s"] for one in passes), rel=1e-9)
    for one in (*units, *waits):
        assert any(span.begin_ns - 2 <= one.begin_ns and one.end_ns <= span.end_ns + 2 for span in passes), one
    names = [one.name for one in units if one.notes["pass"] == "forward"]
    layers = record["memory"]["stages"][0]["num_layers"]
    assert {names.count(name) for name in ("q", "attention", "attention_out")} == {layers}
    assert {one.notes["limited_by"] for one in units} <= {"tensor", "vector", "sram", "hbm", "latency", "launch"}
    assert {one.track for one in found.slices} >= {"ep (nvlink)", "dp (nvlink x infiniband)"}


def test_ranks_are_those_that_are_named(dovetail, tmp_path):
    file = tmp_path / "step.pftrace"
    ran = dovetail("simulate", SPEC, "--perfetto", file, "--ranks", "5,17")
    assert "Timeline: " in " ".join(ran.stdout.split())
    assert "2 of 4 stages are shown" in ran.stdout
    assert list(seen(file.read_bytes()).processes.values()) == ["stage 0: device 5", "stage 1: device 17"]


def test_the_best_plan_has_a_timeline_too(dovetail, tmp_path):
    file = tmp_path / "best.pftrace"
    small = ("--model", "llama3-8b", "--cluster", "dgx-h100", "--devices", "8", "--global-batch", "8")
    record = said(dovetail("plan", *small, "--fix", "tp=8", "--perfetto", file, "--json"))
    found = seen(file.read_bytes())
    assert max(one.end_ns for one in found.slices) == round(record["timeline"]["end_s"] * 1e9)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--ranks", "0"), "pass --perfetto too"),
        (("--perfetto", "o.json"), "name it .pftrace"),
        (("--perfetto", "o.pftrace", "--ranks", "64"), "0 to 63; got 64"),
        (("--perfetto", "o.pftrace", "--ranks", "x"), "ranks are written 0-3"),
        (("--perfetto", "no-such-folder/o.pftrace"), "no folder"),
    ],
)
def test_a_timeline_that_cannot_be_is_refused_in_one_line(dovetail, tmp_path, words, part):
    here = tuple(str(tmp_path / word) if word.startswith(("o.", "no-")) else word for word in words)
    ran = dovetail("simulate", SPEC, *here)
    check_refused(ran)
    assert part in ran.stderr
    assert not list(tmp_path.iterdir())


def test_a_plan_that_does_not_fit_has_no_timeline(dovetail, tmp_path):
    file = tmp_path / "step.pftrace"
    ran = dovetail("simulate", "examples/llama3-70b-512xh100.yaml", "--plan", "zero3", "--perfetto", file)
    assert ran.returncode == 1
    assert "Timeline" not in ran.stdout
    assert not file.exists()


def test_a_step_of_too_many_passes_shows_stages_that_differ(dovetail, tmp_path):
    """32 stages of 2,048 microbatches are 262,144 passes and hand-overs."""
    file, plan = tmp_path / "step.pftrace", tmp_path / "plan.yaml"
    plan.write_text("{pipeline_parallel: 32, tensor_parallel: 8, microbatch: 1, recompute: full}", encoding="utf-8")
    words = ("--model", "gpt3-175b", "--cluster", "dgx-h100", "--devices", "256", "--plan", plan)
    ran = dovetail("simulate", *words, "--global-batch", "2048", "--perfetto", file)
    assert ran.returncode == 0, ran.stderr
    assert " of 32 stages are shown; --ranks names devices of others" in " ".join(ran.stdout.split())
    assert file.stat().st_size < 30_000_000
    stages = [name.split(":")[0] for name in seen(file.read_bytes()).processes.values()]
    assert stages[0] == "stage 0"
    assert stages[-1] == "stage 31"
    assert len(stages) < 32
