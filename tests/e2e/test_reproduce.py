"""`dovetail reproduce`: usage that is refused in one line, and the table beyond ACE."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import ROOT
from tests.e2e.test_reference import keys


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("reproduce", "acee"), "did you mean ace"),
        (("reproduce", "ace", "--figures", "no/such/folder"), "there is no folder"),
        (("reproduce", "ace", "--beyond", "--refit"), "--beyond is a table of its own"),
        (("reproduce", "phase-dp"), "did you mean phaze-dp"),
        (("reproduce", "phaze-dp", "--refit"), "phaze-dp is one table"),
    ],
)
def test_wrong_usage_ends_with_one_line(dovetail, words, said):
    ran = dovetail(*words)
    assert ran.returncode == 2
    assert said in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_beyond_is_json_for_programs(dovetail):
    record = json.loads(dovetail("reproduce", "ace", "--beyond", "--json").stdout)
    assert {"resnet-50", "gnmt", "dlrm"} < {row["workload"] for row in record["rows"]}
    assert record["verdict"]
    page = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    assert {key for key in keys(record) if f"`{key}`" not in page} == set()


def test_phaze_placements_are_a_table_and_json(dovetail):
    ran = dovetail("reproduce", "phaze-dp")
    assert ran.returncode == 0
    record = json.loads(dovetail("reproduce", "phaze-dp", "--json").stdout)
    assert record["holds"]
    assert all(case["instance"] in ran.stdout for case in record["cases"])
