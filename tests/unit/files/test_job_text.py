"""A system that a search found, written as a spec: what reads it predicts the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from dovetail.cost.area import silicon
from dovetail.cost.inventory import inventory
from dovetail.cost.price import price
from dovetail.errors import NotModelled
from dovetail.evaluate import Outcome, evaluate
from dovetail.files.chip import load_chip
from dovetail.files.job import load_spec
from dovetail.files.job_text import chip_entries, job_text, model_entries, workload_entries
from dovetail.files.value_formats import entries_of, yaml_lines
from dovetail.hardware.catalog import chips
from dovetail.hardware.heterogeneous import chips_of
from dovetail.search.codesign.answers import answer_of, chip_of
from dovetail.search.codesign.joint import joint_search, local_backend
from dovetail.search.codesign.scoring import Scorer
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.routing import Routing
from dovetail.workload.transformer import Transformer
from tests.codesign_questions import question, workload

EXACT = 1e-9
ODD = {
    "num_tensor": (3,), "num_rows": (64,), "num_lanes": (96,), "sram_mib": (24,), "hbm_stacks": (3,),
    "stack_gib": (12,), "link_gb_per_s": (170,), "clock_mhz": (930,),
}  # fmt: skip


@pytest.mark.parametrize("endpoint", [1, 2, 3])
@pytest.mark.parametrize(
    ("base", "case", "network"), [("tpuv4-like", "tied", "torus"), ("tpuv2-like", "experts", "flat")]
)
def test_a_system_and_its_plan_are_taken_back_to_the_last_digit(tmp_path, base, case, network, endpoint):
    asked = question((case,), ODD | {"endpoint": (endpoint,)}, base=base, network=network)
    found = joint_search(Scorer(asked), local_backend(Scorer(asked)))
    assert found is not None
    best = answer_of(asked, found.best)
    cluster = asked.network(chip_of(asked, best), best.num_devices)
    file = tmp_path / "best.yaml"
    file.write_text(job_text("a 'best' one", asked.cases[0].workload, cluster, best.cases[0].plan, ("told",)))
    job = load_spec(str(file))
    assert job.plan == best.cases[0].plan
    outcome = evaluate(job.workload, job.cluster, job.plan)
    assert isinstance(outcome, Outcome)
    assert outcome.step.step_s == pytest.approx(best.cases[0].step_s, rel=EXACT)
    assert outcome.step.energy_j == pytest.approx(best.cases[0].energy_j, rel=EXACT)
    [chip] = chips_of(job.cluster)
    assert silicon(inventory(chip)).total_mm2 == pytest.approx(best.area_mm2, rel=EXACT)
    assert chip.tdp_w == pytest.approx(best.power_w, rel=EXACT)
    assert price(chip).total_usd == pytest.approx(best.price_usd, rel=EXACT)


@pytest.mark.parametrize("name", chips.names())
def test_every_chip_of_the_catalogue_is_written_and_read_alike(tmp_path, name):
    chip, file = chips[name](), tmp_path / "chip.yaml"
    file.write_text("\n".join(yaml_lines(chip_entries(chip))))
    read = load_chip(str(file))
    alike = replace(read, sources=chip.sources, facts=chip.facts, energy=chip.energy, calibration=chip.calibration)
    assert alike == chip
    assert read.energy.idle_w == pytest.approx(chip.energy.idle_w, rel=EXACT)
    assert replace(read.energy, idle_w=0.0) == replace(chip.energy, idle_w=0.0)
    assert replace(read.calibration, fitted_on="") == replace(chip.calibration, fitted_on="")


def test_a_model_is_named_only_where_the_catalogue_has_the_same():
    model = models["gpt2-345m"]()
    assert model_entries(model) == "gpt2-345m"
    assert isinstance(model.architecture, Transformer)
    words = model_entries(replace(model, architecture=replace(model.architecture, num_layers=3)))
    assert isinstance(words, dict)
    assert words["num_layers"] == 3
    other = models["resnet-18"]()
    with pytest.raises(NotModelled, match="no transformer"):
        model_entries(replace(other, batch=3))


@pytest.mark.parametrize("case", ["dense", "tied", "experts", "vision"])
def test_a_workload_is_taken_back_with_its_numbers_and_routing(tmp_path, case):
    asked = replace(workload(case), precision=Precision(compute="fp8"), kernels="eager")
    if case == "experts":
        asked = replace(asked, routing=Routing(expert_imbalance=1.3, capacity_factor=1.5))
    file = tmp_path / "spec.yaml"
    spec = {"workload": workload_entries(asked), "cluster": {"name": "dgx-h100", "devices": 8}, "plan": "ddp"}
    file.write_text("\n".join(yaml_lines(spec)))
    read = load_spec(str(file)).workload
    same = replace(
        read.model,
        **{
            name: getattr(asked.model, name)
            for name in ("source", "published_parameters", "is_exact", "family", "notes")
        },
    )
    assert replace(read, model=same) == asked


def test_yaml_reads_what_is_written_as_it_was():
    words = {
        "a": {"b": [1, 2.5, True, "it's"], "empty": {}},
        "tiny": 1e-12,
        "rows": [{"x": 1, "y": [[1, 2]]}, {"x": 2}],
    }
    assert yaml.safe_load("\n".join(yaml_lines(words))) == words
    assert entries_of(Routing())["pads_to_capacity"] is False
