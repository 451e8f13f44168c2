"""`--html` of every command that gives an answer: one page, whole, beside the answer itself."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT

MOST_BYTES = 6_000_000
STEP = ("--model", "llama3-8b", "--cluster", "dgx-h100", "--devices", "16", "--global-batch", "64")
RING = ("--topology", "ring:4@50GB/s,500ns")
SMALL = (str(ROOT / "tests" / "e2e" / "few-systems.yaml"),)  # 12 systems: a page is drawn of few as of many
STEP_CHARTS = ("time-by-stage", "elasticities", "memory-by-stage", "roofline")
# Commands and the charts that their pages have.
ANSWERS = {
    "simulate": (("simulate", str(ROOT / "examples" / "mixtral-8x7b-64xh100.yaml")), (*STEP_CHARTS, "pipeline")),
    "plan": (("plan", *STEP, "--fix", "tp=2,4", "--forbid", "context"), ("convergence", "plans", *STEP_CHARTS)),
    "launch": (("launch", *STEP, "--plan", "ddp", "--framework", "megatron-lm"), ()),
    "op": (("op", "matmul", "512", "512", "512", "--chip", "h100-sxm", "--compare"), ("roofline", "estimates")),
    "network": (("network", "all-reduce", "--size", "1MiB", *RING), ("link-load",)),
    "a sweep": (("network", "all-reduce", "--size", "1MiB..4MiB", *RING), ("time", "bandwidth")),
    "schedule": (("schedule", "bert-base", "--chip", "tpuv2-like"), ("schedule", "held")),
    "codesign": (("codesign", *SMALL), ("convergence", "systems-by-area")),
    "pareto": (("pareto", *SMALL, "--axes", "throughput,area"), ("front-area",)),
    "mine": (
        ("mine", "resnet-18", "--batch", "8", "--algorithm", "random", "--budget", "20"),
        ("convergence", "designs"),
    ),
    "validate": (("validate", "dies"), ("set-errors", "measured-mm2")),
    "reproduce": (("reproduce", "phaze-dp"), ("beside-paper",)),
}


def written(file: Path) -> str:
    assert file.stat().st_size < MOST_BYTES
    text = file.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert text.endswith("</html>\n")
    return text


def charts_of(text: str) -> list[str]:
    return re.findall(r'data-chart="([a-z0-9-]+)-data"', text)


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_a_page_too(dovetail, tmp_path, name):
    words, names = ANSWERS[name]
    file = tmp_path / "page.html"
    told = dovetail(*words, "--html", file)
    assert told.returncode in (0, 1), told.stderr
    text = written(file)
    assert set(names) <= set(charts_of(text)), charts_of(text)
    assert ("plotly.js" in text) == bool(names)
    assert text.count("* plotly.js v") == (1 if names else 0)
    assert f"<code>dovetail {words[0]}" in text
    assert "Made by Dovetail" in text


def test_the_answer_itself_stays_as_it_is(dovetail, tmp_path):
    file = tmp_path / "page.html"
    words = ("simulate", *STEP, "--plan", "ddp")
    plain, beside = dovetail(*words), dovetail(*words, "--html", file)
    assert beside.stdout == f"{plain.stdout}\nreport: {file}\n"
    as_json = dovetail(*words, "--json", "--html", file)
    assert json.loads(as_json.stdout) == json.loads(dovetail(*words, "--json").stdout)


def test_a_plan_that_does_not_fit_has_a_page(dovetail, tmp_path):
    file = tmp_path / "page.html"
    words = ("simulate", "--model", "llama3-70b", "--cluster", "dgx-h100", "--devices", "8", "--plan", "ddp")
    told = dovetail(*words, "--html", file)
    assert told.returncode == 1
    assert charts_of(written(file)) == ["memory-by-stage"]


def test_traces_and_stores_have_pages(dovetail, tmp_path):
    prefix = tmp_path / "run"
    assert dovetail("network", "all-gather", "--size", "1MiB", *RING, "--astra-sim", prefix).returncode == 0
    file = tmp_path / "trace.html"
    words = ("--topology", f"{prefix}.network.yml", "--system", f"{prefix}.system.json")
    assert dovetail("trace", "run", prefix, *words, "--html", file).returncode == 0
    assert charts_of(written(file)) == ["ranks", "critical-path", "link-load"]
    store = tmp_path / "studies.db"
    assert dovetail("mine", *ANSWERS["mine"][0][1:], "--store", store).returncode == 0
    assert dovetail("studies", store, "--html", file).returncode == 0
    assert "mine" in written(file)
    [study] = json.loads(dovetail("studies", store, "--json").stdout)["studies"]
    assert dovetail("studies", store, "--study", study["study"], "--html", file).returncode == 0
    assert charts_of(written(file)) == ["best-rows"]


def test_names_of_the_user_are_words_on_the_page(dovetail, tmp_path):
    name = "</script><img src=x onerror=alert(1)>"
    spec = tmp_path / "spec.yaml"
    text = (ROOT / "examples" / "my-cluster.yaml").read_text(encoding="utf-8")
    spec.write_text(text.replace("name: h100-large", f'name: "{name}"'), encoding="utf-8")
    file = tmp_path / "page.html"
    assert dovetail("simulate", spec, "--html", file).returncode == 0
    page = written(file)
    assert "<img" not in page
    assert "&lt;/script&gt;&lt;img src=x" in page


@pytest.mark.parametrize(
    ("file", "words"),
    [("page.txt", "a page is written to .html"), ("none/page.html", "there is no folder"), ("", "is empty")],
)
def test_a_page_that_cannot_be_written_is_refused_before_any_work(dovetail, tmp_path, file, words):
    told = dovetail("simulate", *STEP, "--plan", "ddp", "--html", str(tmp_path / file) if file else "")
    assert told.returncode == 2
    assert words in told.stderr
    assert told.stdout == ""
