from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import pytest

import dovetail as dv
from dovetail.api.answer import PLOTLY, plain_page, tables_html
from dovetail.api.arguments import as_argument, counted
from dovetail.api.requests.jobs import SimulateRequest
from dovetail.report.table import Table

EVIL = "<script>alert(1)</script>"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Told(dv.Answer):
    """An answer of one table, whatever its words."""

    words: str
    call: str = "dovetail.told()"

    @property
    def headline(self) -> str:
        return self.words

    @property
    def fits(self) -> bool:
        return True

    @property
    def tables(self) -> tuple[Table, ...]:
        cells = ((self.words, "2"),)
        return (Table(title=self.words, columns=(self.words, "n"), rows=cells, align="lr", notes=(self.words,)),)

    @property
    def _record(self) -> dict[str, object]:
        return {"words": self.words}


@pytest.fixture(scope="module")
def answers() -> dict[str, dv.Answer]:
    small: dict[str, Any] = {"model": "gpt2-345m", "cluster": "h100x8", "global_batch": 64}
    ring = "ring:4@50GB/s,500ns"
    return {
        "simulate": dv.simulate(**small, plan={"zero_stage": 1}),
        "plan": dv.plan(**small, top=2),
        "network": dv.network("all-reduce", size="1 MiB", topology=ring),
        "sweep": dv.network("all-reduce", size="1MiB..4MiB", topology=ring),
        "op": dv.op("matmul", 1024, 1024, 1024, chip="h200"),
        "schedule": dv.schedule("bert-base", chip="tpuv2"),
        "launch": dv.launch(**small, plan={"zero_stage": 1}, framework="megatron-lm"),
        "validate": dv.validate("dies"),
    }


def test_every_answer_is_a_frozen_value_that_can_be_read_in_all_ways(answers, tmp_path):
    for name, answer in answers.items():
        assert isinstance(answer, dv.Answer), name
        assert "\n" not in repr(answer), name
        assert repr(answer).startswith(f"<{type(answer).__name__}: "), name
        assert str(answer).count("\n") > 1, name
        assert answer.call.startswith("dovetail."), name
        assert json.loads(json.dumps(answer.record, allow_nan=False)) == answer.record, name
        assert answer.page.sections, name
        answer.to_json(tmp_path / f"{name}.json")
        assert json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8")) == answer.record
        with pytest.raises((FrozenInstanceError, AttributeError)):
            answer.call = "other"  # type: ignore[misc]


def test_a_notebook_gets_tables_as_html_and_charts_as_figures(answers):
    for name, answer in answers.items():
        bundle = answer._repr_mimebundle_()
        assert bundle["text/plain"] == str(answer), name
        assert bundle["text/html"] == answer._repr_html_(), name
        assert (PLOTLY in bundle) == bool(answer.charts), name
    figure = answers["simulate"]._repr_mimebundle_()[PLOTLY]
    assert set(figure) == {"data", "layout"}
    json.dumps(figure, allow_nan=False)


def test_a_page_is_written_and_names_its_call(answers, tmp_path):
    answer = answers["simulate"]
    answer.to_html(tmp_path / "step.html")
    page = (tmp_path / "step.html").read_text(encoding="utf-8")
    assert "dovetail.simulate(model=&#x27;gpt2-345m&#x27;" in page
    assert "<svg" in page
    assert "plotly" not in page
    with pytest.raises(dv.InvalidInput, match=r"a page is written to \.html"):
        answer.to_html(tmp_path / "step.txt")


def test_words_from_files_are_escaped_wherever_an_answer_is_shown_as_html():
    answer = Told(words=EVIL)
    for html in (answer._repr_html_(), answer._repr_mimebundle_()["text/html"], tables_html(answer.tables)):
        assert "<script" not in html
        assert html.count("&lt;script&gt;") == 4
    assert plain_page("so", answer.tables).title == EVIL  # which the page escapes itself


def test_numbers_stand_right_and_words_left():
    html = tables_html(Told(words="x").tables)
    assert html.index("text-align:left") < html.index("text-align:right")


def test_a_call_says_what_was_given_and_leaves_out_what_was_not():
    plan = dv.Plan()
    request = SimulateRequest(model="llama3-8b", cluster={"name": "x"}, plan=plan, seq=None, compute="", devices=3)
    assert request.call == "dovetail.simulate(model='llama3-8b', cluster={'name': 'x'}, devices=3, plan=<Plan>)"


def test_options_become_arguments_in_messages():
    assert as_argument("--global-batch and --pass; a--b stays, -- too") == (
        "global_batch and direction; a--b stays, -- too"
    )


def test_counts_of_other_libraries_are_counts():
    import numpy as np

    assert counted("top", np.int64(3)) == 3
    assert counted("top", None) == 0
    with pytest.raises(dv.InvalidInput, match="top must be a whole number"):
        counted("top", np.float64(3.0))  # type: ignore[arg-type]


def test_a_sweep_has_rows_and_no_single_time(answers):
    sweep = answers["sweep"]
    assert isinstance(sweep, dv.Collective)
    assert [row["size_bytes"] for row in sweep.rows] == sorted(row["size_bytes"] for row in sweep.rows)
    assert len(sweep.rows) == 3
    with pytest.raises(dv.InvalidInput, match=r"a sweep of 3 points, which have each a time_s; see \.rows"):
        _ = sweep.time_s


def test_timelines_are_written_where_there_is_one(answers, tmp_path):
    for name in ("network", "schedule", "simulate"):
        file = tmp_path / f"{name}.pftrace"
        answers[name].to_perfetto(file)
        assert file.stat().st_size > 100, name


def test_a_script_is_printed_as_it_is_and_written(answers, tmp_path):
    script = answers["launch"]
    assert isinstance(script, dv.LaunchScript)
    assert str(script) == script.text
    script.to_file(tmp_path / "run.sh")
    assert (tmp_path / "run.sh").read_text(encoding="utf-8") == script.text


def test_catalogues_go_through_names_and_render():
    models = dv.models()
    assert "llama3-70b" in models
    assert len(models) == len(list(models)) == len(models.record["models"])
    assert "llama3-70b" in models._repr_html_()
    assert repr(dv.clusters()).startswith("<Catalogue: ")
    assert {"h100-sxm"} < set(dv.chips())
    assert len(dv.plans())
    assert {"1f1b", "all-reduce", "ring", "exact"} < set(dv.methods())
    assert "matmul" in dv.operator_kinds()


def test_a_collective_says_what_it_follows_from():
    inputs = dv.network("all-reduce", size="1 MiB", topology="ring:4@50GB/s,500ns", slow="2-3=0.5").inputs
    assert (inputs["asked"]["size"], inputs["asked"]["slow"]) == ("1 MiB", "2-3=0.5")
    [parts] = inputs["networks"].values()
    assert [part["num_devices"] for part in parts] == [4]
