"""Timelines and tables in files: they say what the answer says, and are never too long."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from typing import Any

import pytest

from dovetail.comm.trace.nodes import TraceNode
from dovetail.files.chakra import encoded
from tests.e2e.test_bad_input import check_refused
from tests.perfetto_traces import seen
from tests.trace_processor import answers, missing

RING = "ring:8@50GB/s,500ns"
CASES = {
    "one device for all": ("all-reduce", "--topology", f"{RING} x switch:4@25GB/s,1us", "--chunks", "3"),
    "every device": ("all-reduce", "--topology", "mesh:6@50GB/s,500ns", "--chunks", "2"),
    "message by message": ("all-gather", "--topology", RING, "--algorithm", "direct", "--slow", "2-3=0.5"),
    "switches of their own": ("all-to-all", "--topology", "fat-tree:8@50GB/s,500ns,leaf=4,spines=2"),
    "point to point": ("point-to-point", "--topology", "dragonfly:3x2x2@50GB/s,500ns", "--groups", "0,9"),
    "an endpoint that is slower": ("all-reduce", "--topology", RING, "--endpoint", "sm-ring", "--memory", "20 GB/s"),
}


def table(file):
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def said(ran):
    assert (ran.returncode, ran.stderr) == (0, "")
    return json.loads(ran.stdout)


def vertex(number, num_devices):
    return str(number) if number < num_devices else f"switch {number - num_devices}"


def check_links(found, links, num_devices, *, is_complete):
    """Slices of each link add up to the seconds and bytes the answer gives it."""
    by_track = defaultdict(list)
    for one in found.slices:
        if one.category == "link":
            by_track[one.track].append(one)
    assert by_track
    known: dict[str, Any] = {}
    for link in links:
        ends = " > ".join(vertex(link[end], num_devices) for end in ("source", "target"))
        known.setdefault(f"{link['dimension']}: {ends}", link)
        if is_complete and link["busy_s"]:
            assert f"{link['dimension']}: {ends}" in by_track
    for track, slices in by_track.items():
        link = known[track]
        assert sum(one.notes["duration_s"] for one in slices) == pytest.approx(link["busy_s"], rel=1e-9)
        assert sum(one.notes["bytes"] for one in slices) == pytest.approx(link["traffic_bytes"], rel=1e-6)
        shown_s = sum(one.end_ns - one.begin_ns for one in slices) * 1e-9
        assert shown_s == pytest.approx(link["busy_s"], abs=1e-9 * len(slices))


@pytest.mark.parametrize("case", CASES)
def test_a_timeline_and_tables_add_up_to_the_answer(dovetail, tmp_path, case):
    words = ("network", *CASES[case], "--size", "3 MiB", "--json")
    record = said(dovetail(*words, "--perfetto", tmp_path / "out.pftrace", "--csv", tmp_path / "out.csv"))
    assert record == said(dovetail(*words)), "what is recorded changed what is answered"
    found = seen((tmp_path / "out.pftrace").read_bytes())
    is_one = record["engine"] == "one rank"
    num_devices = record["num_devices"]
    assert max(one.end_ns for one in found.slices) == round(record["time_s"] * 1e9)
    check_links(found, record["links"], num_devices, is_complete=not is_one)
    assert ("device 0, the same on" in found.processes[1]) == is_one
    if not is_one:
        assert [found.processes[device + 1] for device in range(num_devices)] == [
            f"device {device}" for device in range(num_devices)
        ]
    assert all(0 <= value <= 100 * (1 + 1e-9) for points in found.counters.values() for _, value in points)
    check_tables(record, tmp_path)


def check_tables(record, folder):
    """Tables hold what JSON holds."""
    [row] = table(folder / "out.csv")
    assert float(row["time_s"]) == record["time_s"]
    assert row["topology"] == record["topology"]
    assert (row["memory_bytes_per_s"] == "") == (record["memory_bytes_per_s"] is None)
    links = table(folder / "out.links.csv")
    assert [{key: str(value) for key, value in link.items()} for link in record["links"]] == links
    critical = table(folder / "out.critical.csv")
    assert [one["task"] for one in critical] == [one["task"] for one in record["critical_path"]]
    assert float(critical[-1]["end_s"]) == pytest.approx(record["time_s"], rel=1e-12)


def test_a_sweep_is_one_table_of_its_points(dovetail, tmp_path):
    words = ("network", "all-reduce", "--size", "1MiB..4MiB", "--topology", "ring:4..16@50GB/s,500ns")
    points = said(dovetail(*words, "--json", "--csv", tmp_path / "out.csv"))["points"]
    assert [float(row["time_s"]) for row in table(tmp_path / "out.csv")] == [point["time_s"] for point in points]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out.csv"]


@pytest.fixture
def step(tmp_path):
    """Traces of four ranks that compute, reduce beside compute, and hand on."""
    for rank in range(4):
        nodes = [
            TraceNode(id=0, name="forward", duration_s=100e-6 * (1 + rank)),
            TraceNode(id=1, name="reduce", kind="collective", collective="all-reduce", size_bytes=2**20, after=(0,)),
            TraceNode(id=2, name="backward", duration_s=20e-6, after=(0,)),
            TraceNode(id=3, name="update", duration_s=50e-6, after=(1, 2)),
            TraceNode(id=4, name="call", duration_s=5e-6, is_cpu=True),
        ]
        if rank == 3:
            nodes.append(TraceNode(id=5, name="tell", kind="send", target=0, source=3, size_bytes=2**20, after=(3,)))
        if rank == 0:
            nodes.append(TraceNode(id=5, name="hear", kind="receive", target=0, source=3, size_bytes=2**20))
        (tmp_path / f"step.{rank}.et").write_bytes(encoded(nodes))
    return tmp_path


def test_the_timeline_of_a_trace_shows_streams_links_and_waits(dovetail, step):
    words = ("trace", "run", step / "step", "--topology", "mesh:4@50GB/s,500ns", "--json")
    record = said(dovetail(*words, "--perfetto", step / "out.pftrace", "--csv", step / "out.csv"))
    found = seen((step / "out.pftrace").read_bytes())
    assert max(one.end_ns for one in found.slices) == round(record["end_s"] * 1e9)
    check_links(found, record["links"], 4, is_complete=True)
    for rank in record["ranks"]:
        process = f"device {rank['rank']}"
        kernels = found.on(process, "compute")
        assert sum(one.notes["duration_s"] for one in kernels) == pytest.approx(rank["compute_s"])
        assert [one.name.split(" ")[-1] for one in kernels] == ["forward", "backward", "update"]
        assert [one.name.split(" ")[-1] for one in found.on(process, "cpu")] == ["call"]
        waits = found.on(process, "waits")
        assert waits[0].name.endswith("reduce")
        assert waits[0].name.startswith("wait for")
        assert (waits[0].begin_ns, waits[0].end_ns) == (kernels[1].end_ns, kernels[2].begin_ns)
    own = [one for one in found.slices if one.process == "device 0" and one.category == "communication"]
    assert {one.name.split(" ")[-1]: one.begin_ns for one in own} == {"hear": 0, "reduce": 100_000}
    assert len({one.track for one in own}) == 2, "what lies beside each other needs tracks of its own"
    assert [float(row["end_s"]) for row in table(step / "out.csv")] == [rank["end_s"] for rank in record["ranks"]]
    assert [row["task"] for row in table(step / "out.critical.csv")] == [one["task"] for one in record["critical_path"]]
    assert sum(float(row["traffic_bytes"]) for row in table(step / "out.links.csv")) > 2**20


def test_the_timeline_of_the_compatibility_mode_shows_streams(dovetail, step):
    words = ("trace", "run", step / "step", "--topology", "ring:4@50GB/s,500ns", "--engine", "astra-sim", "--json")
    record = said(dovetail(*words, "--perfetto", step / "out.pftrace", "--csv", step / "out.csv"))
    found = seen((step / "out.pftrace").read_bytes())
    assert max(one.end_ns for one in found.slices) == round(record["end_s"] * 1e9)
    assert record["links"] == []
    assert {one.track for one in found.slices} >= {"compute", "cpu", "waits", "communication"}
    assert len(table(step / "out.csv")) == 4
    assert not (step / "out.links.csv").exists()


def test_some_ranks_are_enough(dovetail, tmp_path):
    words = ("network", "all-to-all", "--size", "1 MiB", "--topology", "mesh:8@50GB/s,500ns", "--ranks", "2,5-6")
    record = said(dovetail(*words, "--perfetto", tmp_path / "o", "--csv", tmp_path / "o.csv", "--json"))
    found = seen((tmp_path / "o").read_bytes())
    names = [name for name in found.processes.values() if name.startswith("device")]
    assert names == ["device 2", "device 5", "device 6"]
    check_links(found, record["links"], 8, is_complete=False)
    assert {row["source"] for row in table(tmp_path / "o.links.csv")} == {"2", "5", "6"}


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--size", "1 MiB..2 MiB", "--topology", RING, "--perfetto", "o"), "this sweep has 2"),
        (("--size", "1 MiB", "--topology", RING, "--engine", "closed", "--perfetto", "o"), "has no timeline"),
        (("--size", "1 MiB", "--topology", RING, "--csv", "o.txt"), "written to .csv"),
        (("--size", "1 MiB", "--topology", RING, "--ranks", "0-3"), "pass --perfetto or --csv too"),
        (("--size", "1 MiB", "--topology", RING, "--ranks", "x", "--csv", "o.csv"), "ranks are written 0-3"),
        (("--size", "1 MiB", "--topology", "mesh:4@1GB/s,1us", "--ranks", "4", "--perfetto", "o"), "0 to 3; got 4"),
        (("--size", "1 MiB", "--topology", RING, "--csv", "no-such-folder/o.csv"), "no folder"),
        (("--size", "1 MiB", "--topology", "mesh:512@1GB/s,1us", "--perfetto", "o"), "at most 200,000 are written"),
    ],
)
def test_what_cannot_be_written_is_refused_in_one_line(dovetail, tmp_path, words, part):
    here = tuple(str(tmp_path / word) if word.startswith("o") else word for word in words)
    ran = dovetail("network", "all-reduce", *here)
    check_refused(ran)
    assert part in ran.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(bool(missing()), reason=f"not installed: {', '.join(missing())}")
def test_perfetto_itself_refuses_what_is_no_timeline():
    with pytest.raises(AssertionError):
        answers(b"no timeline " * 100, "select count(*) as num from slice")


@pytest.mark.skipif(bool(missing()), reason=f"not installed: {', '.join(missing())}")
def test_perfetto_itself_reads_the_timeline(dovetail, step):
    words = ("trace", "run", step / "step", "--topology", "mesh:4@50GB/s,500ns", "--json")
    record = said(dovetail(*words, "--perfetto", step / "out.pftrace"))
    trace = (step / "out.pftrace").read_bytes()
    [[whole], errors, processes] = answers(
        trace,
        "select max(ts + dur) as end, min(dur) as least, count(*) as num from slice",
        "select name, value from stats where severity = 'error' and value > 0",
        "select name from process where name is not null",
    )
    assert (whole["end"], whole["least"] >= 0) == (round(record["end_s"] * 1e9), True)
    assert whole["num"] == len(seen(trace).slices)
    assert not errors
    assert {one["name"] for one in processes} == set(seen(trace).processes.values())
