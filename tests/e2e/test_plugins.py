"""`--plugin FILE` on every command: what it brings can be named, what is wrong with it is one line, workers have it."""

from __future__ import annotations

import json
import re
from textwrap import dedent

import pytest

from dovetail.cli.commands import command
from dovetail.cli.process import EXIT_BAD_INPUT
from tests.e2e.conftest import ROOT
from tests.messages import holds
from tests.pages import File, steps
from tests.plugin_sources import COST, MODEL

PLUGINS = sorted((ROOT / "examples" / "plugins").glob("*.py"))
METRIC = """
    from dovetail.search.metrics import Metric, metrics

    def step_s(figures):
        return figures.step_s

    metrics.register("step")(Metric(loss=step_s, figure=step_s, unit="s", loss_unit="s", summary="a step"))
"""


# What the page of each addition has the reader save, and where it is then listed and used: with --plugin, the same.
ADDITIONS = {
    "collective": ("methods", "network all-reduce --size 64MiB --topology switch:8@50GB/s,1us --algorithm star"),
    "pipeline-schedule": ("methods", "plan slow.yaml --fix tp=1 --fix pp=8 --fix schedule=1f1b,eager-1f1b --limit 1"),
    "search-algorithm": ("methods", "mine resnet-18 --batch 2 --algorithm hill --budget 10 --workers 2"),
}

# And where it is a file of a catalogue: used by its path, nothing is registered.
FILED = {
    "chip": "op matmul 8192 8192 8192 --chip",
    "model": "simulate --cluster dgx-h100 --devices 16 --plan zero3 --model",
}


def commands(file):
    """What an example says one can type, as words."""
    page = file.read_text(encoding="utf-8").partition('"""')[2].partition('"""')[0].replace("\\\\\n", " ")
    return [re.findall(r'"[^"]*"|\S+', line) for line in page.splitlines() if line.strip().startswith("dovetail ")]


@pytest.mark.parametrize("words", [words for file in PLUGINS for words in commands(file)], ids=" ".join)
def test_every_command_of_an_example_answers(dovetail, words):
    ran = dovetail(*(word.strip('"') for word in words[1:]))
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""


def test_there_is_an_example_of_each_and_it_says_how_it_is_used():
    assert [file.stem for file in PLUGINS] == ["chip", "collective", "model", "operator_cost"]
    assert all(commands(file) for file in PLUGINS)


@pytest.mark.parametrize("what", ADDITIONS)
def test_what_a_page_adds_as_one_file_is_one_file_as_a_plugin_too(dovetail, tmp_path, what):
    page = (ROOT / "docs" / "howto" / f"add-a-{what}.md").read_text(encoding="utf-8")
    first, *others = (step for step in steps(page) if isinstance(step, File))
    assert first.name.startswith("src/dovetail/")
    for file in (first, *others):
        (tmp_path / file.name.rpartition("/")[2]).write_text(file.text, encoding="utf-8")
    plugin = tmp_path / first.name.rpartition("/")[2]
    name = re.findall(r"""^@?\w+\.register\("([^"]+)"\)""", first.text, re.MULTILINE)[0]
    listing, use = ADDITIONS[what]
    ran = dovetail(listing, "--json", "--plugin", plugin)
    assert name in {entry["name"] for entry in json.loads(ran.stdout)[listing]}, ran.stderr
    words = [str(tmp_path / word) if word == "slow.yaml" else word for word in use.split()]
    used = dovetail(*words, "--plugin", plugin)
    assert (used.returncode, used.stderr) == (0, "")
    assert dovetail(*words).returncode == EXIT_BAD_INPUT  # without it nobody knows the name


@pytest.mark.parametrize("what", FILED)
def test_what_a_page_adds_to_a_catalogue_is_used_by_its_path_too(dovetail, tmp_path, what):
    page = (ROOT / "docs" / "howto" / f"add-a-{what}.md").read_text(encoding="utf-8")
    file = next(step for step in steps(page) if isinstance(step, File))
    path = tmp_path / file.name.rpartition("/")[2]
    path.write_text(file.text, encoding="utf-8")
    used = dovetail(*FILED[what].split(), path)
    assert (used.returncode, used.stderr) == (0, "")
    assert dovetail(*FILED[what].split(), path.stem).returncode == EXIT_BAD_INPUT  # nobody knows the name


def test_methods_say_which_plugin_they_are_of(dovetail):
    ran = dovetail("methods", "--json", "--plugin", "examples/plugins/collective.py")
    owners = {(entry["kind"], entry["name"]): entry["plugin"] for entry in json.loads(ran.stdout)["methods"]}
    assert (
        owners["collective", "halo"] == owners["collective algorithm", "both-ways"] == "examples/plugins/collective.py"
    )
    assert owners["pipeline schedule", "1f1b"] == ""


def test_every_command_takes_plugins():
    def without(group):
        for name, below in getattr(group, "commands", {}).items():
            yield from without(below)
            if "--plugin" not in {word for param in below.params for word in param.opts}:
                yield name

    assert list(without(command())) == []


@pytest.mark.parametrize("is_before", [True, False])
def test_a_plugin_is_named_before_the_command_or_after_it_and_lasts_as_long(dovetail, is_before):
    named = ("--plugin", "examples/plugins/chip.py")
    ran = dovetail(*named, "chips", "--json") if is_before else dovetail("chips", "--json", *named, *named)
    assert "h200-hbm4" in {chip["name"] for chip in json.loads(ran.stdout)["chips"]}
    assert "h200-hbm4" not in dovetail("chips", "--json").stdout


def test_a_closed_form_and_the_events_of_a_plugin_agree(dovetail):
    for kind in ("bidirectional-ring", "switch", "fully-connected"):
        words = ("network", "halo", "--size", "16MiB", "--topology", f"{kind}:8@50GB/s,1us", "--json")
        named = ("--plugin", "examples/plugins/collective.py")
        closed, events = (
            json.loads(dovetail(*words, *more, *named).stdout)["time_s"]
            for more in (("--engine", "closed"), ("--algorithm", "both-ways"))
        )
        assert closed == pytest.approx(events)


def test_workers_have_the_plugin_and_a_changed_one_is_another_study(dovetail, tmp_path):
    file, store = tmp_path / "mine.py", tmp_path / "kept.db"
    file.write_text(dedent(MODEL) + dedent(METRIC), encoding="utf-8")
    words = ("mine", "tiny", "--metric", "step", "--budget", "40", "--json", "--plugin", file)
    alone, shared = dovetail(*words), dovetail(*words, "--workers", "2", "--store", store)
    assert shared.returncode == 0, shared.stderr
    assert json.loads(shared.stdout) == json.loads(alone.stdout)
    again = dovetail(*words, "--store", store)
    assert again.stderr == ""
    file.write_text(file.read_text(encoding="utf-8") + "# another word\n", encoding="utf-8")
    changed = dovetail(*words, "--store", store)
    assert holds(changed.stderr, "40 rows", "plugins")
    studies = json.loads(dovetail("studies", store, "--json", "--plugin", file).stdout)["studies"]
    assert [study["num_rows"] for study in studies] == [40, 40]
    assert len({study["model_version"] for study in studies}) == 2


def test_a_worker_says_what_a_plugin_raised_there(dovetail, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(dedent(MODEL) + dedent(METRIC).replace("return figures.step_s", "return figures.nothing"))
    ran = dovetail("mine", "tiny", "--metric", "step", "--budget", "40", "--workers", "2", "--plugin", file)
    assert ran.returncode == EXIT_BAD_INPUT
    assert re.search(r"^dovetail: step_s of the plugin raises AttributeError: .*mine\.py:\d+\)$", ran.stderr)


@pytest.mark.parametrize(
    "words",
    [
        ("mine", "bert-large", "--base", "tpuv4-like"),
        ("schedule", "bert-large", "--chip", "tpuv4-like"),
        ("codesign", "gpt2-1.5b"),
        ("pareto", "gpt2-1.5b"),
    ],
    ids=lambda words: words[0],
)
def test_what_would_need_to_know_more_of_a_cost_than_its_values_refuses_it(dovetail, tmp_path, words):
    file = tmp_path / "mine.py"
    file.write_text(dedent(COST).format(name="layernorm", seconds=0.001), encoding="utf-8")
    ran = dovetail(*words, "--plugin", file)
    assert ran.returncode == EXIT_BAD_INPUT
    assert "nothing is known of the cost of layernorm but its values" in ran.stderr
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "source", "told"),
    [
        ("none.py", None, "there is no file"),
        ("mine.txt", "x = 1", "a plugin is a Python file, its name ends in .py; got"),
        ("mine.py", "x = 1", "this plugin registers nothing"),
        ("mine.py", "import nothing_like_it", "mine.py:1)"),
    ],
)
def test_what_is_no_plugin_is_told_in_one_line(dovetail, tmp_path, name, source, told):
    file = tmp_path / name
    if source is not None:
        file.write_text(source, encoding="utf-8")
    ran = dovetail("models", "--json", "--plugin", file)
    assert ran.returncode == EXIT_BAD_INPUT
    assert told in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert told in json.loads(ran.stdout)["error"]


def test_no_spec_can_name_a_plugin(dovetail, tmp_path):
    file, spec = tmp_path / "mine.py", tmp_path / "spec.yaml"
    file.write_text("open('ran', 'w')", encoding="utf-8")
    words = f"plugin: {file}\nworkload: gpt2-1.5b\ncluster: dgx-h100\nplan: auto\n"
    for text in (
        words,
        words.replace("plugin:", "plugins:"),
        words.replace("workload: gpt2-1.5b", f"workload: {file}"),
    ):
        spec.write_text(text, encoding="utf-8")
        ran = dovetail("simulate", spec)
        assert ran.returncode == EXIT_BAD_INPUT
        assert ran.stderr.count("\n") == 1
    assert not (tmp_path / "ran").exists()
