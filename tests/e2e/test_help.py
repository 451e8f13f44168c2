"""What every command has: examples that run, JSON, a manner, help and tables that fit 80 columns, and completion."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from dovetail.cli.commands import command
from dovetail.cli.examples import EXAMPLES
from dovetail.cli.grouping import SECTIONS
from tests.e2e.conftest import ROOT, TIMEOUT_S, environment
from tests.e2e.warm import CAN_FORK, Warm

WIDTH = 80
SCRIPTS = ("dovetail launch", "dovetail completion")  # what they print is for other programs to read
NO_JSON = {"dovetail", "dovetail trace"}  # groups, which answer nothing themselves


def commands(found: Any = None, path: str = "dovetail") -> Iterator[tuple[str, Any]]:
    found = found or command()
    yield path, found
    for name, below in getattr(found, "commands", {}).items():
        yield from commands(below, f"{path} {name}")


COMMANDS = dict(commands())
QUICK = [(path, one.line) for path, some in EXAMPLES.items() for one in some if one.is_quick and ">" not in one.line]
EVERY = [(path, one.line) for path, some in EXAMPLES.items() for one in some]


def test_every_command_has_examples_and_no_other_has():
    assert set(EXAMPLES) == set(COMMANDS)
    assert all(EXAMPLES.values())
    assert all(one.line.startswith(path) for path, some in EXAMPLES.items() for one in some if path != "dovetail")


def test_every_command_is_in_a_section_of_the_help():
    names = [name for some in SECTIONS.values() for name in some]
    assert len(names) == len(set(names))
    assert {path.split()[1] for path in COMMANDS if path.count(" ") == 1} == set(names)


@pytest.mark.parametrize("path", [path for path in COMMANDS if path not in NO_JSON])
def test_every_command_has_json(path):
    assert any("--json" in param.opts for param in COMMANDS[path].params)


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_takes_its_manner(path):
    options = {word for param in COMMANDS[path].params for word in param.opts}
    assert {"--quiet", "-q", "--verbose", "-v", "--no-color"} <= options


@pytest.mark.parametrize("path", COMMANDS)
def test_help_fits_80_columns_and_shows_the_examples(dovetail, path):
    shown = dovetail(*path.split()[1:], "--help", COLUMNS="200").stdout
    assert [line for line in shown.splitlines() if len(line) > WIDTH] == []
    joined = re.sub(r" \\\n +", " ", shown)
    assert [one.line for one in EXAMPLES[path] if one.line not in joined] == []


def test_no_summary_of_a_command_is_cut_short(dovetail):
    for path in ("dovetail", "dovetail trace"):
        assert "..." not in re.sub(r"(Usage: .*|\[ARGS\]\.\.\.)", "", dovetail(*path.split()[1:], "--help").stdout)


@pytest.mark.parametrize(("path", "line"), EVERY, ids=[line for _, line in EVERY])
def test_every_example_is_understood(path, line):
    """Its options and arguments are the command's: those are read, and nothing is run."""
    words = shlex.split(re.split(" >>? ", line)[0])[1:]
    found, used = command(), path.split()[1:] if path != "dovetail" else words[:1]
    for name in used:
        found = found.commands[name]
    with found.make_context(" ".join(used), words[len(used) :]):
        pass


@pytest.fixture(scope="module")
def in_a_folder(tmp_path_factory):
    """Runs commands in a folder of their own that has the examples in it, as one would unpack them."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "examples").symlink_to(ROOT / "examples")
    if not CAN_FORK:
        pytest.skip("only forks answer at once")
    with Warm(folder, environment(), TIMEOUT_S) as warm:
        yield lambda *words: warm.run(words, environment() | {"COLUMNS": str(WIDTH)})


def test_quick_examples_answer_within_80_columns(in_a_folder):
    """In their order, as later ones read what earlier ones write."""
    for path, line in QUICK:
        ran = in_a_folder(*shlex.split(line)[1:])
        assert (ran.returncode, ran.stderr) == (0, ""), f"{line}: {ran.stderr}"
        long = [words for words in ran.stdout.splitlines() if len(words) > WIDTH]
        if not path.startswith(SCRIPTS) and "--json" not in line:
            assert long == [], line
        if "--json" in line:  # of every command: test_schema_version.py
            json.loads(ran.stdout)


SPEC = "examples/llama3-70b-512xh100.yaml"


@pytest.mark.parametrize("words", [("-q", "simulate", SPEC), ("simulate", SPEC, "--quiet")], ids=" ".join)
def test_quiet_leaves_figures_alone_wherever_it_stands(dovetail, words):
    ran = dovetail(*words)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "step time" in ran.stdout
    assert "What this assumes" not in ran.stdout
    assert "what bounds compute" not in ran.stdout


@pytest.mark.parametrize("words", [("-v", "simulate", SPEC), ("simulate", SPEC, "--verbose")], ids=" ".join)
def test_verbose_says_versions_files_and_times_wherever_it_stands(dovetail, words):
    ran, plain = dovetail(*words), dovetail("simulate", SPEC)
    assert ran.stdout == plain.stdout
    assert plain.stderr == ""
    told = ran.stderr.splitlines()
    assert all(line.startswith("dovetail: ") for line in told)
    assert told[0].startswith("dovetail: model ")
    assert any(line.startswith(f"dovetail: read {SPEC}, ") for line in told)
    assert told[-1].startswith("dovetail: done in ")


def test_quiet_and_verbose_together_are_refused(dovetail):
    ran = dovetail("-q", "models", "-v")
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1].startswith("dovetail: --quiet and --verbose exclude each other")


def completed(words: str, **changes: str) -> list[str]:
    said = environment() | {"_DOVETAIL_COMPLETE": "complete_bash", "COMP_WORDS": words} | changes
    said["COMP_CWORD"] = str(len(words.split(" ")) - 1)
    ran = subprocess.run(
        [sys.executable, "-m", "dovetail"], cwd=ROOT, env=said, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("dovetail si", ["simulate"]),
        ("dovetail simulate --model llama3", ["llama3-405b", "llama3-70b", "llama3-8b"]),
        ("dovetail simulate --cluster dgx-h", ["dgx-h100", "dgx-h200"]),
        ("dovetail simulate --plan zer", ["zero1", "zero2", "zero3"]),
        ("dovetail op matmul --chip h10", ["h100-pcie", "h100-sxm"]),
        ("dovetail show mixt", ["mixtral-8x7b"]),
        ("dovetail plan --obj", ["--objective"]),
        ("dovetail plan --objective tokens/J", ["tokens/J"]),
        ("dovetail trace r", ["run"]),
        ("dovetail trace run x --engine a", ["astra-sim"]),
        ("dovetail completion f", ["fish"]),
        ("dovetail mine --dask d", []),
    ],
)
def test_a_shell_is_told_what_may_stand_at_the_cursor(words, expected):
    assert completed(words) == expected


IMPORTED = """
import json, os, sys
from dovetail.cli import main
main([])
print(json.dumps([name for name in sys.modules if name.partition(".")[0] in ("numpy", "yaml", "numba")]))
"""


def test_completion_imports_nothing_heavy():
    said = environment() | {"_DOVETAIL_COMPLETE": "complete_bash", "COMP_WORDS": "dovetail show ", "COMP_CWORD": "2"}
    ran = subprocess.run(
        [sys.executable, "-c", IMPORTED], cwd=ROOT, env=said, capture_output=True, text=True, check=True
    )
    *names, modules = ran.stdout.splitlines()
    assert "h100-sxm" in names
    assert json.loads(modules) == []


@pytest.mark.skipif(sys.platform == "win32" or not os.path.exists("/bin/bash"), reason="no bash")
def test_bash_completes_by_the_script(tmp_path):
    """The script that is printed, read by a real bash that calls a real command."""
    program = tmp_path / "dovetail"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dovetail "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    asked = """
eval "$(dovetail completion bash)"
COMP_WORDS=(dovetail show gaud) COMP_CWORD=2
$(complete -p dovetail | sed 's/.*-F \\([^ ]*\\) .*/\\1/') dovetail
echo "${COMPREPLY[@]}"
"""
    said = environment() | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(
        ["/bin/bash", "--norc", "-c", asked], cwd=ROOT, env=said, capture_output=True, text=True, check=False
    )
    assert (ran.stdout.split(), ran.stderr) == (["gaudi2", "gaudi2-nodes", "gaudi3", "gaudi3-nodes"], "")


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.out.txt")), ids=lambda file: file.name)
def test_recorded_answers_fit_80_columns(file):
    lines = file.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > WIDTH] == []


def test_what_launch_says_of_a_file_it_wrote_fits_80_columns(dovetail, tmp_path):
    words = ("launch", "examples/my-cluster.yaml", "--framework", "torchtitan", "--out", tmp_path / "run.toml")
    shown = dovetail(*words).stdout.splitlines()
    assert len(shown) > 2
    assert [line for line in shown if len(line) > WIDTH and str(tmp_path) not in line] == []
