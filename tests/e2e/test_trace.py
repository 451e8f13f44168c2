"""`dovetail trace`: text workloads in, traces out, times by both engines, and every fault in one line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from dovetail.comm.trace.nodes import TraceNode
from dovetail.files.chakra import encoded
from tests.e2e.conftest import ROOT, environment
from tests.e2e.test_bad_input import check_refused
from tests.e2e.test_reference import keys

WORKLOAD = """\
HYBRID_TRANSFORMER model_parallel_NPU_group: 4
2
attention -1 200000 ALLREDUCE 1048576 200000 ALLREDUCE 1048576 200000 ALLREDUCE 4194304 1000
mlp -1 200000 ALLREDUCE 1048576 200000 ALLREDUCE 1048576 200000 ALLREDUCE 4194304 1000
"""
NETWORK = "topology: [ Switch, Switch ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 400.0, 50.0 ]\nlatency: [ 250.0, 1000.0 ]\n"
SYSTEM = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 2,
    "all-reduce-implementation": ["halvingDoubling", "ring"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 1600,
}
DESCRIBED = "switch:4@400GB/s,500ns x switch:2@50GB/s,2us"


@pytest.fixture
def traces(dovetail, tmp_path):
    (tmp_path / "workload.txt").write_text(WORKLOAD, encoding="utf-8")
    (tmp_path / "network.yml").write_text(NETWORK, encoding="utf-8")
    (tmp_path / "system.json").write_text(json.dumps(SYSTEM), encoding="utf-8")
    prefix = tmp_path / "step"
    ran = dovetail("trace", "import", tmp_path / "workload.txt", prefix, "--topology", tmp_path / "network.yml")
    assert ran.returncode == 0, ran.stderr
    assert "8 traces of 12 nodes" in ran.stdout
    return tmp_path


def said(ran):
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("engine", ["events", "astra-sim"])
def test_both_engines_say_when_each_rank_ends(dovetail, traces, engine):
    words = ("trace", "run", traces / "step", "--engine", engine)
    found = said(dovetail(*words, "--topology", traces / "network.yml", "--json"))
    assert [one["rank"] for one in found["ranks"]] == list(range(8))
    page = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    assert all(f"`{key}`" in page for key in keys(found))
    assert found["end_s"] > found["ranks"][0]["compute_s"] == pytest.approx(1.002e-3)
    told = dovetail(*words, "--topology", DESCRIBED, "--system", traces / "system.json")
    assert told.returncode == 0, told.stderr
    assert "0-7" in told.stdout
    assert ("critical path" in told.stdout) == (engine == "events")
    assert max(len(line) for line in told.stdout.splitlines()) <= 80


def test_congestion_is_modelled_where_asked_for(dovetail, traces):
    words = ("trace", "run", traces / "step", "--topology", traces / "network.yml", "--json", "--engine", "astra-sim")
    assert said(dovetail(*words, "--congestion-aware"))["end_s"] > said(dovetail(*words))["end_s"]


def rewritten(folder, rank, *nodes):
    (folder / f"step.{rank}.et").write_bytes(encoded(nodes))


def cut(folder):
    file = folder / "step.5.et"
    file.write_bytes(file.read_bytes()[:99])


FAULTS = {
    "cut": (cut, ("step.5.et: rank 5", "node")),
    "corrupt": (lambda folder: (folder / "step.5.et").write_bytes(b"\xff" * 4000), ("step.5.et: rank 5", "node")),
    "missing": (lambda folder: (folder / "step.5.et").unlink(), ("rank 5", "step.5.et")),
    "cyclic": (
        lambda folder: rewritten(folder, 5, TraceNode(id=3, after=(4,)), TraceNode(id=4, after=(3,))),
        ("rank 5", "3 -> 4 -> 3"),
    ),
    "dangling": (lambda folder: rewritten(folder, 5, TraceNode(id=3, after=(4,))), ("rank 5", "node 3", "node 4")),
    "never joining": (
        lambda folder: rewritten(folder, 5, TraceNode(id=3, duration_s=1e-6)), ("rank 5", "never joins"),
    ),
    "sending to nobody": (
        lambda folder: rewritten(folder, 5, TraceNode(id=3, kind="send", target=1, size_bytes=8)), ("rank", "never"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("engine", ["events", "astra-sim"])
@pytest.mark.parametrize("case", FAULTS)
def test_every_fault_is_one_line_that_names_rank_and_node(dovetail, traces, case, engine):
    spoil, words = FAULTS[case]
    spoil(traces)
    ran = dovetail("trace", "run", traces / "step", "--topology", traces / "network.yml", "--engine", engine)
    check_refused(ran, *words)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--topology", "switch:4@400GB/s,500ns"), "4 devices"),
        ((), "--topology"),
        (("--topology", DESCRIBED, "--engine", "event"), "did you mean events"),
        (("--topology", DESCRIBED, "--congestion-aware"), "--engine astra-sim"),
        (("--topology", "mesh:8@400GB/s,500ns", "--engine", "astra-sim"), "rings, switches"),
        (("--topology", DESCRIBED, "--system", "absent.json"), "there is no file"),
        (("--topology", DESCRIBED, "--groups", "absent.json"), "there is no file"),
        (("--topology", "ring:2..8@1GB/s,1us"), "one network"),
    ],
)
def test_a_bad_word_is_refused(dovetail, traces, words, told):
    check_refused(dovetail("trace", "run", traces / "step", *words), told)


def test_no_trace_at_all_is_refused(dovetail, tmp_path):
    check_refused(dovetail("trace", "run", tmp_path / "none", "--topology", DESCRIBED), "none.0.et")


# A child's own peak: that of a fork begins with what its parent has.
PEAK = """\
import resource, subprocess, sys
ran = subprocess.run([sys.executable, "-m", "dovetail", *sys.argv[1:]], capture_output=True, text=True)
print(ran.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


@pytest.mark.parametrize("case", ["empty nodes", "many nodes", "many dependencies", "a huge length"])
def test_a_file_that_promises_much_takes_little_memory(tmp_path, case):
    head, node = encoded(()), encoded([TraceNode(id=2, after=(1,) * 2500)])
    data = {
        "empty nodes": lambda: head + bytes(60_000_000),
        "many nodes": lambda: head + 210_000 * encoded([TraceNode(id=1)]).removeprefix(head),
        "many dependencies": lambda: head + 1250 * node.removeprefix(head),
        "a huge length": lambda: head + b"\xff\xff\xff\xff\xff\xff\xff\x7f" + bytes(1000),
    }[case]()
    (tmp_path / "big.0.et").write_bytes(data)
    words = ("trace", "run", str(tmp_path / "big"), "--topology", "ring:1@1GB/s,1us")
    ran = subprocess.run(
        [sys.executable, "-c", PEAK, *words], env=environment(), capture_output=True, text=True, check=True, timeout=600
    )
    code, peak_bytes = map(int, ran.stdout.split())
    assert code == 2
    assert peak_bytes < 200e6


@pytest.mark.parametrize(
    "words",
    [
        ("all-reduce", "--topology", DESCRIBED, "--chunks", "4", "--policy", "lifo"),
        ("all-gather", "--topology", "ring:8@50GB/s,500ns", "--groups", "0-3;4-7"),
    ],
    ids=" ".join,
)
def test_a_collective_written_as_files_of_astra_sim_takes_as_long(dovetail, tmp_path, words):
    prefix = str(tmp_path / "it")
    told = dovetail("network", *words, "--size", "8 MiB", "--astra-sim", prefix)
    assert (told.returncode, told.stderr) == (0, "")
    command = told.stdout.splitlines()[-1].split()
    assert command[:4] == ["dovetail", "trace", "run", prefix]
    asked = said(dovetail("network", *words, "--size", "8 MiB", "--json"))
    assert said(dovetail(*command[1:], "--json"))["end_s"] == pytest.approx(asked["time_s"], rel=1e-9)


def test_files_of_astra_sim_are_not_written_over_unasked(dovetail, tmp_path):
    words = ("network", "all-reduce", "--size", "1 MiB", "--topology", "ring:2@50GB/s,500ns")
    asked = (*words, "--astra-sim", tmp_path / "it")
    edited = tmp_path / "it.network.yml"
    edited.write_text("mine", encoding="utf-8")
    check_refused(dovetail(*asked), "exists; pass --force")
    assert [file.name for file in tmp_path.iterdir()] == ["it.network.yml"]
    assert dovetail(*asked, "--force").returncode == 0
    assert edited.read_text(encoding="utf-8") != "mine"
    check_refused(dovetail(*asked), "exists; pass --force")
    check_refused(dovetail(*words, "--force"), "--force needs --astra-sim")


def test_traces_of_another_run_beside_the_new_ones_are_refused(dovetail, tmp_path):
    (tmp_path / "it.4.et").write_bytes(b"")
    words = ("all-reduce", "--size", "1 MiB", "--topology", "ring:4@50GB/s,500ns", "--astra-sim", tmp_path / "it")
    check_refused(dovetail("network", *words), "another run with more than 4 ranks")
    assert [file.name for file in tmp_path.iterdir()] == ["it.4.et"]
