"""The fuzzer finds what it should: it breaks every input, counts how each case ends, and takes a fault for one."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from random import Random

import pytest

from benchmarks.bar import REPOSITORY
from benchmarks.fuzz.__main__ import joined
from benchmarks.fuzz.case import Case, seed
from benchmarks.fuzz.changes import broken
from benchmarks.fuzz.child import LIMIT_BYTES, Ended, run
from benchmarks.fuzz.inputs import inputs
from benchmarks.fuzz.stores import turned
from benchmarks.fuzz.texts import changed_bytes
from benchmarks.fuzz.trees import changed_tree, parsed, turned_tree, written
from benchmarks.fuzz.verdict import finding, is_cut_short
from benchmarks.fuzz.wires import encoded
from benchmarks.fuzz.wires import parsed as message_of
from dovetail.files.protobuf import bytes_field, number_field

CAN_FORK = pytest.mark.skipif(sys.platform != "linux", reason="cases are forked, which only Linux does well")
CHEAP = ("config", "csv", "et", "network", "profile")
NUM_CASES = 2  # of each, and `make fuzz` tries thousands
SPEC = b"workload: {model: gpt2-345m, global_batch: 8}\ncluster: {name: dgx-h100, devices: 8}\nplan: zero3\n"


def ended(code=0, stdout="an answer\n", stderr="", cpu_s=0.1, peak_bytes=10**8):
    return Ended(code=code, stdout=stdout, stderr=stderr, cpu_s=cpu_s, peak_bytes=peak_bytes)


def fuzzed(tmp_path, *names):
    """A record for each input, after a few cases of each: no input may be a finding, and no seed be refused."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.fuzz",
        *names,
        "--cases",
        str(NUM_CASES),
        "--json",
        "--folder",
        tmp_path,
    ]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(REPOSITORY / "src"), str(REPOSITORY)))}
    ran = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(ran.stdout)
    assert [one["name"] for one in found] == list(names)
    for one in found:
        assert one["cases"] == one["answered"] + one["refused"] + one["cut_short"] == NUM_CASES
        assert one["findings"] == []
        assert 0 < one["peak_bytes"] < LIMIT_BYTES
    return found


@CAN_FORK
def test_quick_inputs_are_broken_and_answered_or_refused(tmp_path):
    found = fuzzed(tmp_path, *CHEAP)
    assert sum(one["refused"] for one in found) > NUM_CASES  # what is broken is noticed


@CAN_FORK
@pytest.mark.slow
def test_all_other_inputs_are_broken_and_answered_or_refused(tmp_path):
    pytest.importorskip("onnx", reason="onnx is not installed: pip install 'dovetail-codesign[onnx]'")
    pytest.importorskip(
        "transformers", reason="transformers is not installed: pip install 'dovetail-codesign[transformers]'"
    )
    pytest.importorskip("optuna", reason="optuna is not installed: pip install 'dovetail-codesign[search]'")
    fuzzed(tmp_path, *(name for name in inputs.names() if name not in CHEAP))


@CAN_FORK
def test_a_case_runs_as_the_command_would_and_leaves_nothing(tmp_path):
    case = Case(files={"spec.yaml": SPEC}, arguments=("simulate", "spec.yaml", "--json"))
    told = run(case)
    assert (told.code, told.stderr) == (0, "")
    assert json.loads(told.stdout)["feasible"]
    assert told.peak_bytes > 10**7
    refused = run(Case(files={"spec.yaml": SPEC + b"plan: zero3\n"}, arguments=("simulate", "spec.yaml")))
    assert refused.code == 2
    own_bytes = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # a fork starts with what this process holds
    assert finding(replace(refused, peak_bytes=max(0, refused.peak_bytes - own_bytes)), ("simulate",)) is None


TRACEBACK = (
    'Traceback (most recent call last):\n  File "/x/dovetail/units.py", line 7, in f\nKeyError: 1\ndovetail: the lines'
)


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ({"code": 70, "stderr": TRACEBACK}, "traceback"),
        ({"code": 70, "stderr": TRACEBACK.replace("KeyError: 1", "MemoryError")}, "memory"),
        ({"peak_bytes": LIMIT_BYTES + 1}, "memory"),
        ({"code": -24}, "hang"),
        ({"code": -14}, "stuck"),
        ({"code": -11}, "crash"),
        ({"code": 3}, "exit code"),
        ({"stdout": ""}, "no answer"),
        ({"stdout": '{"step_s": NaN}'}, "no JSON"),
        ({"stderr": "x.py:1: RuntimeWarning: overflow"}, "leak"),
        ({"code": 2, "stderr": ""}, "not one line"),
        ({"code": 2, "stderr": "dovetail: a\nb\n"}, "not one line"),
        ({"code": 2, "stderr": "dovetail: a\ndovetail: b\n"}, "not one line"),
        ({"code": 2, "stderr": "a\n"}, "not one line"),
        ({"code": 2, "stderr": "dovetail: KeyError: 1, which starts again\ndovetail: b\n"}, "leak"),
        ({"code": 2, "stderr": "dovetail: KeyError: 'x'\n"}, "leak"),
        ({"code": 2, "stderr": "dovetail: got <class 'int'>\n"}, "leak"),
        ({"code": 2, "stderr": f"dovetail: {'x' * 3000}\n"}, "unreadable"),
    ],
)
def test_what_ends_badly_is_a_finding(how, kind):
    found = finding(ended(**how), ("simulate", "--json"))
    assert found is not None
    assert found.kind == kind


@pytest.mark.parametrize("words", [("reproduce", "phaze", "--json"), ("reproduce", "wham")])
def test_long_work_that_a_changed_word_named_is_cut_short_and_no_hang(words):
    over = ended(code=-signal.SIGXCPU, stdout="")
    assert is_cut_short(over, words)
    assert finding(over, words) is None
    assert not is_cut_short(ended(), words)
    assert not is_cut_short(over, ("reproduce", "phaze-dp"))
    found = finding(ended(code=70, stderr=TRACEBACK), words)
    assert found is not None
    assert found.kind == "traceback"


def test_tracebacks_at_one_place_are_one_finding():
    one, other = (finding(ended(code=70, stderr=TRACEBACK), words) for words in (("simulate",), ("plan",)))
    assert one is not None
    assert one == other
    assert one.where == "units.py:7 f: KeyError: 1"


@pytest.mark.parametrize(
    "how",
    [
        {"stdout": "{}"},
        {"code": 1, "stdout": "{}"},
        {"code": 2, "stderr": "dovetail: no model is named 'x' (spec.yaml:1)\n"},
        {"code": 2, "stderr": "dovetail: building X raises KeyError: 'y'\n"},  # other people's code, and named so
        {"code": 2, "stderr": "dovetail: this is 0.1.0, which starts again: a\ndovetail: s.db is damaged\n"},
    ],
)
def test_an_answer_and_one_clear_line_are_none(how):
    assert finding(ended(**how), ("simulate", "--json")) is None


def test_the_same_seed_gives_the_same_cases_and_most_are_not_the_seed():
    seeds = (seed({"spec.yaml": SPEC}, "simulate spec.yaml"), seed({"spec.yaml": SPEC}, "plan spec.yaml"))
    cases = [[broken(seeds[0], seeds, Random(number)) for number in range(100)] for _ in range(2)]
    assert cases[0] == cases[1]
    assert sum(case.files["spec.yaml"] == SPEC for case in cases[0]) < 10
    assert len({case.files["spec.yaml"] for case in cases[0]}) > 80


def test_a_tree_is_changed_in_one_place_and_written_as_what_it_was():
    tree = {"a": [1, {"b": "2 GB"}], "c": None}
    data = written(tree, is_json=False)
    assert parsed(data, is_json=False) == tree == parsed(written(tree, is_json=True), is_json=True)
    others = [json.dumps(changed_tree(parsed(data, is_json=False), (), Random(number))) for number in range(200)]
    assert len(set(others)) > 100
    assert parsed(data, is_json=False) == tree  # what was parsed is kept, and every case has a copy


def test_a_tree_is_turned_without_a_type_that_changes():
    tree = {"a": [1, 2.5], "c": {"d": "2 GB", "e": True, "f": "word"}}
    turned = [
        turned_tree(parsed(written(tree, is_json=True), is_json=True), (), Random(number)) for number in range(300)
    ]
    for one in turned:
        assert {type(item) for item in one["a"]} <= {int, float}
        assert one["c"]["d"].endswith(" GB")
        assert isinstance(one["c"]["e"], bool)
    assert len({json.dumps(one) for one in turned}) > 60


def test_what_no_tree_can_hold_is_written_into_its_place():
    assert written({"a": "@deep-list@"}, is_json=True).startswith(b'{"a": [[[[')
    assert b"'@" not in written({"a": "@digits@"}, is_json=False)


def test_messages_are_taken_apart_and_put_together_again():
    inner = number_field(1, 300) + bytes_field(2, b"name")
    whole = bytes_field(7, inner) + number_field(8, 2**63)
    assert encoded(message_of(whole)) == whole
    assert [field.number for field in message_of(whole)] == [7, 8]
    assert isinstance(message_of(whole)[0].value, list)


def test_bytes_are_changed_whatever_they_are():
    assert {changed_bytes(b"", (), Random(number)) for number in range(20)} - {b""}
    assert all(changed_bytes(b"x", (b"", b"y"), Random(number)) is not None for number in range(200))


def test_every_input_says_what_it_reads_and_has_a_file_of_its_own():
    files = {file.stem for file in (REPOSITORY / "benchmarks" / "fuzz" / "inputs").glob("*.py")} - {"__init__"}
    assert set(inputs.names()) == files
    assert all(inputs[name].reads for name in files)


def test_an_unknown_input_is_refused(capsys):
    from benchmarks.fuzz.__main__ import main

    with pytest.raises(SystemExit):
        main(["spce"])
    assert "no input is named spce; known: built, captured," in capsys.readouterr().err


def test_a_finding_is_kept_with_its_files_and_command(tmp_path):
    from benchmarks.fuzz.runs import Tally, _count

    tally = Tally(name="spec", seed=1)
    case = Case(files={"spec.yaml": SPEC}, arguments=("simulate", "spec.yaml"))
    for _ in range(2):
        _count(tally, case, ended(code=70, stderr=TRACEBACK), tmp_path)
    [found] = tally.findings
    assert (found.count, found.command) == (2, "dovetail simulate spec.yaml")
    folder = tmp_path / found.folder
    assert (folder / "spec.yaml").read_bytes() == SPEC
    assert (folder / "command.txt").read_text(encoding="utf-8").startswith("dovetail simulate spec.yaml\n")


def test_a_text_too_deep_to_be_read_is_left_as_it_is():
    deep = "[" * 100_000 + "]" * 100_000
    assert turned(deep, Random(1)) == deep
    assert turned("[1, 2]", Random(1)) != "[1, 2]"


def test_a_finding_stands_until_its_seed_is_run_again_without_it():
    def seen(seed, *folders):
        return {"name": "csv", "seed": seed, "findings": [{"folder": folder} for folder in folders]}

    first = joined([], [seen(1, "csv-1-7")])
    other = joined(list(first.values()), [seen(2)])
    assert other["csv"] == seen(2, "csv-1-7")
    assert joined(list(other.values()), [seen(1)])["csv"] == seen(1)
