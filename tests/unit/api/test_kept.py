"""`dv.show`, `dv.studies` and `dv.reproduce` say what their commands print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dovetail as dv
from dovetail.api.reproduced import Reproduction
from dovetail.api.requests.evidence import ReproduceRequest
from dovetail.cli import main
from dovetail.report.plain import versioned
from dovetail.report.table import text_of

ROOT = Path(__file__).resolve().parents[3]
WHAM_RUN = ROOT / "benchmarks" / "results" / "wham.json"  # `dovetail reproduce wham --json`


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("kept") / "kept.db"
    dv.mine("bert-base", batch=4, algorithm="random", budget=6, store=file)
    return file


@pytest.mark.parametrize("name", ["h100-sxm", "dgx-h100", "llama3-8b", str(ROOT / "examples" / "my-cluster.yaml")])
def test_an_entry_is_what_the_command_shows(name, capsys):
    found = dv.show(name)
    main(["show", name, "--json"])
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(found.record))
    main(["show", name])
    assert capsys.readouterr().out.split() == str(found).split() == text_of(found.tables).split()
    assert "<table>" in found._repr_html_()


def test_a_kind_that_no_catalogue_has_is_said_by_the_arguments_name():
    with pytest.raises(dv.InvalidInput, match=r"no catalogue is of kind 'chp'; did you mean chip.*\(kind\)"):
        dv.show("h100-sxm", kind="chp")


def test_the_studies_of_a_store_are_what_the_command_lists(store, capsys, tmp_path):
    found = dv.studies(store)
    [key] = found
    main(["studies", str(store), "--json"])
    assert json.loads(capsys.readouterr().out) == found.record
    one = dv.studies(store, study=key[:4], top=2)
    main(["studies", str(store), "--study", key[:4], "--top", "2", "--json"])
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(one.record))
    assert len(found) == len(one) == 1
    one.to_html(tmp_path / "one.html")
    assert key in (tmp_path / "one.html").read_text(encoding="utf-8")
    with pytest.raises(dv.InvalidInput, match="top is of the rows of one study; name it by study"):
        dv.studies(store, top=2)


def test_a_reproduction_is_an_answer_with_the_commands_tables(tmp_path):
    record = json.loads(WHAM_RUN.read_text(encoding="utf-8"))
    found = Reproduction(request=ReproduceRequest(paper="wham"), found=record)
    assert found.fits == record["holds"]
    assert found.record == versioned(record)
    assert found.figures == {}
    found.to_html(tmp_path / "wham.html")
    assert "WHAM" in str(found)


def test_a_reproduction_runs_what_the_command_runs_and_tells_how_far_it_is():
    told: list[dv.Progress] = []
    found = dv.reproduce("phaze", model="bert-large", quick=True, progress=told.append)
    assert found.fits
    assert found.record["paper"] == "PHAZE"
    assert [now.num_done for now in told] == [0, 1, 2]  # one mapper, the other
    assert found.call == "dovetail.reproduce(paper='phaze', model=('bert-large',), quick=True)"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"paper": "acee"}, "did you mean ace"),
        ({"paper": "ace", "quick": True}, "model and quick belong to phaze and wham"),
        ({"paper": "wham", "refit": True}, "wham has tables alone; pass modern_chips, refit and figures with ace"),
        ({"paper": "ace", "modern_chips": True, "refit": True}, "modern_chips is a separate table"),
    ],
)
def test_what_a_paper_has_not_is_refused_by_the_arguments_names(said, told):
    with pytest.raises(dv.InvalidInput, match=told):
        dv.reproduce(**said)


@pytest.mark.parametrize(
    ("ranks", "told"),
    [
        ("x", r"ranks are written 0-3 or 0,2; got 'x' \(ranks\)"),
        ((99_999,), r"ranks are devices, 0 to 7; got 99999 \(ranks\)"),
        ((-1,), "from 0 on; got -1"),
        ((1.5,), "from 0 on; got 1.5"),
        (5, "numbers of devices"),
    ],
)
def test_ranks_that_are_none_are_refused_in_one_line_by_the_arguments_name(ranks, told, tmp_path):
    step = dv.simulate(model="gpt2-345m", cluster="h100x8", global_batch=64, plan={"zero_stage": 1})
    with pytest.raises(dv.InvalidInput, match=told):
        step.to_perfetto(tmp_path / "step.pftrace", ranks=ranks)
    ring = dv.network("all-reduce", size="1 MiB", topology="ring:8@50GB/s,500ns")
    with pytest.raises(dv.InvalidInput, match=told.replace("ranks are devices, 0 to", "the network has devices 0 to")):
        ring.to_perfetto(tmp_path / "ring.pftrace", ranks=ranks)


def test_ranks_may_be_written_as_the_command_line_has_them(tmp_path):
    step = dv.simulate(model="gpt2-345m", cluster="h100x8", global_batch=64, plan={"zero_stage": 1})
    step.to_perfetto(tmp_path / "a.pftrace", ranks="0-1")
    step.to_perfetto(tmp_path / "b.pftrace", ranks=(0, 1))
    assert (tmp_path / "a.pftrace").read_bytes() == (tmp_path / "b.pftrace").read_bytes()
