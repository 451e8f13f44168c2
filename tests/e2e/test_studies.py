"""`dovetail studies` and `dovetail export`: what a store holds, for people and programs."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys

import pytest

from dovetail.cli import main
from dovetail.search.algorithms import Scored
from dovetail.store import opened, version
from tests.e2e.conftest import ROOT
from tests.e2e.test_bad_input import check_refused

INPUTS = {
    "jobs": [{"name": "bert-large"}, {"name": "gpt2"}],
    "base": {"name": "tpuv2-like"},
    "metric": "throughput",
    "limits": {"area_mm2": 600.5, "power_w": math.inf},
    "space": {"num_tensor": [1, 2, 4], "clock_hz": [0.94e9, 1.05e9], "memory": ["hbm2e", "hbm3"]},
}
PLAN = '{"tensor_parallel": 8, "recompute": ["full"]}'
FOUND = [
    Scored(point=(1, 1, 0), loss=0.1 + 0.2, also=(280.0, 1e-3), bottleneck="num_tensor", plan=PLAN),
    Scored(point=(0, 0, 1), loss=0.75, also=(120.0, math.inf)),
    Scored(point=(2, 1, 1), loss=math.inf, excess_frac=0.5),
]


@pytest.fixture
def dovetail(capsys):
    """The command in this process, as nothing here depends on how it is started."""

    def run(*arguments):
        code = main([str(word) for word in arguments])
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return run


@pytest.fixture
def store(tmp_path, monkeypatch):
    """One of three studies: of an older model, of this one, and of another kind, nothing in it yet."""
    path = tmp_path / "designs.db"
    with opened(path) as opened_store:
        with monkeypatch.context() as patched:
            patched.setattr(version, "kept_under", lambda _: "0.0.9+older")
            opened_store.study("codesign", INPUTS, ("power_w", "step_s")).keep(FOUND[:1])
        opened_store.study("codesign", INPUTS, ("power_w", "step_s")).keep(FOUND)
        opened_store.study("mine", {"space": {"num_rows": [4, 8]}}, ("area_mm2",))
    return path


def test_studies_are_listed_for_people_and_programs(dovetail, store):
    told, found = dovetail("studies", store), dovetail("studies", store, "--json")
    assert (told.returncode, found.returncode, told.stderr, found.stderr) == (0, 0, "", "")
    assert max(map(len, told.stdout.splitlines()[1:])) <= 80
    older, now, empty = json.loads(found.stdout)["studies"]
    assert [one["is_current"] for one in (older, now, empty)] == [False, True, True]
    assert [one["num_rows"] for one in (older, now, empty)] == [1, 3, 0]
    assert older["model_version"] == "0.0.9+older"
    assert older["study"] != now["study"]
    assert now["best"]["loss"] == 0.1 + 0.2
    assert now["best"]["knobs"] == {"num_tensor": 2, "clock_hz": 1.05e9, "memory": "hbm2e"}
    assert empty["best"] is None
    for word in ("3 studies in", f"{older['study'][:8]}*", "0.3", "never mixed", "throughput on tpuv2-like"):
        assert word in " ".join(told.stdout.split())


def test_one_study_is_shown_with_its_inputs_and_best_rows(dovetail, store):
    now = json.loads(dovetail("studies", store, "--json").stdout)["studies"][1]["study"]
    told, found = dovetail("studies", store, "--study", now[:6]), dovetail("studies", store, "--study", now, "--json")
    said = json.loads(found.stdout)
    assert said["inputs"] == INPUTS | {"limits": {"area_mm2": 600.5, "power_w": None}}
    assert [design["loss"] for design in said["designs"]] == [0.1 + 0.2, 0.75]
    assert said["designs"][0]["figures"] == {"power_w": 280.0, "step_s": 1e-3}
    assert json.loads(said["designs"][0]["plan"]) == json.loads(PLAN)
    for word in ("3 of 12 designs", "bert-large + gpt2", "num_tensor", "power_w"):
        assert word in told.stdout
    page = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    assert {key for key in (*said, *said["designs"][0]) if f"`{key}`" not in page} == set()


def rows_of(file):
    with file.open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def test_rows_of_this_version_are_written_with_every_digit(dovetail, store, tmp_path):
    ran = dovetail("export", store, "--out", tmp_path / "rows.csv", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    said, rows = json.loads(ran.stdout), rows_of(tmp_path / "rows.csv")
    assert len(said["left_out"]) == 1
    assert said["num_rows"] == len(rows) == 3
    assert list(rows[0]) == said["columns"]
    assert {row["model_version"] for row in rows} == {version.kept_under("codesign")}
    best = min((row for row in rows if row["loss"]), key=lambda row: float(row["loss"]))
    assert float(best["loss"]) == 0.1 + 0.2
    assert (best["num_tensor"], float(best["clock_hz"]), best["memory"]) == ("2", 1.05e9, "hbm2e")
    assert (best["models"], best["plan"], best["num_rows"]) == ("bert-large + gpt2", PLAN, "")
    [beyond] = [row for row in rows if not row["loss"]]
    assert (beyond["excess_frac"], beyond["power_w"]) == ("0.5", "")
    page = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    assert {key for key in said if f"`{key}`" not in page} == set()


def test_numbers_of_another_version_are_written_when_asked_for_and_labelled(dovetail, store, tmp_path):
    ran = dovetail("export", store, "--out", tmp_path / "rows.csv", "--other-versions")
    assert "do not compare them" in " ".join(ran.stdout.split())
    rows = rows_of(tmp_path / "rows.csv")
    versions = ["0.0.9+older"] + 3 * [version.kept_under("codesign")]
    assert sorted(row["model_version"] for row in rows) == versions
    older = next(row["study"] for row in rows if row["model_version"] == "0.0.9+older")
    dovetail("export", store, "--study", older, "--out", tmp_path / "older.csv")
    assert [row["study"] for row in rows_of(tmp_path / "older.csv")] == [older]


def test_parquet_has_the_same_rows_with_types(dovetail, store, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    dovetail("export", store, "--out", tmp_path / "rows.csv")
    ran = dovetail("export", store, "--out", tmp_path / "rows.parquet")
    assert (ran.returncode, ran.stderr) == (0, "")
    table, rows = parquet.read_table(tmp_path / "rows.parquet"), rows_of(tmp_path / "rows.csv")
    kinds = {field.name: str(field.type) for field in table.schema}
    assert {kinds[name] for name in ("num_tensor", "clock_hz", "memory")} == {"int64", "double", "string"}
    found = table.to_pylist()
    assert [{name: "" if cell is None else str(cell) for name, cell in row.items()} for row in found] == rows


def test_a_file_that_stands_is_kept_and_half_of_one_is_never_left(dovetail, store, tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("mine", encoding="utf-8")
    check_refused(dovetail("export", store, "--out", file), "exists; pass --force")
    assert file.read_text(encoding="utf-8") == "mine"
    content = bytearray(store.read_bytes())
    at = content.rindex(PLAN[:10].encode())
    content[at] ^= 1
    store.write_bytes(content)
    ran = dovetail("export", store, "--out", file, "--force", "--other-versions")
    check_refused(ran, "is damaged: row 1 of study", "--rescue FILE")
    assert file.read_text(encoding="utf-8") == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["designs.db", "rows.csv"]
    saved = dovetail("studies", store, "--rescue", tmp_path / "saved.db", "--json")
    assert sorted(one["num_rows"] - one["num_saved"] for one in json.loads(saved.stdout)["studies"]) == [0, 0, 1]
    assert dovetail("export", tmp_path / "saved.db", "--out", file, "--force", "--other-versions").returncode == 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("studies {root}/README.md", "is not a store"),
        ("studies nowhere.db", "there is no store at 'nowhere.db'"),
        ("studies {root}", "there is no store at"),
        ("studies {store} --study 0123", "no study of"),
        ("studies {store} --study 01 --top 0", "--top must be at least 1"),
        ("studies {store} --top 5", "name it by --study"),
        ("studies {store} --study 01 --rescue new.db", "--rescue saves all studies"),
        ("studies {store} --rescue {store}", "exists; name another"),
        ("studies {store} --rescue nowhere/new.db", "there is no folder 'nowhere'"),
        ("export {store} --out rows.txt", "ends in .csv or .parquet"),
        ("export {store}", "--out"),
        ("export {store} --out nowhere/rows.csv", "there is no folder 'nowhere'"),
        ("mine resnet-18 --batch 2 --store {root}", "--store names a file"),
    ],
)
def test_what_cannot_be_is_refused(dovetail, store, words, reason):
    check_refused(dovetail(*words.format(store=store, root=ROOT).split()), reason)


def test_without_pyarrow_a_parquet_file_is_refused_with_the_way_out(dovetail, store, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    ran = dovetail("export", store, "--out", tmp_path / "rows.parquet")
    check_refused(ran, "pip install 'dovetail-codesign[export]', or name a .csv file")
    assert not (tmp_path / "rows.parquet").exists()
