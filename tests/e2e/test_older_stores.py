"""A store that 0.1 wrote is listed, exported and gone on from; where numbers have moved since, that is said."""

from __future__ import annotations

import csv
import json
import sqlite3
import subprocess
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dovetail.cli import main
from dovetail.search.study import StudyRecord
from dovetail.store import opened, reading, version
from dovetail.store.again import why_not_the_same
from dovetail.store.version import Change
from tests.messages import holds

DUMP = Path(__file__).resolve().parents[1] / "data" / "store_0_1.sql"
SPEC = """
workload: {model: gpt2-345m, global_batch: 16, seq: 128}
devices: 4
chip: {base: tpuv4-like, num_tensor: [1, 4], num_rows: 128, num_cols: [64, 256], num_vector: 2, num_lanes: 128,
       sram_mib: 32, hbm_stacks: [2, 4], stack_gib: 8}
"""
KINDS = {
    "mine": 12,
    "codesign": 8,
    "codesign, uneven plans": 1,
    "pareto": 8,
    "codesign, one by one": 4,
    "codesign, one by one, uneven plans": 1,
}
BY_0_1 = "0.1.0+a3ace3156e19"


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The store of 0.1, as a file."""
    file = tmp_path / "older.db"
    with closing(sqlite3.connect(file)) as link:
        link.executescript(DUMP.read_text(encoding="utf-8"))
    return file


@pytest.fixture
def dovetail(capsys, tmp_path):
    """The command in this process: physics is to be moved in it."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC, encoding="utf-8")

    def run(*words):
        code = main([str(spec) if word == "SPEC" else str(word) for word in words])
        return subprocess.CompletedProcess(words, code, *capsys.readouterr())

    return run


def records(file: Path) -> dict[str, StudyRecord]:
    with reading(file) as store:
        return {one.kind: one for one in store.studies()}


def listed(dovetail, file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(dovetail("studies", file, "--json").stdout)["studies"]
    return found


def moved(monkeypatch, *changes: Change) -> None:
    monkeypatch.setattr(version, "HISTORY", (version.HISTORY[0], *changes))


def test_studies_of_0_1_are_listed_and_shown(dovetail, older):
    found = listed(dovetail, older)
    assert {one["kind"]: one["num_rows"] for one in found} == KINDS
    assert {one["model_version"] for one in found} == {BY_0_1}
    for one in found:
        ran = dovetail("studies", older, "--study", one["study"], "--json")
        assert (ran.returncode, ran.stderr) == (0, "")
        assert len(json.loads(ran.stdout)["designs"]) >= 1


def test_rows_of_0_1_are_exported(dovetail, older, tmp_path):
    ran = dovetail("export", older, "--out", tmp_path / "rows.csv", "--other-versions")
    assert (ran.returncode, ran.stderr) == (0, "")
    with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    assert len(rows) == sum(KINDS.values())
    best = min((row for row in rows if row["kind"] == "mine"), key=lambda row: float(row["loss"] or "inf"))
    assert (float(best["loss"]), best["num_tensor"], best["num_cols"]) == (1.0405809742229155, "2", "256")
    assert float(best["step_s"]) == 0.0020336342589972333
    [uneven] = [row for row in rows if row["kind"] == "codesign, uneven plans"]
    assert json.loads(uneven["plan"])["data_parallel"] == 2


def test_a_study_of_the_same_physics_is_gone_on_from_whatever_it_was_kept_under(older, monkeypatch):
    """The rows of 0.1 are found by the question alone, and new ones are added to the same study."""
    moved(monkeypatch)
    study = records(older)["codesign"]
    with opened(older) as store:
        again = store.study(study.kind, study.inputs, study.figure_names)
        assert again.key == study.key
        assert len(again.known()) == KINDS["codesign"]
        assert store.others(again) == ()
    assert records(older)["codesign"].is_current
    assert len(records(older)) == len(KINDS)


def test_a_search_on_the_store_of_0_1_goes_on_or_says_why_not(dovetail, older):
    """As physics and chips stand today: rows of 0.1 are reused to the last bit, or one line has the reason."""
    study = records(older)["codesign"]
    ran = dovetail("codesign", "SPEC", "--store", older, "--json")
    assert ran.returncode == 0
    now = [one for one in listed(dovetail, older) if one["kind"] == "codesign"]
    if len(now) == 1:
        assert ran.stderr == ""
        assert (now[0]["study"], now[0]["num_rows"]) == (study.key, KINDS["codesign"])
    else:
        lines = ran.stderr.splitlines()
        assert holds(lines[0], "8 rows", f"{BY_0_1} (study {study.key[:8]})")
        assert any(word in lines[0] for word in ("physics", "has other figures", "has another graph"))


def test_a_search_begins_anew_where_physics_moved_and_says_by_what(dovetail, tmp_path, monkeypatch):
    store, words = tmp_path / "new.db", ("codesign", "SPEC", "--json", "--store", tmp_path / "new.db")
    first = dovetail(*words)
    again = dovetail(*words)
    assert (first.returncode, first.stderr, again.stderr, again.stdout) == (0, "", "", first.stdout)
    last = version.HISTORY[-1].version
    latest = Change(version=last + 1, what="memory is what PyTorch sees", moves=("codesign",))
    monkeypatch.setattr(version, "HISTORY", (*version.HISTORY, latest))
    again = dovetail(*words)
    assert again.stdout == first.stdout
    lines = again.stderr.splitlines()
    assert len(lines) == 2  # of even plans, and of uneven ones
    assert holds(lines[0], "8 rows", "physics-", f"physics {last + 1}: {latest.what}")
    with reading(store) as opened_store:
        assert [one.is_current for one in opened_store.studies()] == [False, False, True, True]


def test_physics_that_does_not_move_a_kind_leaves_its_studies(monkeypatch, older):
    moved(monkeypatch, Change(version=2, what="rings", moves=("pareto",)), Change(version=3, what="words", moves=()))
    assert [version.physics_version(kind) for kind in ("", "mine", "codesign, uneven plans", "pareto")] == [3, 1, 1, 2]
    assert {kind: one.is_current for kind, one in records(older).items()} == {kind: kind != "pareto" for kind in KINDS}


def test_what_is_kept_by_a_later_dovetail_or_other_source_is_never_mixed_with(monkeypatch):
    moved(monkeypatch)
    assert version.is_same_physics("physics-1", "mine")
    assert version.is_same_physics("0.1.0+e1a7acc25bdb", "mine")
    for kept, why in (
        ("physics-2", "physics 2 is of a later Dovetail; this one has physics 1"),
        ("0.1.0+0123456789ab", "0.1.0+0123456789ab is no version whose physics is known here"),
        ("physics-x", "physics-x is no version whose physics is known here"),
        ("physics-1.plugins-0123456789ab", "it was kept with other plugins"),
    ):
        assert version.physics_changes(kept, "mine") == (why,)


def test_why_a_study_is_not_gone_on_from_names_what_changed(older, monkeypatch):
    moved(monkeypatch)
    own = records(older)["mine"]

    def why(**inputs):
        return why_not_the_same(own, replace(own, inputs=own.inputs | inputs))

    [job] = own.inputs["jobs"]
    base, losses = own.inputs["base"], {"reference_losses": [2.0]}
    assert why() == ()
    assert why(base=base | {"digest": "other"}, limits={"area_mm2": 1.0}) == ("chip tpuv2-like has other figures",)
    assert why(jobs=[job | {"digest": "other"}], **losses) == ("model resnet-18 has another graph",)
    assert why(**losses) == ("the base comes to another result",)
    assert why(metric="perf/tdp") == why(jobs=[job | {"batch": 4}]) == why(base=base | {"name": "other"}) == ()
    assert why(space=dict(reversed(own.knobs.items()))) == ()
    assert why_not_the_same(own, replace(own, figure_names=("loss",))) == ("other figures are kept of a row",)
    assert why_not_the_same(own, replace(own, kind="pareto", model_version="physics-9")) == ()
