"""`dovetail network` asked oddly: the smallest networks, networks that are no use, and words in the wrong place."""

from __future__ import annotations

import json

import pytest

from tests.e2e.test_bad_input import check_refused

RING = "ring:8@50GB/s,500ns"
ASK = ("network", "all-reduce", "--size", "64 MiB", "--topology")


@pytest.mark.parametrize("words", [("ring:1@50GB/s,500ns",), (RING, "--groups", "3")], ids=" ".join)
def test_one_device_alone_has_an_answer(dovetail, words):
    told = dovetail(*ASK, *words)
    assert (told.returncode, told.stderr) == (0, "")
    assert json.loads(dovetail(*ASK, *words, "--json").stdout)["time_s"] == 0


def test_sms_have_the_rate_of_the_chip_or_the_one_that_is_said(dovetail):
    words = ("network", "all-reduce", "--size", "1GB", "--endpoint", "sm-ring", "--topology")
    assert "of 80.0 GB/s each" in dovetail(*words, "ring:8@900GB/s,1us", "--sms", "6").stdout
    assert "of 40.0 GB/s each" in dovetail(*words, "ring:8@900GB/s,1us", "--sms", "6@40GB/s").stdout
    assert "of 35.3 GB/s each" in dovetail(*words, "dgx-h100", "--sms", "6").stdout
    wrong = (("dgx-a100", "6", "was not measured"), ("ring:8@9GB/s,1us", "6@1GB/s..2GB/s", "one rate"))
    for topology, sms, said in wrong:
        ran = dovetail(*words, topology, "--sms", sms)
        assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1)
        assert said in ran.stderr


def test_the_closed_form_is_compared_with_links_where_the_endpoint_sets_the_time(dovetail):
    told = dovetail(*ASK, RING, "--endpoint", "ace", "--memory", "20GB/s").stdout
    [line] = [line for line in told.splitlines() if "closed form" in line]
    assert line.endswith("the same as links alone")
    [line] = [line for line in dovetail(*ASK, RING).stdout.splitlines() if "closed form" in line]
    assert line.endswith("the same")


def test_a_sweep_of_devices_shows_them_beside_groups_that_stay(dovetail):
    told = dovetail(*ASK, "ring:8..32@50GB/s,500ns", "--groups", "0-3")
    assert (told.returncode, told.stderr) == (0, "")
    title, head, *rows = told.stdout.splitlines()[:5]
    assert "and larger" in title
    assert head.split()[:4] == ["size", "devices", "group", "time"]
    assert [row.split()[2:4] for row in rows] == [["8", "4"], ["16", "4"], ["32", "4"]]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("network", "foo"), ("no collective is named 'foo'",)),
        ((*ASK, RING, "--groups", ";"), ("--groups",)),
        ((*ASK, RING, "--dims", "x,x"), ("--dims", "once")),
        ((*ASK, RING, "--algorithm", "x=ring,x=direct"), ("--algorithm", "one for each")),
        ((*ASK, RING, "--chunks", "1000000000"), ("--chunks",)),
        (("network", "all-reduce", "--size", "1GiB..1MiB", "--topology", RING), ("--size", "GiB")),
    ],
)
def test_odd_words_are_refused_in_one_line(dovetail, words, told):
    check_refused(dovetail(*words), *told)
