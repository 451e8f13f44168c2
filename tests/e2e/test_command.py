"""The command itself: it starts fast, speaks plainly when piped, and ends well when interrupted or not read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from dovetail import __version__
from dovetail.store.version import PLUGINS, model_version, physics_version
from tests.e2e.conftest import ROOT, TIMEOUT_S, environment

HEAVY = ("numpy", "pydantic", "yaml", "rich", "numba")
SPEC = "examples/llama3-70b-512xh100.yaml"
LISTING = """
import json, sys
from dovetail.cli import main
main([sys.argv[1]])
print(json.dumps(sorted(sys.modules)))
"""


TYPERS = ("pydantic",)  # which Typer reads options by, from 0.29 on


@pytest.mark.parametrize(("word", "allowed"), [("--help", ()), ("--version", TYPERS)])
def test_help_and_version_import_nothing_heavy(word, allowed):
    ran = subprocess.run(
        [sys.executable, "-c", LISTING, word], cwd=ROOT, env=environment(), capture_output=True, text=True, check=True
    )
    modules = json.loads(ran.stdout.splitlines()[-1])
    assert "typer" in modules
    assert [name for name in modules if name.partition(".")[0] in {*HEAVY} - {*allowed}] == []


def test_no_command_is_a_question_about_commands(started):
    ran = started()
    assert ran.returncode == 0
    assert ran.stdout == started("--help").stdout


def test_the_version_is_the_packages_and_that_of_the_model(started):
    message = f"dovetail {__version__} (model {model_version()}, physics {physics_version()})\n"
    assert started("--version").stdout == message
    assert started("--version", "models").stdout == message


def test_a_plugin_is_part_of_the_version_of_the_model(dovetail):
    ran = dovetail("--version", "--json", "--plugin", "examples/plugins/chip.py")
    said = json.loads(ran.stdout)
    assert said["version"] == __version__
    assert said["model_version"].startswith(f"{model_version()}{PLUGINS}")
    assert json.loads(dovetail("--json", "--version").stdout)["model_version"] == model_version()


def test_json_before_a_command_is_refused(dovetail):
    ran = dovetail("--json", "models")
    assert ran.returncode == 2
    assert "put it after the command's name" in ran.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [(f"simulate {SPEC} --json", 0), ("simulate examples/llama3-70b-512xh100.yaml --plan zero3", 1),
     ("simulate nowhere.yaml", 2), ("models", 0), ("simulate --help", 0)],
)  # fmt: skip
def test_a_forked_command_answers_as_a_started_one_does(dovetail, started, words, code):
    forked, alone = (run(*words.split(), COLUMNS="70") for run in (dovetail, started))
    assert forked.returncode == alone.returncode == code
    assert (forked.stdout, forked.stderr) == (alone.stdout, alone.stderr)


def test_a_command_leaves_nothing_to_the_next(dovetail):
    first = dovetail("simulate", SPEC)
    assert dovetail("simulate", SPEC, "--plan", "zero3", NO_COLOR="1", COLUMNS="60").stdout != first.stdout
    assert dovetail("simulate", SPEC).stdout == first.stdout


@pytest.mark.parametrize("arguments", [("models", "--json"), ("simulate", SPEC), ("--help",)], ids=" ".join)
def test_a_reader_that_leaves_is_no_error(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        [sys.executable, "-m", "dovetail", *arguments],
        cwd=ROOT,
        env=environment(),
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (process.returncode, process.stderr) == (0, b"")


INTERRUPTED = """
import sys
import dovetail.evaluate
def evaluate(*_):
    raise KeyboardInterrupt
dovetail.evaluate.evaluate = evaluate
from dovetail.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_an_interrupt_ends_with_130_and_one_line():
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, "simulate", SPEC],
        cwd=ROOT, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "dovetail: interrupted\n")


POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals, shells and /dev are POSIX")
SLOW_TYPER = """
import sys, time
print("importing", flush=True)
try:
    time.sleep(60)
except KeyboardInterrupt:  # as code further down does, when it tries one module and then another
    pass
"""


@POSIX
def test_an_interrupt_while_modules_are_imported_ends_with_130_and_one_line(tmp_path):
    (tmp_path / "typer.py").write_text(SLOW_TYPER, encoding="utf-8")
    path = os.pathsep.join((str(tmp_path), environment()["PYTHONPATH"]))
    with subprocess.Popen(
        [sys.executable, "-m", "dovetail", "--help"], cwd=ROOT, env=environment() | {"PYTHONPATH": path},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # a shell's background jobs, and what they start, ignore interrupts unless told otherwise
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, told) == (130, "dovetail: interrupted\n")


def shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f'"$PYTHON" -m dovetail {line}'], cwd=ROOT, env=environment() | {"PYTHON": sys.executable},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@POSIX
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has a full disk to write to")
@pytest.mark.parametrize("words", [f"simulate {SPEC}", f"simulate {SPEC} --json", "models", "--help", "--version"])
def test_a_full_disk_is_told_in_one_line_and_has_a_code_of_its_own(words):
    ran = shell(f"{words} > /dev/full")
    assert (ran.returncode, ran.stderr) == (74, "dovetail: cannot write the answer: No space left on device\n")


@POSIX
@pytest.mark.parametrize("words", [f"simulate {SPEC}", "--help"])
def test_a_closed_standard_output_is_told_in_one_line(words):
    ran = shell(f"{words} >&-")
    assert (ran.returncode, ran.stderr) == (74, "dovetail: cannot write the answer: standard output is closed\n")


@POSIX
@pytest.mark.parametrize("end", ["2>&-", "2>/dev/full"])
def test_bad_input_is_bad_input_even_where_nobody_can_be_told(end):
    ran = shell(f"simulate --seq 0 {end}")
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", "")


BROKEN = """
import sys
import dovetail.evaluate
def evaluate(*_):
    raise ZeroDivisionError("the state that led here")
dovetail.evaluate.evaluate = evaluate
from dovetail.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_mistake_of_ours_ends_with_its_traceback_and_70():
    ran = subprocess.run(
        [sys.executable, "-c", BROKEN, "simulate", SPEC],
        cwd=ROOT, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (70, "")
    *_, last, ours = ran.stderr.splitlines()
    assert ran.stderr.startswith("Traceback")
    assert last == "ZeroDivisionError: the state that led here"
    assert ours.startswith("dovetail: the lines above are a mistake of ours")


def test_every_exit_code_is_in_the_help(dovetail):
    message = " ".join(dovetail("--help").stdout.split())
    assert all(f" {code} " in message for code in (0, 1, 2, 70, 74, 130))


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX")
@pytest.mark.parametrize(
    ("changes", "options", "has_colour"),
    [
        ({}, (), True),
        ({"NO_COLOR": "1"}, (), False),
        ({"TERM": "dumb"}, (), False),
        ({"CLICOLOR": "0"}, (), False),
        ({}, ("--no-color",), False),
    ],
)
def test_colour_is_for_terminals_that_want_it(changes, options, has_colour):
    import pty

    main_end, other_end = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "dovetail", "simulate", SPEC, *options],
        cwd=ROOT, env=environment() | {"TERM": "xterm-256color", "COLUMNS": "100"} | changes, stdout=other_end,
    ) as process:  # fmt: skip
        os.close(other_end)
        shown = _everything(main_end)
    assert process.returncode == 0
    assert (b"\x1b[" in shown) is has_colour
    assert b"llama3-70b on 512 x h100-sxm" in shown


def _everything(descriptor: int) -> bytes:
    shown = b""
    while True:
        try:
            part = os.read(descriptor, 4096)
        except OSError:  # Linux says so when the other end is gone
            part = b""
        if not part:
            os.close(descriptor)
            return shown
        shown += part
