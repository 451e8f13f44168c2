"""`dovetail network`: one collective on one network, and sweeps."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import pytest

from tests.e2e.test_bad_input import check_refused

RING = "ring:8@50GB/s,500ns"


@pytest.mark.parametrize(
    "words",
    [
        ("all-reduce", "--size", "64 MiB", "--topology", RING),
        ("all-reduce", "--size", "64 MiB", "--topology", RING, "--engine", "closed"),
        ("all-reduce", "--size", "1 GiB", "--topology", f"{RING} x switch:4@25GB/s,1us", "--chunks", "8", "--themis"),
        ("all-to-all", "--size", "1 MiB", "--topology", "fat-tree:16@50GB/s,500ns,leaf=4,oversubscription=2"),
        ("broadcast", "--size", "1 MiB", "--topology", "torus:2x4@50GB/s,500ns", "--groups", "0,3,5"),
        ("point-to-point", "--size", "1 MiB", "--topology", "dragonfly:3x2x2@50GB/s,500ns", "--groups", "0,9"),
        (
            "all-reduce",
            "--size",
            "1 MiB",
            "--topology",
            "dgx-h100",
            "--chunks",
            "4",
            "--active",
            "2",
            "--policy",
            "lifo",
        ),
    ],
    ids=" ".join,
)
def test_a_collective_is_told_for_people_and_programs(dovetail, words):
    told, found = dovetail("network", *words), dovetail("network", *words, "--json")
    assert (told.returncode, found.returncode, told.stderr, found.stderr) == (0, 0, "", "")
    record = json.loads(found.stdout)
    assert 0 < record["bound_s"] <= record["time_s"] * (1 + 1e-9)
    assert record["bus_bytes_per_s"] > 0
    for word in ("time", "algorithm bandwidth", "bus bandwidth", "bound of "):
        assert word in told.stdout
    assert max(len(line) for line in told.stdout.splitlines()) <= 80
    if record["engine"] != "closed form":
        assert record["links"]
        assert all(0 <= link["busy_frac"] <= 1 + 1e-9 for link in record["links"])
        assert "how busy links were" in told.stdout


def test_events_and_the_closed_form_stand_side_by_side(dovetail):
    told = dovetail("network", "all-reduce", "--size", "64 MiB", "--topology", RING).stdout
    assert "closed form" in told
    assert "the same" in told


def test_a_sweep_is_a_table_and_a_picture(dovetail, tmp_path):
    words = ("network", "all-reduce", "--size", "1MiB..4MiB", "--topology", "ring:4..16@50GB/s,500ns")
    ran = dovetail(*words, "--plot", tmp_path / "out.svg")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.count("MiB ") == 9
    assert "the closed form is of" not in ran.stdout
    root = ElementTree.parse(tmp_path / "out.svg").getroot()
    assert len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) == 18  # two panels
    points = json.loads(dovetail(*words, "--json").stdout)["points"]
    assert [(p["size_bytes"] / 2**20, p["num_ranks"]) for p in points[:4]] == [(1, 4), (2, 4), (4, 4), (1, 8)]


def test_a_sweep_of_memory_bandwidth_shows_where_the_endpoint_stops_to_matter(dovetail, tmp_path):
    words = ["network", "all-reduce", "--size", "64MiB", "--topology", RING]
    words += ["--endpoint", "sm-ring", "--memory", "12.5GB/s..400GB/s"]
    points = json.loads(dovetail(*words, "--json").stdout)["points"]
    times_s = [point["time_s"] for point in points]
    assert times_s == sorted(times_s, reverse=True)
    assert times_s[0] == points[0]["endpoint_s"]
    assert times_s[-1] > points[-1]["endpoint_s"]
    told = dovetail(*words, "--plot", tmp_path / "memory.svg")
    assert "memory" in told.stdout
    assert "the closed form is of links alone\n" in told.stdout
    assert "the closed form is of links alone and one chunk\n" in dovetail(*words, "--chunks", "2").stdout
    assert "memory bandwidth" in (tmp_path / "memory.svg").read_text(encoding="utf-8")


def test_what_is_drawn_of_an_answer_is_written_anew_each_time(dovetail, tmp_path):
    names = {"--csv": "it.csv", "--plot": "it.svg", "--perfetto": "it.perfetto-trace", "--html": "it.html"}
    files = [tmp_path / name for name in (*names.values(), "it.links.csv")]
    for file in files:
        file.write_bytes(b"old")
    asked = [word for option, name in names.items() for word in (option, tmp_path / name)]
    ran = dovetail("network", "all-reduce", "--size", "1MiB", "--topology", RING, *asked)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert not [file.name for file in files if file.read_bytes() == b"old"]


def test_a_broken_link_is_gone_round_and_costs(dovetail):
    words = ("network", "all-reduce", "--size", "1MiB", "--topology", RING, "--json")
    whole, broken = (json.loads(dovetail(*words, *more).stdout) for more in ((), ("--slow", "2>3=0")))
    assert broken["time_s"] > whole["time_s"]
    assert len(broken["links"]) == len(whole["links"]) - 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("all-reduce", "--topology", RING), "--size is missing"),
        (("all-reduce", "--size", "1MiB"), "--topology is missing"),
        (("all-reduce", "--size", "64", "--topology", RING), "needs its unit"),
        (("gossip", "--size", "1MiB", "--topology", RING), "no collective is named 'gossip'"),
        (("all-reduce", "--size", "1MiB", "--topology", "rong:8@50GB/s,1us"), "did you mean ring"),
        (("all-reduce", "--size", "1MiB", "--topology", RING, "--groups", "0-9"), "names device 8"),
        (("all-reduce", "--size", "1MiB", "--topology", RING, "--engine", "guess"), "no engine is named"),
        (("all-reduce", "--size", "1MiB", "--topology", RING, "--policy", "guess"), "no policy is named"),
        (("all-reduce", "--size", "1MiB", "--topology", RING, "--algorithm", "rign"), "did you mean ring"),
        (("all-reduce", "--size", "1MiB", "--topology", RING, "--algorithm", "in-switch"), "needs a switch"),
        (("all-reduce", "--size", "1MiB", "--topology", RING, "--chunks", "0"), "--chunks must be at least 1"),
        (("all-reduce", "--size", "1MiB", "--topology", RING, "--dims", "q"), "no dimension is named 'q'"),
        (("all-reduce", "--size", "1MiB", "--topology", RING, "--endpoint", "ace"), "needs what it is given"),
        (("all-reduce", "--size", "1MiB", "--topology", RING, "--memory", "1GB/s"), "name one with --endpoint"),
        (
            ("all-reduce", "--size", "1MiB", "--topology", RING, "--engine", "closed", "--policy", "lifo"),
            "--policy is of",
        ),
        (("all-reduce", "--size", "1MiB..2MiB", "--topology", RING, "--csv", "a.csv", "--ranks", "0"), "--ranks is of"),
        (("all-reduce", "--size", "1MiB", "--topology", RING, "--plot", "a.png"), "a plot is written to .svg"),
        (("all-reduce", "--size", "1MiB", "--topology", "mesh:4@1GB/s,1us", "--slow", "1>2=0"), "no way leads from"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(dovetail, words, reason):
    check_refused(dovetail("network", *words), reason)
