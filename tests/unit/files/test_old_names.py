"""Names that were changed since 0.1 are still read: in specs, plans, results of `validate --json`, and on commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dovetail.api.requests.evidence import ReproduceRequest
from dovetail.api.requests.searches import CodesignRequest
from dovetail.errors import InvalidInput
from dovetail.files.heterogeneous_cluster import load_any_cluster
from dovetail.files.job import load_spec
from dovetail.files.schema import shape_of
from dovetail.files.validation_results import load_results
from dovetail.hardware.chip import Calibration, EnergyCosts
from dovetail.hardware.heterogeneous import HeterogeneousCluster
from dovetail.workload.experts import Experts
from dovetail.workload.latent import LatentAttention

SPEC = """
workload:
  model: {model}
  global_batch: 64
  precision: {{{precision}}}
  routing: {{{routing}}}
cluster: {{name: dgx-h100, devices: 8}}
plan: {{zero_stage: 1, {plan}}}
"""
MIXED = """
name: mixed
{key}: [{{name: dgx-h100, devices: 8}}, {{name: dgx-a100, devices: 8}}]
between: {{bandwidth: 25 GB/s, latency: 8 us}}
"""
PRECISIONS = [
    ("standing_gradients: false", "persistent_gradients: false"),
    ("current_scales: true, compute: fp8", "recipe: current, compute: fp8"),
    ("current_scaling: true, compute: fp8", "recipe: current, compute: fp8"),
    ("adds_apart: true", "unfused_accumulation: true"),
    ("casts_at_use: true, weights: fp32", "autocast_weights: true, weights: fp32"),
]


def spec(folder: Path, *, precision: str = "compute: bf16", routing: str = "", plan: str = "microbatch: 1") -> Path:
    file = folder / "spec.yaml"
    text = SPEC.format(model="mixtral-8x7b", precision=precision, routing=routing or "expert_imbalance: 1", plan=plan)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(("old", "new"), PRECISIONS)
def test_a_precision_in_old_keys_is_the_one_in_new_keys(tmp_path: Path, old: str, new: str) -> None:
    was = load_spec(spec(tmp_path, precision=old)).workload.precision
    now = load_spec(spec(tmp_path, precision=new)).workload.precision
    assert was == now
    assert was != load_spec(spec(tmp_path)).workload.precision


def test_a_routing_and_a_plan_in_old_keys_are_read(tmp_path: Path) -> None:
    job = load_spec(spec(tmp_path, routing="capacity_factor: 1.25, pads: true", plan="sends_once: true"))
    assert job.workload.routing.pads_to_capacity
    assert job.plan.dispatcher == "deepep"
    assert load_spec(spec(tmp_path, plan="deduplicated_dispatch: false")).plan.dispatcher == "all-to-all"


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        (Experts, {"num_chosen": 2}, {"num_experts_per_token": 2}),
        (LatentAttention, {"plain_width": 16}, {"nope_width": 16}),
        (Calibration, {"exchange": "2 us", "wait": "1 us"}, {"collective": "2 us", "memory_round_trip": "1 us"}),
        (Calibration, {"host_exchange": "1 us"}, {"host_collective": "1 us"}),
        (Calibration, {"alone": "1 us", "host_rerun": "2 us"}, {"cold_start": "1 us", "host_recompute": "2 us"}),
        (EnergyCosts, {"still_frac": 0.5}, {"data_independent_frac": 0.5}),
    ],
)
def test_keys_of_models_and_chips_are_read_by_their_old_names(
    kind: type, old: dict[str, Any], new: dict[str, Any]
) -> None:
    was, now = (shape_of(kind, is_partial=True).model_validate(written) for written in (old, new))
    assert was == now
    assert was.model_fields_set


def test_pools_of_a_cluster_are_read_by_their_old_key(tmp_path: Path) -> None:
    found = []
    for key in ("parts", "pools"):
        file = tmp_path / f"{key}.yaml"
        file.write_text(MIXED.format(key=key), encoding="utf-8")
        cluster = load_any_cluster(str(file))
        assert isinstance(cluster, HeterogeneousCluster)
        found.append(cluster.pools)
    assert found[0] == found[1]
    assert len(found[0]) == 2


@pytest.mark.parametrize("key", ["precision.standing_gradients", "plan.sends_once"])
def test_a_thing_said_by_both_names_is_refused(tmp_path: Path, key: str) -> None:
    section, old = key.split(".")
    both = {
        "precision": "standing_gradients: true, persistent_gradients: true",
        "plan": "sends_once: true, dispatcher: deepep",
    }
    with pytest.raises(InvalidInput, match=rf"remove {old}"):
        load_spec(spec(tmp_path, **{section: both[section]}))


def test_results_of_validate_in_old_keys_are_read(tmp_path: Path) -> None:
    row = {"kind": "a", "what": "b", "measured": 1.0, "predicted": 1.0, "error_frac": 0.0}
    score = {
        "kind": "", "num_rows": 1, "mape_frac": 0.0, "median_frac": 0.0, "p90_frac": 0.0, "worst_frac": 0.0,
        "bias_frac": 0.0, "bars": [], "worst": [row],
    }  # fmt: skip
    told = {
        "holds": True,
        "notes": [],
        "sets": [
            {
                "set": "mine",
                "chip": "",
                "unit": "s",
                "scores": [score],
                "skipped": [],
                "decided": [{"kind": "", "num_ran": 1, "num_false": 0, "num_failed": 0, "num_missed": 0}],
                "beside": [],
                "choices": [],
                "unjudged": [],
                "peers_alone": [],
            }
        ],
        "untried": [{"what": "speed", "why": "not asked"}],
    }
    file = tmp_path / "results.json"
    file.write_text(json.dumps(told), encoding="utf-8")
    found = load_results(file)
    assert found["sets"][0]["memory_verdicts"][0]["num_ran"] == 1
    assert found["not_measured"] == told["untried"]


@pytest.mark.parametrize(
    ("request_type", "name", "old"),
    [(CodesignRequest, "per_model_best", "--own-best"), (ReproduceRequest, "modern_chips", "--beyond")],
)
def test_an_option_is_read_by_its_old_name_and_told_by_its_new_one(request_type: type, name: str, old: str) -> None:
    import typer

    from dovetail.cli.options import add_options, command

    asked = []
    app = typer.Typer()

    def run(request: Any) -> None:
        """Runs."""
        asked.append(getattr(request, name))

    made = command(request_type)(run)
    add_options(made)
    app.command()(made)
    words = ["ace"] if request_type is ReproduceRequest else []
    for typed in ([old], [f"--{name.replace('_', '-')}"], []):
        assert CliRunner().invoke(app, [*words, *typed]).exit_code == 0
    assert asked == [True, True, False]
    shown = CliRunner().invoke(app, ["--help"]).stdout
    assert old not in shown
