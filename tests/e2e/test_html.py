"""`--html` of every command that gives an answer: one page, whole, beside the answer itself."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT

MOST_BYTES = 2_000_000
STEP = ("--model", "llama3-8b", "--cluster", "dgx-h100", "--devices", "16", "--global-batch", "64")
RING = ("--topology", "ring:4@50GB/s,500ns")
SMALL = (str(ROOT / "tests" / "e2e" / "few-systems.yaml"),)  # 12 systems: a page is drawn of few as of many
STEP_CHARTS = ("time-by-stage", "elasticities", "memory-by-stage", "roofline")
# Commands and the charts that their pages have.
ANSWERS = {
    "simulate": (
        ("simulate", str(ROOT / "examples" / "mixtral-8x7b-64xh100.yaml")),
        (*STEP_CHARTS, "pipeline", "memory-over-time", "topology", "published-runs"),
    ),
    "plan": (
        ("plan", *STEP, "--fix", "tp=2,4", "--forbid", "context"),
        ("convergence", "plans", "plans-scatter", "published-runs", *STEP_CHARTS),
    ),
    "launch": (("launch", *STEP, "--plan", "ddp", "--framework", "megatron-lm"), ()),
    "op": (("op", "matmul", "512", "512", "512", "--chip", "h100-sxm", "--compare"), ("roofline", "estimates")),
    "network": (("network", "all-reduce", "--size", "1MiB", *RING), ("topology", "chunks")),
    "a sweep": (("network", "all-reduce", "--size", "1MiB..4MiB", *RING), ("time", "bandwidth")),
    "schedule": (("schedule", "bert-base", "--chip", "tpuv2-like"), ("schedule", "held")),
    "codesign": (
        ("codesign", *SMALL),
        ("floorplan", "gains-by-model", "convergence", "systems-by-area", "time-by-stage"),
    ),
    "pareto": (("pareto", *SMALL, "--axes", "throughput,area"), ("front-area",)),
    "mine": (
        ("mine", "resnet-18", "--batch", "8", "--algorithm", "random", "--budget", "20"),
        ("floorplan", "convergence", "designs"),
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
    return re.findall(r'data-chart="([a-z0-9-]+)"', text)


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_a_page_too(dovetail, tmp_path, name):
    words, names = ANSWERS[name]
    file = tmp_path / "page.html"
    told = dovetail(*words, "--html", file)
    assert told.returncode in (0, 1), told.stderr
    text = written(file)
    assert set(names) <= set(charts_of(text)), charts_of(text)
    assert "plotly" not in text
    assert not re.findall(r'(?:src|href)="(?!#)', text), "nothing is fetched"
    told_text = re.sub(r"<(pre|script|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    assert "`" not in told_text, "what is code stands as code"
    assert not set(told_text) & set("▏▎▍▌▋▊▉█"), "bars are drawn, not written"
    assert ("What was asked" in text) == (name not in ("launch", "reproduce"))
    assert f"<code>dovetail {words[0]}" in text
    assert "Made by Dovetail" in text


def test_a_page_of_one_number_shows_it_once(dovetail, tmp_path):
    """A ring is busy all the time, and so are all its links: no bar of the mean beside one of the busiest."""
    file = tmp_path / "page.html"
    assert dovetail("network", "all-reduce", "--size", "1MiB", *RING, "--html", file).returncode == 0
    assert "link-load" not in charts_of(written(file))


def test_the_page_of_a_search_states_its_question_charts_every_model_and_names_its_winner(dovetail, tmp_path):
    file = tmp_path / "page.html"
    text = (ROOT / "tests" / "e2e" / "few-systems.yaml").read_text(encoding="utf-8")
    spec = tmp_path / "two.yaml"
    one = "workload: {model: gpt2-345m, global_batch: 16, seq: 128}"
    assert one in text
    both = f"models:\n  - {one.partition(' ')[2]}\n  - {{model: bert-base, global_batch: 16, seq: 128}}"
    spec.write_text(text.replace(one, both), encoding="utf-8")
    told = dovetail("codesign", spec, "--html", file)
    assert told.returncode == 0, told.stderr
    page = written(file)
    head = page[: page.index("<main>")]
    lead = re.search(r'<p class="lead">(.*?)</p>', head)
    assert lead
    assert re.search(r"\d+ tensor cores of \d+ x \d+", lead[1]), "the winner is decoded at its first mention"
    for words in ("gpt2-345m", "bert-base", "area of one chip at most", "power of one chip at most"):
        assert words in head, words
    names = charts_of(page)
    assert {"time-by-stage", "time-by-stage-2", "memory-over-time", "memory-over-time-2"} <= set(names)
    assert names[0] == "floorplan", "it opens with the system, drawn"
    assert page.index('id="convergence"') > page.index('<details class="fold">'), "proof is folded"


def test_a_front_says_that_its_area_is_of_all_chips(dovetail, tmp_path):
    file = tmp_path / "page.html"
    assert dovetail("pareto", *SMALL, "--axes", "throughput,area", "--html", file).returncode == 0
    page = written(file)
    assert "area of all chips together, mm2" in page
    assert "Area of all chips together" in page


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
