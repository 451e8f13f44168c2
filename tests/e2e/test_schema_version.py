"""Every answer for programs says which version its keys are of."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import dovetail as dv
from dovetail.cli.grouping import SECTIONS
from dovetail.report.plain import SCHEMA_KEY, SCHEMA_VERSION, versioned
from tests.e2e.conftest import ROOT
from tests.e2e.test_reference import ANSWERS

COMMANDS = {name for names in SECTIONS.values() for name in names}
CHIPS = """
workload: {model: gpt2-345m, global_batch: 16, seq: 128}
devices: 4
chip: {num_tensor: [1, 4], num_rows: 128, num_cols: [64, 256], num_vector: 2, num_lanes: 128,
       sram_mib: 32, hbm_stacks: [2, 4], stack_gib: 8}
"""
ASKED = (  # beside what tests/e2e/test_reference.py asks for its keys
    "op list",
    "mine resnet-18 --batch 2 --algorithm random --budget 4 --store STORE",
    "codesign CHIPS --store STORE",
    "pareto CHIPS",
    "studies STORE",
    "studies STORE --rescue SAVED",
    "export STORE --out ROWS",
    "show examples/my-cluster.yaml",
    "calibrate --runs examples/nemo-runs-dgx-h100.csv --out FITTED",
    "completion bash",
    "--version",
    "simulate nowhere.yaml",
    "simulate --no-such-option",
)
# Each has its JSON tested where there is what it reads; a server, a recorder and a study of minutes do not start here.
ELSEWHERE = {"trace", "reproduce", "ui", "measure"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("schema")
    (folder / "chips.yaml").write_text(CHIPS, encoding="utf-8")
    names = {
        "STORE": "kept.db",
        "SAVED": "saved.db",
        "ROWS": "rows.csv",
        "FITTED": "fitted.yaml",
        "CHIPS": "chips.yaml",
    }
    return {word: str(folder / name) for word, name in names.items()}


@pytest.mark.parametrize("words", ASKED)
def test_json_begins_with_the_version_of_its_keys(dovetail, files, words):
    ran = dovetail(*(files.get(word, word) for word in words.split()), "--json")
    said = json.loads(ran.stdout)
    assert next(iter(said)) == SCHEMA_KEY
    assert said[SCHEMA_KEY] == SCHEMA_VERSION
    assert len(said) > 1
    assert ("error" in said) == ("no" in words), ran.stderr


def test_every_command_is_asked():
    asked = {words.split()[0] for words in ASKED} | {words[0] for words in ANSWERS}
    assert asked - {"--version"} | ELSEWHERE == COMMANDS


def test_no_command_writes_json_past_the_one_function_that_versions_it():
    """`show_json` of cli/screen.py; --version has its own line, so that it need not import tables."""
    writers = set()
    for file in sorted((ROOT / "src" / "dovetail" / "cli").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in ("dumps", "dump"):
                writers.add(file.name)
    assert writers == {"screen.py", "commands.py"}


def test_answers_of_the_api_and_their_files_say_it_too(tmp_path: Path):
    answer = dv.op("matmul", 8, 8, 8, chip="h100-sxm")
    assert next(iter(answer.record)) == SCHEMA_KEY
    answer.to_json(tmp_path / "op.json")
    assert json.loads((tmp_path / "op.json").read_text(encoding="utf-8")) == answer.record
    assert dv.models().record[SCHEMA_KEY] == dv.show("h100-sxm").record[SCHEMA_KEY] == SCHEMA_VERSION


def test_a_record_that_was_read_back_says_the_version_of_who_writes_it():
    assert list(versioned({"a": 1, SCHEMA_KEY: 1}).items()) == [(SCHEMA_KEY, SCHEMA_VERSION), ("a", 1)]


def test_the_page_tells_of_this_version():
    page = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    stated = " ".join(page.partition("`schema_version`")[2].partition("\n\n")[0].split())
    assert f"; {SCHEMA_VERSION} since " in stated
