"""Rows of published steps on TPUs: words of remat, models, and rows that cannot be said."""

from __future__ import annotations

import pytest

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Decision, TableContext
from dovetail.accuracy.runs.row import Row
from dovetail.accuracy.runs.tpu_rows import policy_of, tpu_run_of
from dovetail.accuracy.sets import format_of, prepared
from dovetail.errors import NotModelled
from dovetail.workload.checkpoint_policies import places_of

CELLS = {
    "row_id": "P1", "source": "maxtext configs README", "chip": "tpu-v5p", "num_chips": "64", "model": "mt-32b",
    "layers": "32", "hidden": "8192", "heads": "64", "kv_heads": "64", "head_dim": "128", "ffn": "28672", "gated": "1",
    "vocab": "32000", "experts": "0", "experts_per_token": "0", "seq": "2048", "per_device_batch": "6",
    "global_batch": "384", "tensor_parallel": "4", "expert_parallel": "1", "remat": "minimal", "precision": "bf16",
    "step_s": "7.3", "notes": "",
}  # fmt: skip
QKV = {"query_proj": "offload", "key_proj": "offload", "value_proj": "offload"}


def row(**changed: str) -> Row:
    return Row(cells=CELLS | changed)


@pytest.mark.parametrize(
    ("said", "places"),
    [
        ("full", {}),
        ("qkv_proj_offloaded", QKV),
        ("custom: inputs,qkv,out offloaded", {"decoder_layer_input": "offload", "out_proj": "offload"} | QKV),
        ("custom: context,mlpwo offloaded", {"context": "offload", "mlpwo": "offload"}),
        ("custom: qkv offloaded, out kept", {"out_proj": "device"} | QKV),
        (
            "custom: decoder_layer_input=offload, out_proj=device",
            {"decoder_layer_input": "offload", "out_proj": "device"},
        ),
    ],
)
def test_words_of_remat_place_tensors(said: str, places: dict[str, str]) -> None:
    assert places_of(policy_of(said)) == places


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("custom: inputs,foo offloaded", "names 'foo', which is no tensor of MaxText's that is known here"),
        ("custom: inputs,qkv", "tensors must be listed as offloaded, kept or recomputed"),
        ("minimul", "no remat policy is named 'minimul'; did you mean minimal"),
    ],
)
def test_words_that_place_nothing_are_no_guess(said: str, reason: str) -> None:
    with pytest.raises(NotModelled) as refusal:
        policy_of(said)
    assert reason in refusal.value.message


def test_what_tensor_parallelism_leaves_over_is_fully_sharded() -> None:
    plan = tpu_run_of(row()).plan
    assert (plan.tensor_parallel, plan.data_parallel, plan.zero_stage, plan.microbatch) == (4, 16, 3, 24)
    assert plan.recompute == ("minimal",)


def test_one_bad_row_never_costs_the_table_and_each_has_its_line() -> None:
    bad = (
        {"remat": "custom: foo offloaded"},
        {"chip": "tpu-v99"},
        {"num_chips": "7", "global_batch": "42"},
        {"step_s": "OOM"},
        {"model": "deepseek-v9"},
        {"precision": "int8"},
    )
    rows = [CELLS, *(CELLS | changed for changed in bad)]
    table = Measurements(
        name="runs",
        shown="runs.csv",
        columns=tuple(CELLS),
        rows=tuple(tuple(one.values()) for one in rows),
        lines=tuple(range(2, 2 + len(rows))),
    )
    assert format_of(table) == "published-tpu"
    [found] = prepared(table, TableContext())
    assert found.decisions == (Decision(kind="tpu-v5p", has_run=True, fits=True),)
    assert found.whats[0].startswith("P1 mt-32b: fits, ")
    assert sorted(what.rsplit("(", 1)[1] for what, _ in found.skipped) == [f"line {line})" for line in range(3, 9)]
