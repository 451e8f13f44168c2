from __future__ import annotations

import sys

import pytest

import dovetail as dv
from dovetail.errors import InvalidInput

QUESTIONS = {
    "simulate": lambda: dv.simulate(model="llama3-8b", cluster="h100x8", plan="zero3"),
    "compare": lambda: dv.compare("h100x8", "h200x8", model="llama3-8b", plan="zero3"),
    "sweep": lambda: dv.sweep(model="llama3-8b", cluster="h100x8", plan="zero3", over={"workload.seq": [4096, 8192]}),
    "network": lambda: dv.network("all-reduce", size="1MiB", topology="ring:4@50GB/s,1us"),
    "op": lambda: dv.op("matmul", 64, 64, 64, chip="h200"),
}


@pytest.fixture(params=QUESTIONS)
def answer(request):
    return QUESTIONS[request.param]()


def test_an_answer_is_loaded_as_it_was_saved(answer, tmp_path):
    answer.save(tmp_path / "answer.json")
    loaded = dv.load(tmp_path / "answer.json")
    assert (loaded.record, loaded.tables, loaded.rows) == (answer.record, answer.tables, answer.rows)
    assert (str(loaded), loaded.headline, loaded.fits) == (str(answer), answer.headline, answer.fits)
    assert loaded == answer
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "answer.json").read_bytes()


def test_figures_of_a_loaded_answer_have_their_names(tmp_path):
    answer = QUESTIONS["simulate"]()
    answer.save(tmp_path / "answer.json")
    loaded = dv.load(tmp_path / "answer.json")
    assert loaded.step_s == answer.record["step_s"]
    with pytest.raises(AttributeError, match="did you mean step_s"):
        _ = loaded.step_ss


@pytest.mark.parametrize("text", ["", "[]", '{"format": "other"}', '{"format": "dovetail-answer-1"}'])
def test_what_is_no_saved_answer_is_refused(text, tmp_path):
    (tmp_path / "answer.json").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"is no saved answer|is damaged"):
        dv.load(tmp_path / "answer.json")


def test_a_frame_has_a_row_for_each_job_and_a_column_for_each_figure():
    pd = pytest.importorskip("pandas")
    frame = QUESTIONS["compare"]().to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == 2
    assert (frame["step_s"] > 0).all()
    assert len(QUESTIONS["simulate"]().to_frame()) == 1


def test_without_pandas_a_frame_is_refused_in_a_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InvalidInput, match=r"^to_frame needs pandas; install it: pip install pandas$"):
        QUESTIONS["op"]().to_frame()


def test_plot_takes_the_name_of_a_chart():
    answer = QUESTIONS["compare"]()
    assert answer.plot() is not None
    assert answer.plot("memory-by-job").name == "memory-by-job"
    assert answer.plot()._repr_svg_().startswith("<svg")
    with pytest.raises(InvalidInput, match="did you mean memory-by-job"):
        answer.plot("memory-by-jobs")


def test_compare_and_sweep_have_charts():
    assert {chart.name for chart in QUESTIONS["compare"]().charts} >= {"time-by-job", "memory-by-job"}
    assert len(QUESTIONS["sweep"]().charts) > 2
