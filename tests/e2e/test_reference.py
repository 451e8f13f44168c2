"""Generated pages say what the command says today: the command reference, the keys of its JSON, and the picture."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from dovetail.cli.grouping import SECTIONS
from dovetail.report.plain import SCHEMA_KEY, SCHEMA_VERSION
from tests.e2e.conftest import ROOT, environment
from tests.e2e.recorded import check_recorded

COMMANDS = tuple(name for names in SECTIONS.values() for name in names)
SPEC = "examples/llama3-70b-512xh100.yaml"
PROFILE = "examples/llama-2-layers-h200.json.gz"
SMALL = (
    "--model",
    "llama3-8b",
    "--cluster",
    "dgx-h100",
    "--devices",
    "8",
    "--global-batch",
    "8",
    "--fix",
    "zero_stage=1",
)
INTRODUCTION = """# The command

Generated from `--help` by `make bless`; do not edit. `dovetail COMMAND --help` explains arguments, defaults, examples
and exit codes. Keys are listed for [spec files](spec-file.md) and [JSON](json.md).

Answers go to standard output, everything else to standard error. Tables fit 80 columns. Progress bars and colour appear
on terminals only; `--no-color`, `NO_COLOR` or `CLICOLOR=0` disables colour, `CLICOLOR_FORCE=1` forces it.
`dovetail completion` completes commands, options and catalogue names in a shell.

Reports of an answer (`--html`, `--plot`, `--perfetto`, `--csv`) are overwritten. Specs, plans, chips, launch scripts
and captured models are overwritten with `--force` only.
"""


ON_JOBS = ("simulate", "compare", "sweep", "plan", "launch")  # commands on a model, a cluster and a plan
ANSWER_OPTIONS = ("--html", "--json")  # of the answer, not of the job
OPTION_LINE = re.compile(r"^  (-[^\n]*?)  +(\S[^\n]*(?:\n {10,}\S[^\n]*)*)", re.MULTILINE)


def options_in(help_text: str) -> list[tuple[str, str]]:
    """The options of a command as `--help` has them, each with what it says."""
    section = help_text.partition("\nOptions:\n")[2].partition("\n\n")[0]
    found = OPTION_LINE.findall(re.sub(r"^(  -\S[^\n]*?)\n {10,}", r"\1  ", section, flags=re.MULTILINE))
    return [(" ".join(option.split()), " ".join(words.split())) for option, words in found]


def command_page(helps: dict[str, str]) -> str:
    """Every command with what it does and its options; those of all commands, and those of a job, are named once."""
    named = {
        name: [re.findall(r"--[a-z][\w-]*", option) for option, _ in options_in(text)] for name, text in helps.items()
    }
    flat = {name: [option for options in found for option in options] for name, found in named.items()}
    shared = [option for option in flat["dovetail simulate"] if all(option in found for found in flat.values())]
    of_job = [option for option in flat["dovetail simulate"] if all(option in flat[f"dovetail {on}"] for on in ON_JOBS)]
    of_job = [option for option in of_job if option not in shared and option not in ANSWER_OPTIONS]
    parts = [INTRODUCTION, f"Every command takes {_listed(shared)}.\n", f"Job options are {_listed(of_job)}.\n"]
    for name, help_text in helps.items():
        usage = help_text.partition("\n")[0].removeprefix("Usage: ")
        summary = " ".join(help_text.split("\n\n")[1].split())
        is_job = name.removeprefix("dovetail ") in ON_JOBS
        own = [option for option in flat[name] if option not in shared and not (is_job and option in of_job)]
        listed = f"{'Job options, ' if is_job else ''}{_listed(own)}"
        parts.append(f"## {name}\n\n`{usage}`: {summary}\n" + (f"\n{listed}\n" if listed else ""))
    return "\n".join(parts)


def _listed(options: list[str]) -> str:
    return ", ".join(f"`{option}`" for option in options)


def test_the_command_reference_is_what_help_says(dovetail, bless):
    helps = {}
    for words in ((), *((command,) for command in COMMANDS), ("trace", "run"), ("trace", "import")):
        helps[" ".join(("dovetail", *words))] = dovetail(*words, "--help").stdout
    page = command_page(helps)
    listed = [option for text in helps.values() for option, _ in options_in(text)]
    sections = [text.partition("\nOptions:\n")[2] for text in helps.values()]
    assert len(listed) == sum(len(re.findall(r"^  -", text, re.MULTILINE)) for text in sections)
    check_recorded(ROOT / "docs" / "reference" / "cli.md", page, bless)


def test_every_command_is_in_the_reference(dovetail):
    shown = dovetail("--help").stdout.partition("Predict:")[2].partition("Examples:")[0]
    assert tuple(re.findall(r"^  (\w+)  ", shown, re.MULTILINE)) == COMMANDS


def keys(value):
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from keys(item)


ANSWERS = (
    ("simulate", SPEC),
    ("simulate", SPEC, "--plan", "zero3"),
    ("simulate", SPEC, "--price", "2 $/h", "--tokens", "1T"),
    ("compare", SPEC, "--plan", "tp=8,pp=4", "--plan", "tp=3", "--price", "2 $/h", "--tokens", "1T"),
    ("sweep", SPEC, "--over", "plan.tp=4,8"),
    ("plan", *SMALL, "--top", "3"),
    ("plan", *SMALL, "--model", "llama3-70b"),
    ("launch", SPEC, "--framework", "deepspeed"),
    ("models",),
    ("chips",),
    ("clusters",),
    ("plans",),
    ("methods",),
    ("show", "llama3-8b"),
    ("show", "h100-sxm"),
    ("show", "dgx-h100"),
    ("show", "zero3"),
    ("capture", "examples/capture/my_model.py:decoder", "--out", "decoder.json", "--force"),
    ("validate", "array-sims"),
    ("validate", "--profile", PROFILE),
    ("simulate", *SMALL[:-2], "--cluster", "dgx-h200", "--plan", "zero3", "--profile", PROFILE),
    ("op", "matmul", "8", "8", "8", "--chip", "tpu-v4", "--compare"),
    ("mine", "resnet-18", "--batch", "2", "--algorithm", "random", "--budget", "20"),
    ("mine", "resnet-18", "--batch", "2", "--area", "100 mm2"),
    ("mine", "bert-large", "--batch", "64"),
    ("schedule", "resnet-18", "--chip", "tpuv2-like", "--block", "stem"),
    ("network", "all-reduce", "--size", "1MiB", "--topology", "ring:4@50GB/s,1us"),
    ("network", "all-reduce", "--size", "1MiB..2MiB", "--topology", "ring:4@50GB/s,1us"),
)


@pytest.mark.parametrize("arguments", ANSWERS, ids=" ".join)
def test_every_key_of_the_json_is_documented_and_the_first_is_their_version(dovetail, arguments, tmp_path):
    page = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    words = [tmp_path / word if word == "decoder.json" else word for word in arguments]
    said = json.loads(dovetail(*words, "--json").stdout)
    assert next(iter(said.items())) == (SCHEMA_KEY, SCHEMA_VERSION)
    if arguments[0] == "show":
        said = {key: value for key, value in said.items() if key != "config"}  # one's own words for each architecture
    dtypes = {"bf16", "fp16", "fp8", "int8", "tf32", "fp32", "fp64", "fp4", "int4", "fp6"}
    undocumented = {key for key in keys(said) if f"`{key}`" not in page} - dtypes
    assert undocumented == set()


def test_the_picture_shows_what_simulate_says(bless):
    ran = subprocess.run(
        [sys.executable, "docs/images/simulate_svg.py"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    check_recorded(ROOT / "docs" / "images" / "simulate.svg", ran.stdout, bless)


TUTORIAL = (ROOT / "docs" / "tutorial" / "first-prediction.md").read_text(encoding="utf-8")


def test_the_change_that_the_tutorial_makes_is_one_that_fits(dovetail):
    [words] = re.findall(r"^\$ dovetail (.+ --seq 32768 .+?)(?: \| head -\d+)?$", TUTORIAL, re.MULTILINE)
    [spec] = re.findall(r'title="mine.yaml"\n(.+?)```', TUTORIAL, re.DOTALL)
    changed = re.findall(r"^  (\w+: \d+) +# was", spec, re.MULTILINE)
    levers = json.loads(dovetail(*words.split(), "--json").stdout)["levers"]
    first = next(lever for lever in levers if lever["fits"])
    assert sorted(changed) == sorted(re.split(", | and ", first["change"]))
