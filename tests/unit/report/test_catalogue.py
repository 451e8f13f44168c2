from __future__ import annotations

import json

import pytest

from dovetail.hardware.catalog import chips
from dovetail.hardware.clusters import clusters
from dovetail.parallel.recipes import plans
from dovetail.report.catalogue import chip_record, cluster_record, model_record, plan_entry_record, source_of
from dovetail.report.catalogue_tables import entry_tables
from dovetail.report.plain import Record
from dovetail.report.table import WIDTH, text_of
from dovetail.workload.models import models

ENTRIES = [
    (kind, name)
    for kind, registry in (("model", models), ("chip", chips), ("cluster", clusters), ("plan", plans))
    for name in registry.names()
]


def entry_record(kind: str, name: str) -> Record:
    if kind == "model":
        return model_record(models[name]())
    if kind == "chip":
        return chip_record(chips[name]())
    if kind == "cluster":
        return cluster_record(clusters[name].build(clusters[name].default_devices), clusters[name].summary)
    return plan_entry_record(name, plans[name])


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_every_entry_of_every_catalogue_can_be_shown_in_eighty_columns(kind, name):
    record = entry_record(kind, name)
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    told = text_of(entry_tables(record))
    assert told.startswith(f"{kind} {name}")
    assert max(len(line) for line in told.splitlines()) <= WIDTH


def test_every_figure_of_a_chip_comes_with_a_source():
    figures = {figure["figure"]: figure for figure in chip_record(chips["h100-sxm"]())["figures"]}
    assert figures["hbm.bandwidth_bytes_per_s"]["value"] == 3.35e12
    assert [path for path, figure in figures.items() if not figure["source"]] == []


def test_a_figure_without_its_own_source_has_that_of_its_part():
    sources = {"tensor": "a datasheet", "tensor.tile": "an estimate"}
    assert source_of("tensor.num_units", sources) == "a datasheet"
    assert source_of("tensor.tile", sources) == "an estimate"
    assert source_of("hbm.capacity_bytes", sources) == ""


def test_the_blocks_of_a_model_hold_all_its_parameters_and_flop():
    record = model_record(models["llama3-8b"]())
    assert sum(b["repeat"] * b["num_parameters"] for b in record["blocks"]) == record["num_parameters"]
    assert sum(b["repeat"] * b["training_flop"] for b in record["blocks"]) == pytest.approx(record["model_flop"])
    assert record["config"]["hidden"] == 4096


@pytest.mark.parametrize("name", models.names())
def test_a_configuration_is_shown_in_words(name):
    told = text_of(entry_tables(entry_record("model", name)))
    assert "{" not in told
    assert "by default" in told


def test_a_plan_that_fills_the_cluster_takes_any_number_of_copies():
    told = text_of(entry_tables(entry_record("plan", "zero3")))
    assert any(line.split() == ["data_parallel", "any"] for line in told.splitlines())
