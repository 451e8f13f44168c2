"""What is wrong in a spec is told in one line: the rule, what was there, the file, the line and the path."""

from __future__ import annotations

import pytest

from dovetail.errors import InvalidInput
from dovetail.files.chip import load_chip
from dovetail.files.cluster import load_cluster
from dovetail.files.job import load_plan, load_workload
from dovetail.files.model import load_model

SHAPE = (
    "name: t, num_layers: 4, hidden: 64, num_heads: 8, num_kv_heads: 2, head_width: 8, ffn_width: 64, vocab: 100, "
    "seq: 64"
)
NETWORK = "topology: [{name: a, kind: switch, devices: 64, bandwidth: 1 GB/s, latency: 1 us}]"


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (
            "{tensor_parallel: 8x}",
            "tensor_parallel must be a whole number; got '8x' (spec.yaml:3: plan.tensor_parallel)",
        ),
        ("{tp: 8.0}", "tp must be a whole number; got 8.0 (spec.yaml:3: plan.tp)"),
        ("{tp: true}", "tp must be a whole number; got true (spec.yaml:3: plan.tp)"),
        ("{tp: .nan}", "tp must be a whole number; got nan (spec.yaml:3: plan.tp)"),
        ("{tp: -.inf}", "tp must be a whole number; got -inf (spec.yaml:3: plan.tp)"),
        ("{tp: 1e400}", "tp must be a whole number; got inf (spec.yaml:3: plan.tp)"),
        ("{tp: 010}", "tp must be a whole number; got '010' (spec.yaml:3: plan.tp)"),
        ("{tp: ~}", "tp must be a whole number; got nothing (spec.yaml:3: plan.tp)"),
        ("{tp: [8]}", "tp must be a whole number; got a list of 1 (spec.yaml:3: plan.tp)"),
        ("{tp: -8}", "tp must not be negative; got -8 (spec.yaml:3: plan.tp)"),
        ("{tp: 0}", "tensor_parallel must be at least 1; got 0 (spec.yaml:3: plan.tp)"),
        (
            f"{{tp: 1{'0' * 30}}}",
            f"tp must be at most 1,000,000,000; got 1{'0' * 30} (spec.yaml:3: plan.tp)",
        ),
        (
            f"{{tp: 1{'0' * 300}}}",
            f"tp must be at most 1,000,000,000; got 1{'0' * 19}... (301 digits) (spec.yaml:3: plan.tp)",
        ),
        (f"{{tp: {'9' * 5000}}}", f"tp must be a whole number; got '{'9' * 57}...' (spec.yaml:3: plan.tp)"),
        (
            "{sequence_parallel: 1}",
            "sequence_parallel must be true or false; got 1 (spec.yaml:3: plan.sequence_parallel)",
        ),
        (
            "{sequence_parallel: yes}",
            "sequence_parallel must be true or false; got 'yes' (spec.yaml:3: plan.sequence_parallel)",
        ),
        (
            "{zero_stag: 1}",
            "no key of plan is named 'zero_stag'; did you mean zero_stage? (spec.yaml:3: plan.zero_stag)",
        ),
        ("{zero_stage: 4}", "zero_stage must be 0, 1, 2 or 3; got 4 (spec.yaml:3: plan.zero_stage)"),
        (
            "{recompute: selectiv}",
            "no recompute policy is named 'selectiv'; did you mean selective or selective-op?"
            " (spec.yaml:3: plan.recompute)",
        ),
        ("{recompute: [none, 3]}", "recompute[1] must be text; got 3 (spec.yaml:3: plan.recompute[1])"),
        (
            "{overlap: {dat: true}}",
            "no key of overlap is named 'dat'; did you mean data? (spec.yaml:3: plan.overlap.dat)",
        ),
        ("{overlap: {data: 1}}", "data must be true or false; got 1 (spec.yaml:3: plan.overlap.data)"),
        ("{overlap: true}", "overlap must be a mapping of keys to values; got true (spec.yaml:3: plan.overlap)"),
        (
            '{axis_order: ["a\\nb"]}',
            "axis_order[0] must hold printable characters only; got 'a\\nb' (spec.yaml:3: plan.axis_order[0])",
        ),
        ("{layers_per_stage: 4}", "layers_per_stage must be a list; got 4 (spec.yaml:3: plan.layers_per_stage)"),
        ("zero", "no plan is named 'zero'; did you mean zero3 or zero2 or zero1? (spec.yaml:3: plan)"),
        ("{base: zero}", "no plan is named 'zero'; did you mean zero3 or zero2 or zero1? (spec.yaml:3: plan.base)"),
        ("[tp, 8]", "plan must be a plan's name, a file or a mapping; got a list of 2 (spec.yaml:3: plan)"),
        ("", "plan must be a plan's name, a file or a mapping; got nothing (spec.yaml:3: plan)"),
    ],
)
def test_a_bad_plan_is_refused_where_it_stands(refusal, plan, message):
    assert refusal(plan=plan) == message


@pytest.mark.parametrize(
    ("plan", "start", "where"),
    [
        ("{tp: 8, tensor_parallel: 8}", "tp and tensor_parallel set the same thing twice", "plan.tp"),
        ("{tp: 64}", "tensor_parallel=64 must divide num_heads=32", "plan.tp"),
        ("{tp: 24}", "tensor_parallel=24 must divide num_heads=32", "plan.tp"),
        ("{tp: 3}", "tensor_parallel=3 must divide num_heads=32", "plan.tp"),
        ("{pp: 3}", "pipeline_parallel=3 must divide the cluster's 64 devices; try 2 or 4 (", "plan.pp"),
        ("{pp: 32, tp: 2, cp: 2}", "tensor x context x pipeline = 2 x 2 x 32 = 128 must divide", "plan.pp"),
        (
            "{pp: 32, tp: 4}",
            "tensor x context x pipeline = 4 x 1 x 32 = 128 must divide the cluster's 64 devices; "
            "try pipeline_parallel=16 (",
            "plan.pp",
        ),
        ("{tp: 8, dp: 4}", "tensor x context x pipeline x data = 8 x 1 x 1 x 4 = 32 must equal", "plan.dp"),
        ("{microbatch: 3}", "data_parallel=64 x microbatch=3 must divide global_batch=64", "plan.microbatch"),
        ("{pp: 4, layers_per_stage: [1, 2, 3, 4]}", "layers_per_stage sums to 10", "plan.layers_per_stage"),
        ("{expert_parallel: 8}", "expert_parallel=8 has nothing to divide in llama3-8b", "plan.expert_parallel"),
    ],
)
def test_a_plan_that_contradicts_itself_or_the_model_is_refused_where_it_was_decided(refusal, plan, start, where):
    line = refusal(plan=plan)
    assert line.startswith(start)
    assert line.endswith(f"(spec.yaml:3: {where})")


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ("llama3-8", "no model is named 'llama3-8'; did you mean llama3-8b or"),
        ("{model: lama3-8b}", "no model is named 'lama3-8b'; did you mean llama3-8b or"),
        (
            "{modle: llama3-8b}",
            "no key of workload is named 'modle'; did you mean model? (spec.yaml:1: workload.modle)",
        ),
        ("{seq: 8}", "model is missing (spec.yaml:1: workload.model)"),
        ("{model: 8}", "model must be a model's name, a file or a mapping; got 8 (spec.yaml:1: workload.model)"),
        ("{model: llama3-8b, seq: 0}", "seq must be at least 1; got 0 (spec.yaml:1: workload.seq)"),
        ("{model: llama3-8b, seq: '8192'}", "seq must be a whole number; got '8192' (spec.yaml:1: workload.seq)"),
        (
            "{model: llama3-8b, attention: flsh}",
            "attention must be one of flash, flash-2, flash-1, unfused; got 'flsh'",
        ),
        (
            "{model: llama3-8b, precision: {optimizer: adan}}",
            "no optimizer is named 'adan'; did you mean adam? (spec.yaml:1: workload.precision.optimizer)",
        ),
        (
            "{model: llama3-8b, precision: {compute: bf17}}",
            "dtype 'bf17' is not modelled; did you mean bf16? (spec.yaml:1: workload.precision.compute)",
        ),
        (
            "{model: llama3-8b, precision: {has_momentum: true}}",
            "no key of precision is named 'has_momentum'; did you mean momentum",
        ),
        (
            "{model: {hidden: 64}}",
            "name is missing; give it, or name a base to take it from (spec.yaml:1: workload.model.name)",
        ),
        ("{model: {base: resnet-50, hidden: 64}}", "only a transformer can be a base, and resnet-50 is a resnet"),
        ("{model: {base: resnet-50, num_classes: 10}}", "only a transformer can be a base, and resnet-50 is a resnet"),
        (
            "{model: gpt2-345m, seq: 4096}",
            "seq=4096 exceeds the 1024 ",
        ),
        (
            "{model: {base: mixtral-8x7b, experts: {num_experts: 16, num_experts_per_token: 16, width: 64}, seq: 64},"
            " seq: 1000000000, global_batch: 1000000000}",
            "the sizes of this workload multiply to more than can be counted",
        ),
        (
            f"{{model: {{{SHAPE}, num_kv_head: 1}}}}",
            "no key of model is named 'num_kv_head'; did you mean num_kv_heads",
        ),
        (
            f"{{model: {{{SHAPE}, experts: {{num_experts: 4, num_experts_per_token: 5, width: 8}}}}}}",
            "num_experts_per_token=5 must not exceed num_experts=4"
            " (spec.yaml:1: workload.model.experts.num_experts_per_token)",
        ),
        (
            f"{{model: {{{SHAPE}, experts: {{num_experts: 0, num_experts_per_token: 0, width: 8}}}}}}",
            "num_experts must be at least 1; got 0 (spec.yaml:1: workload.model.experts.num_experts)",
        ),
        (f"{{model: {{{SHAPE}, num_dense_layers: 2}}}}", "num_dense_layers needs experts"),
    ],
)
def test_a_bad_workload_is_refused_where_it_stands(refusal, workload, message):
    assert refusal(workload=workload).startswith(message)


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ("dgxh100", "no cluster is named 'dgxh100'; did you mean dgx-h100 or"),
        ("{name: dgx-h10, devices: 64}", "no cluster is named 'dgx-h10'; did you mean dgx-h100 or"),
        ("dgx-h100:64", "no cluster is named 'dgx-h100:64'"),
        ("{devices: 64}", "name is missing; name a catalogue cluster, or give a chip and a topology"),
        ("{name: dgx-h100, device: 64}", "no key of cluster is named 'device'; did you mean devices?"),
        ("{name: dgx-h100, devices: 0}", "a cluster has 1 to 1,048,576 devices; got 0 (spec.yaml:2: cluster.devices)"),
        ("{name: dgx-h100, devices: 63}", "dgx-h100 comes in whole groups of 8"),
        ("{chip: h100-sxm}", "topology is missing (spec.yaml:2: cluster.topology)"),
        ("{chip: h100-sxm, devices: 8, topology: []}", "devices is what the topology's dimensions multiply to"),
        ("{chip: h100-sxm, topology: []}", "topology must not be empty; got a list of 0"),
        (f"{{chip: h100-sx, {NETWORK}}}", "no chip is named 'h100-sx'; did you mean h100-sxm or"),
        (f"{{chip: [1], {NETWORK}}}", "chip must be a chip's name, a file or a mapping; got a list of 1"),
    ],
)
def test_a_bad_cluster_is_refused_where_it_stands(refusal, cluster, message):
    assert refusal(cluster=cluster).startswith(message)


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        ("devices: 0", "a dimension joins at least 1 device; got 0 (spec.yaml:2: cluster.topology[0].devices)"),
        ("devices: 2000000", "a cluster has 1 to 1,048,576 devices; got 2,000,000 (spec.yaml:2: cluster.topology)"),
        ("kind: swich", "no network dimension is of kind 'swich'; did you mean switch?"),
        ("bandwith: 1 GB/s", "no key of topology[0] is named 'bandwith'; did you mean bandwidth?"),
        (
            "bandwidth: 450",
            "a quantity needs its unit, as in '900 GB/s'; got 450 (spec.yaml:2: cluster.topology[0].bandwidth)",
        ),
        ("bandwidth: 0 GB/s", "bandwidth must be above 0; got '0 GB/s'"),
        ("bandwidth: 450 GB", "'GB' is not a unit of this quantity; write it as in '900 GB/s'"),
        ("latency: -1 us", "latency must not be negative; got '-1 us' (spec.yaml:2: cluster.topology[0].latency)"),
        ("oversubscription: .nan", "oversubscription must be finite; got nan"),
        ("oversubscription: 0.5", "oversubscription must be at least 1; got 0.5"),
    ],
)
def test_a_bad_network_dimension_is_refused_where_it_stands(refusal, figure, message):
    good = {"name": "a", "kind": "switch", "devices": "64", "bandwidth": "1 GB/s", "latency": "1 us"}
    key, _, value = figure.partition(": ")
    if key == "bandwith":
        del good["bandwidth"]
    written = ", ".join(f"{name}: {text}" for name, text in (good | {key: value}).items())
    assert refusal(cluster=f"{{chip: h100-sxm, topology: [{{{written}}}]}}").startswith(message)


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        (
            "hbm: {capacity: 80}",
            "a quantity needs its unit, as in '80 GiB'; got 80 (spec.yaml:2: cluster.chip.hbm.capacity)",
        ),
        ("hbm: {capacity: 80 GB/s}", "'GB/s' is not a unit of this quantity; write it as in '80 GiB'"),
        ("hbm: {capacity: nan GB}", "cannot read 'nan GB' as a quantity; write it as in '80 GiB'"),
        ("hbm: {capacity: 1e999 GB}", "a quantity must be finite; got '1e999 GB'"),
        ("hbm: {capacity: -1 GB}", "capacity must be above 0; got '-1 GB' (spec.yaml:2: cluster.chip.hbm.capacity)"),
        ("hbm: {size: 80 GB}", "no key of hbm is named 'size'; known: bandwidth, capacity"),
        ("hbm: 80 GB", "hbm must be a mapping of keys to values; got '80 GB'"),
        ("clock: .inf", "a quantity needs its unit, as in '1.98 GHz'; got inf"),
        ("clock_hz: 1 GHz", "no key of chip is named 'clock_hz'; did you mean clock"),
        ("sources: []", "no key of chip is named 'sources'"),
        (
            "calibration: {tensor_frac: 2}",
            "tensor_frac must be from 1e-06 to 1; got 2 (spec.yaml:2: cluster.chip.cal",
        ),
        ("calibration: {hbm_frac: 1e-9}", "hbm_frac must be from 1e-06 to 1; got 1e-09"),
        ("calibration: {hbm_frac: 5e-324}", "hbm_frac must be 0, or from 1e-30 to 1e+30 but for its sign; got 5e-324"),
        ("hbm: {capacity: 1e-300 GB}", "capacity must be at least 1e-30 in base units; got '1e-300 GB'"),
        ("tensor: {tile: [1, 2]}", "no key of tensor is named 'tile'; did you mean tiling"),
        ("tensor: {tiling: {tiles: [[1, 2, 3]]}}", "tiles[0] must have at most 2 values; got a list of 3"),
        ("tensor: {tiling: {tiles: []}}", "tiles must not be empty; got a list of 0"),
        (
            "tensor: {tiling: {tiles: [[128, 0]]}}",
            "tile sizes must be at least 1; got 128x0, steps of 64 (spec.yaml:2: cluster.chip.tensor.tiling",
        ),
        (
            "tensor: {tiling: {fill: hiden}}",
            "fill must be hidden or load or whole; got hiden; did you mean hidden? (spec.yaml:2: cluster.chip.tensor",
        ),
        ("tensor: {tiling: {num_steps: 8}}", "no key of tiling is named 'num_steps'; did you mean steps"),
        ("tensor: {tiling: {output_hidden: 1}}", "output_hidden must be true or false; got 1"),
        (
            "calibration: {memory_round_trip: -1 us}",
            "memory_round_trip must not be negative; got '-1 us' (spec.yaml:2: cluster.chip.calibration.memory_round",
        ),
        ("calibration: {sram_reuse: 0}", "sram_reuse must be at least 1; got 0"),
        ("energy: {sram_per_byte: 30}", "a quantity needs its unit, as in '"),
        ("tensor: {rates: {bf16: 989}}", "a quantity needs its unit, as in '989 TFLOP/s'; got 989"),
        ("tensor: {units: 0}", "units must be at least 1; got 0 (spec.yaml:2: cluster.chip.tensor.units)"),
        ("tdp: 0 W", "tdp must be positive; got 0 (spec.yaml:2: cluster.chip.tdp)"),
        ("tensor: {rates: {}}", "rates must not be empty; got a mapping"),
        (
            "tensor: {rates: {bf17: 1 PFLOP/s}}",
            "no dtype is named 'bf17'; did you mean bf16? (spec.yaml:2: cluster.chip.tensor.rates.bf17)",
        ),
        ("tensor: {rates: {BF16: 1 PFLOP/s}}", "no dtype is named 'BF16'; did you mean bf16"),
        (
            "hbm: {capacity: '1,5 TiB'}",
            "cannot read '1,5 TiB' as a quantity; a comma sets thousands apart, so write '1.5",
        ),
    ],
)
def test_a_bad_chip_figure_is_refused_where_it_stands(refusal, figure, message):
    assert refusal(cluster=f"{{chip: {{base: h100-sxm, {figure}}}, {NETWORK}}}").startswith(message)


def test_a_chip_without_a_base_needs_every_figure(refusal):
    line = refusal(cluster=f"{{chip: {{name: mine}}, {NETWORK}}}")
    assert line.startswith("vendor is missing; give it, or name a base to take it from")


def test_the_first_mistake_of_the_file_is_told_first(refusal):
    text = "workload: llama3-8b\ncluster: dgx-h100\nplan:\n  zero_stage: x\n  tp: y\n"
    assert refusal(text) == "zero_stage must be a whole number; got 'x' (spec.yaml:4: plan.zero_stage)"


@pytest.mark.parametrize("load", [load_model, load_chip, load_cluster, load_workload])
def test_a_name_given_outside_any_file_is_refused_without_a_place(load):
    with pytest.raises(InvalidInput) as error:
        load("no-such-thing")
    assert str(error.value).startswith("no ")
    assert "(" not in str(error.value)


def test_a_named_plan_for_other_devices_says_for_how_many_and_how_to_change_it():
    with pytest.raises(InvalidInput) as error:
        load_plan("phaze-opt-350m", load_workload("llama3-8b"), load_cluster("dgx-h100"))
    line = "phaze-opt-350m is a plan for 1,020 devices, and there are 1,024; give the cluster 1020 devices"
    assert str(error.value) == line
    with pytest.raises(InvalidInput, match=r"or set plan: {base: phaze-gpt2-xl, data_parallel: 18}"):
        load_plan("phaze-gpt2-xl", load_workload("llama3-8b"), load_cluster("gb200-nvl72"))


def test_a_dtype_the_chip_has_no_rate_for_is_told_with_those_it_has(refusal):
    old = f"{{chip: v100-32gb-sxm, {NETWORK}}}"
    assert refusal(cluster=old) == (
        "v100-32gb-sxm has no peak rate for bf16, only for fp16, fp32; set precision: {compute: fp16} in the workload,"
        " or --compute fp16 (spec.yaml:1: workload.precision.compute)"
    )
