"""`dovetail trace` with odd files, files that stand already, and ranks that are slower than others."""

from __future__ import annotations

import json

import pytest

from dovetail.comm.trace.nodes import TraceNode
from dovetail.files.chakra import encoded
from tests.e2e.test_bad_input import check_refused

RING = "ring:2@50GB/s,500ns"
WORKLOAD = "DATA\n1\na -1 9000 NONE 0 9000 NONE 0 9000 ALLREDUCE 1048576 0\n"


def traced(folder, *ranks):
    for rank, nodes in enumerate(ranks):
        (folder / f"it.{rank}.et").write_bytes(encoded(nodes))
    return folder / "it"


def kernel(id_=0, duration_s=1e-3):
    return TraceNode(id=id_, name="k", duration_s=duration_s)


@pytest.mark.parametrize("engine", ["events", "astra-sim"])
def test_a_trace_that_takes_no_time_has_a_table(dovetail, tmp_path, engine):
    none = TraceNode(id=0, kind="collective", collective="all-reduce", size_bytes=8, involved=(False,))
    ran = dovetail("trace", "run", traced(tmp_path, (none,), (none,)), "--topology", RING, "--engine", engine)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "0.000 ns" in ran.stdout


@pytest.mark.parametrize("engine", ["events", "astra-sim"])
def test_a_fault_between_ranks_names_the_file(dovetail, tmp_path, engine):
    send = TraceNode(id=3, kind="send", target=1, size_bytes=8)
    ran = dovetail("trace", "run", traced(tmp_path, (send,), (kernel(),)), "--topology", RING, "--engine", engine)
    check_refused(ran, "it.0.et", "rank 0", "never receives")
    ran = dovetail("trace", "run", tmp_path / "it", "--topology", "ring:4@50GB/s,500ns", "--engine", engine)
    check_refused(ran, str(tmp_path / "it"), "4 devices")


def test_a_kernel_of_years_is_refused(dovetail, tmp_path):
    long = kernel(duration_s=9e12)
    ran = dovetail("trace", "run", traced(tmp_path, (long,), (long,)), "--topology", RING)
    check_refused(ran, "it.0.et", "node 0", "at most")


def test_a_network_too_large_to_be_drawn_is_refused_before_it_is(dovetail, tmp_path):
    network = tmp_path / "net.yml"
    network.write_text(
        "topology: [ FullyConnected ]\nnpus_count: [ 100000 ]\nbandwidth: [ 50 ]\nlatency: [ 500 ]\n", encoding="utf-8"
    )
    words = ("trace", "run", traced(tmp_path, (kernel(),), (kernel(),)), "--topology", network)
    check_refused(dovetail(*words), "net.yml", "65,536")
    check_refused(dovetail(*words, "--engine", "astra-sim"), "100,000 devices")  # which needs no graph


def test_traces_are_written_over_only_when_asked_to(dovetail, tmp_path):
    (tmp_path / "w.txt").write_text(WORKLOAD, encoding="utf-8")
    words = ("trace", "import", tmp_path / "w.txt", tmp_path / "out", "--topology")
    assert dovetail(*words, RING).returncode == 0
    check_refused(dovetail(*words, RING), "exists", "--force")
    assert dovetail(*words, RING, "--force").returncode == 0
    check_refused(dovetail(*words, "ring:1@50GB/s,500ns", "--force"), "another run", "remove it")


def test_a_workload_with_nothing_to_do_makes_no_traces(dovetail, tmp_path):
    (tmp_path / "w.txt").write_text("DATA\n1\na -1 0 NONE 0 0 NONE 0 0 NONE 0 0\n", encoding="utf-8")
    check_refused(dovetail("trace", "import", tmp_path / "w.txt", tmp_path / "out", "--topology", RING), "w.txt")
    assert not (tmp_path / "out.0.et").exists()


def test_a_slow_rank_ends_later(dovetail, tmp_path):
    words = ("trace", "run", traced(tmp_path, (kernel(),), (kernel(),)), "--topology", RING)
    ran = dovetail(*words, "--slow-ranks", "1=0.5", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [one["end_s"] for one in json.loads(ran.stdout)["ranks"]] == pytest.approx([1e-3, 2e-3])
    for text in ("1", "1=fast", "1=0.5,1=0.5", "2=0.5", "1=0"):
        check_refused(dovetail(*words, "--slow-ranks", text), "--slow-ranks")
    check_refused(dovetail(*words, "--slow-ranks", "1=0.5", "--engine", "astra-sim"), "--slow-ranks")
