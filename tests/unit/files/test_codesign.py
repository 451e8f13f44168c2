"""Specs for `dovetail codesign`: what they may say, what goes before what, and what is refused where."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest

from dovetail.api.joint import question_of
from dovetail.errors import DovetailError, InvalidInput, NotModelled
from dovetail.files.codesign import DEFAULT_PRESET, MAX_POINTS, CodesignOverrides, load_codesign
from dovetail.files.codesign_formats import codesign_entries
from dovetail.hardware.die import RETICLE_MM2
from dovetail.search.codesign.networks import network_kind
from dovetail.search.codesign.presets import PLANS, PRESETS
from dovetail.search.codesign.question import Budget, base_budget
from dovetail.search.codesign.rows import question_facts
from dovetail.search.metrics import metrics
from dovetail.workload.models import models

WORKLOAD = "workload: {model: gpt2-345m, global_batch: 32, seq: 256}\n"


def written(tmp_path, text, name="spec.yaml"):
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return str(file)


def values(spec):
    return {knob.name: knob.values for knob in spec.space.knobs}


def test_a_model_alone_is_asked_about_in_the_default_space_with_dies_that_can_be_made():
    spec = load_codesign("gpt2-1.5b", CodesignOverrides())
    preset, [case] = PRESETS[DEFAULT_PRESET], spec.cases
    assert (spec.preset, spec.base.name, spec.network) == (DEFAULT_PRESET, preset.base, "tpu-v4-pod")
    assert spec.num_devices == (preset.num_devices,)
    own = base_budget(spec.base, spec.space)
    assert spec.budget == Budget(area_mm2=own.area_mm2, power_w=own.power_w)
    assert (case.plans, case.weight, case.workload.global_batch) == (PLANS, 1.0, models["gpt2-1.5b"]().batch)
    assert values(spec)["sram_mib"] == preset.values["sram_mib"]


@pytest.mark.parametrize("network", ["nic-switch", "switch-cpo"])
def test_networks_without_a_published_price_are_searched_as_long_as_nobody_says_dollars(tmp_path, network):
    spec = load_codesign("gpt2-1.5b", CodesignOverrides(network=network))
    assert 0 < spec.budget.power_w < math.inf == spec.budget.total_usd
    in_dollars = written(
        tmp_path, f"{{models: [gpt2-1.5b], network: {network}, budget: {{total_usd: base}}}}", "s.yaml"
    )
    with pytest.raises(NotModelled, match="has no published price"):
        load_codesign(in_dollars, CodesignOverrides())


def test_a_description_of_a_model_in_a_file_is_a_model_too(tmp_path):
    text = json.dumps({"base": "gpt2-345m", "name": "mine", "num_layers": 3})
    spec = load_codesign(written(tmp_path, text, "mine.json"), CodesignOverrides(batch=8, seq=64))
    assert (spec.cases[0].name, spec.cases[0].workload.global_batch, spec.cases[0].workload.seq) == ("mine", 8, 64)


def test_what_a_spec_says_goes_before_the_preset_and_options_before_both(tmp_path):
    file = written(
        tmp_path,
        WORKLOAD + "name: a system\npreset: cores\nnetwork: flat\ndevices: [16, 8, 16]\n"
        "chip: {base: tpuv4-like, num_tensor: [8, 2], clock_mhz: 900}\n"
        "budget: {area: 6 cm2, power: 0.3 kW, total_area: 9000 mm2, total_power: 4 kW, total_usd: 20000}\n"
        "space: {tp: [1, 2], recompute: full}\n",
    )
    spec = load_codesign(file, CodesignOverrides())
    assert (spec.name, spec.preset, spec.base.name, spec.network) == ("a system", "cores", "tpuv4-like", "flat")
    own = values(spec)
    assert (own["num_tensor"], own["clock_mhz"], own["num_devices"]) == ((2, 8), (900,), (8, 16))
    assert own["num_lanes"] == PRESETS["cores"].values["num_lanes"]
    assert spec.budget == Budget(
        area_mm2=600.0, power_w=300.0, total_area_mm2=9000.0, total_power_w=4000.0, total_usd=20000.0
    )
    plans = spec.cases[0].plans
    assert (plans.tensor_parallel, plans.recompute, plans.microbatch) == ((1, 2), ("full",), PLANS.microbatch)
    said = CodesignOverrides(
        preset="chip", base="tpuv2-like", network="torus", devices=4, area="500 mm2", power="200 W", batch=8, seq=64
    )
    over = load_codesign(file, said)
    assert (over.preset, over.base.name, over.network, over.num_devices) == ("chip", "tpuv2-like", "torus", (4,))
    assert (over.budget.area_mm2, over.budget.power_w, over.budget.total_usd) == (500.0, 200.0, 20000.0)
    assert (over.cases[0].workload.global_batch, over.cases[0].workload.seq) == (8, 64)


def test_several_models_have_weights(tmp_path):
    text = "models: [{model: bert-base, global_batch: 8}, {model: gpt2-345m, global_batch: 8}]\n"
    spec = load_codesign(written(tmp_path, text + "weights: [3, 0.5]\n"), CodesignOverrides())
    assert [(case.name, case.weight) for case in spec.cases] == [("bert-base", 3.0), ("gpt2-345m", 0.5)]
    assert [case.weight for case in load_codesign(written(tmp_path, text), CodesignOverrides()).cases] == [1.0, 1.0]


def test_the_space_of_phaze_keeps_its_rule_and_plans():
    spec = load_codesign("gpt3-175b", CodesignOverrides(preset="phaze"))
    assert spec.rule is PRESETS["phaze"].rule
    assert spec.cases[0].plans == PRESETS["phaze"].plans
    assert math.prod(len(knob.values) for knob in spec.space.knobs) == spec.space.num_points


REFUSED = {
    "two ways to name models": (WORKLOAD + "models: [bert-base]", "either workload, for one model, or models"),
    "no model": ("chip: {num_tensor: 4}", "either workload, for one model, or models"),
    "no models": ("models: []", "models must not be empty"),
    "a model that nobody knows": ("workload: {model: gpt2-345n}", "did you mean gpt2-345m"),
    "weights that are too few": ("models: [bert-base, gpt2-345m]\nweights: [1]", "one for each of 2 models; got 1"),
    "a weight of nothing": ("models: [bert-base, gpt2-345m]\nweights: [1, 0]", "weights[1]"),
    "a weight that is no number": (WORKLOAD + "weights: [.nan]", "weights"),
    "a weight in words": (WORKLOAD + "weights: [much]", "weights"),
    "a preset that nobody knows": (WORKLOAD + "preset: chips", "did you mean chip"),
    "a network that nobody knows": (WORKLOAD + "network: torsu", "did you mean torus"),
    "a key that nobody knows": (WORKLOAD + "device: 8", "did you mean devices"),
    "a chip in one word": (WORKLOAD + "chip: tpuv4-like", "chip must be a mapping"),
    "a knob that nobody knows": (WORKLOAD + "chip: {sram: 16}", "chip.sram"),
    "a knob that stands elsewhere": (WORKLOAD + "chip: {num_devices: 16}", "no key of chip is named 'num_devices'"),
    "a knob without values": (WORKLOAD + "chip: {num_rows: []}", "num_rows needs 1 to 10,000 values; got 0"),
    "half a core": (WORKLOAD + "chip: {num_tensor: [1, 1.5]}", "chip.num_tensor[1]"),
    "no core": (WORKLOAD + "chip: {num_tensor: 0}", "num_tensor must be whole numbers from 1 to 1,000,000,000; got 0"),
    "yes for a number": (WORKLOAD + "chip: {num_lanes: true}", "chip.num_lanes"),
    "a core in words": (WORKLOAD + "chip: {num_vector: [many]}", "chip.num_vector[0]"),
    "devices in words": (WORKLOAD + "devices: some", "devices must be whole numbers"),
    "a chip that is no template": (WORKLOAD + "chip: {base: h100-sxm}", "systolic arrays, and h100-sxm has none"),
    "a chip that nobody knows": (WORKLOAD + "chip: {base: tpuv4-lik}", "did you mean tpuv4-like"),
    "an area without its unit": (WORKLOAD + "budget: {area: 600}", "budget.area"),
    "an area in watts": (WORKLOAD + "budget: {area: 600 W}", "budget.area"),
    "an area of nothing": (WORKLOAD + "budget: {area: 0 mm2}", "budget"),
    "money that is none": (WORKLOAD + "budget: {total_usd: -5}", "total_usd must be positive; got -5"),
    "money of next to nothing": (WORKLOAD + "budget: {total_usd: 5.0e-324}", "total_usd must be 0, or from 1e-30"),
    "a limit that nobody knows": (WORKLOAD + "budget: {energy: 5 J}", "energy"),
    "plans that nobody knows": (WORKLOAD + "space: {dq: 1}", "no key of space"),
    "a space of too many": (
        WORKLOAD + f"chip: {{num_tensor: {list(range(1, 400))}, num_vector: {list(range(1, 400))}}}",
        f"a space has at most {MAX_POINTS:,} combinations",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "words"), REFUSED.values(), ids=REFUSED)
def test_what_makes_no_sense_is_refused_in_one_line_with_its_place(tmp_path, text, words):
    with pytest.raises(DovetailError) as refused:
        load_codesign(written(tmp_path, text), CodesignOverrides())
    line = str(refused.value)
    assert words in line
    assert "spec.yaml" in line
    assert "\n" not in line
    assert "Node(" not in line


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (CodesignOverrides(preset="chipp"), "did you mean chip? (--preset)"),
        (CodesignOverrides(network="flatt"), "did you mean flat? (--network)"),
        (CodesignOverrides(base="h100-sxm"), "h100-sxm has none"),
        (CodesignOverrides(base="tpuv9"), "--base"),
        (CodesignOverrides(area="600"), "--area"),
        (CodesignOverrides(area="0 mm2"), "--area must be above 0"),
        (CodesignOverrides(power="3 mm2"), "--power"),
    ],
)
def test_what_is_said_wrongly_names_its_option(tmp_path, said, words):
    for reference in ("gpt2-345m", written(tmp_path, WORKLOAD)):
        with pytest.raises(DovetailError) as refused:
            load_codesign(reference, said)
        assert words in str(refused.value)
        assert "--" in str(refused.value)


def test_a_batch_is_said_for_one_model_only(tmp_path):
    file = written(tmp_path, "models: [bert-base, gpt2-345m]\n")
    with pytest.raises(DovetailError, match="--batch and --seq are for one model"):
        load_codesign(file, CodesignOverrides(batch=8))


def test_endpoints_are_chosen_by_name_and_options_go_before_the_spec(tmp_path):
    file = written(tmp_path, WORKLOAD + "chip: {base: tpuv4-like, endpoint: [ace, sm], core_buffer_kib: [512, 64]}\n")
    own = values(load_codesign(file, CodesignOverrides()))
    assert (own["endpoint"], own["core_buffer_kib"]) == ((1, 3), (64, 512))
    assert values(load_codesign(file, CodesignOverrides(endpoint="dma, sm")))["endpoint"] == (1, 2)
    assert values(load_codesign("gpt2-345m", CodesignOverrides(endpoint="ace")))["endpoint"] == (3,)
    assert values(load_codesign("gpt2-345m", CodesignOverrides()))["endpoint"] == (4,)  # a TPU v4's own
    single = written(tmp_path, WORKLOAD + "chip: {endpoint: dma}\n")
    assert values(load_codesign(single, CodesignOverrides()))["endpoint"] == (2,)


@pytest.mark.parametrize(
    ("chip", "told"),
    [
        (
            "endpoint: [sm, acme]",
            "an endpoint is sm, dma, ace, ici, in-switch, near-memory, ideal; got 'acme'; did you mean ace?",
        ),
        ("endpoint: 3", "an endpoint is sm, dma, ace, ici, in-switch, near-memory, ideal; got 3"),
        ("endpoint: []", "endpoint needs at least one of sm, dma, ace, ici, in-switch, near-memory, ideal; got none"),
        ("core_buffer_kib: 0", "core_buffer_kib must be whole numbers from 1"),
        ("base: tpuv2-like, core_buffer_kib: [64]", "tensor cores of tpuv2-like have no buffers of their own"),
    ],
)
def test_what_no_endpoint_or_buffer_is_is_refused_with_its_place(tmp_path, chip, told):
    with pytest.raises(DovetailError, match=re.escape(told)) as caught:
        load_codesign(written(tmp_path, WORKLOAD + f"chip: {{{chip}}}\n"), CodesignOverrides())
    assert "spec.yaml:2" in str(caught.value)


def test_an_option_that_names_no_endpoint_is_refused():
    with pytest.raises(DovetailError, match=r"no endpoint is named 'smm'; did you mean sm.*--endpoint"):
        load_codesign("gpt2-345m", CodesignOverrides(endpoint="smm"))


def same(one, other) -> bool:
    """Whether two specs ask the same: models are what they build, whoever wrote them down."""
    facts = [
        question_facts(
            question_of(spec, metrics["throughput"]), metric="throughput", network=spec.network, rule=spec.preset
        )
        for spec in (one, other)
    ]
    bases = [replace(spec.base, sources=(), facts=()) for spec in (one, other)]
    for told in facts:
        told["base"] = told["base"]["name"]  # its digest is of its sources too
    return facts[0] == facts[1] and bases[0] == bases[1] and one.limits == other.limits and one.name == other.name


@pytest.mark.parametrize(
    "said",
    [
        CodesignOverrides(),
        CodesignOverrides(preset="phaze", devices=64),
        CodesignOverrides(
            preset="cores", area="300 mm2", power="200 W", endpoint="sm,ace", network="flat", seq=256, batch=64
        ),
    ],
)
def test_what_was_asked_is_asked_again_by_its_own_words(said):
    first = load_codesign("gpt2-345m", said)
    again = load_codesign(json.loads(json.dumps(codesign_entries(first))), CodesignOverrides())
    assert same(first, again)


def test_a_spec_with_everything_is_asked_again_by_its_own_words():
    spec = {
        "name": "all of it",
        "models": [
            {"model": "gpt2-345m", "global_batch": 32, "seq": 256, "precision": {"optimizer": "sgd"}},
            {"model": {"base": "llama2-7b", "num_layers": 4}, "global_batch": 16, "seq": 512},
        ],
        "weights": [2, 0.5],
        "chip": {
            "base": {"base": "tpuv4-like", "name": "mine", "tdp": "400 W"},
            "num_tensor": [2, 4],
            "clock_mhz": 900,
        },
        "devices": [8, 16],
        "budget": {"total_area": "9000 mm2", "total_power": "4 kW", "total_usd": 10000},
        "space": {"tp": [1, 2], "overlap": {"tensor": [True, False]}, "zero_stage": 1},
    }
    first = load_codesign(spec, CodesignOverrides())
    assert same(first, load_codesign(json.loads(json.dumps(codesign_entries(first))), CodesignOverrides()))
    assert not same(first, load_codesign(spec | {"weights": [2, 1]}, CodesignOverrides()))


@pytest.mark.parametrize("preset", ["chip", "cores", "phaze"])
def test_where_no_limit_is_said_a_chip_takes_no_more_than_its_base(preset):
    bare = load_codesign("gpt2-345m", CodesignOverrides(preset=preset))
    own = base_budget(bare.base, bare.space)
    is_free = preset == "phaze"  # whose own rule limits the area
    assert bare.budget == (Budget() if is_free else Budget(area_mm2=own.area_mm2, power_w=own.power_w))
    assert bare.limits.assumed == (() if is_free else ("area_mm2", "power_w"))


@pytest.mark.parametrize(
    ("budget", "names"),
    [
        ("base", ("area_mm2", "power_w")),
        ({"area": "base"}, ("area_mm2",)),
        ({"area": "900 mm2", "total_power": "base", "total_usd": "base"}, ("total_power_w", "total_usd")),
    ],
)
def test_a_limit_may_be_what_the_base_takes(budget, names):
    spec = load_codesign({"workload": "gpt2-345m", "devices": [8, 16], "budget": budget}, CodesignOverrides())
    own = base_budget(spec.base, spec.space)
    assert spec.limits.of_base == names
    assert {name: getattr(spec.budget, name) for name in names} == {name: getattr(own, name) for name in names}
    parts_w = network_kind(spec.network).parts.device_w(spec.base.interconnect_bytes_per_s, 16, own.power_w)
    assert parts_w > 0  # a TPU v4 pod has optical circuit switches
    assert own.total_power_w == pytest.approx(16 * (own.power_w + parts_w))
    again = load_codesign(json.loads(json.dumps(codesign_entries(spec))), CodesignOverrides())
    assert again.limits == spec.limits
    other = load_codesign({"workload": "gpt2-345m", "budget": budget}, CodesignOverrides(area="700 mm2"))
    assert (other.budget.area_mm2, "area_mm2" in other.limits.of_base) == (700.0, False)
    said = load_codesign({"workload": "gpt2-345m"}, CodesignOverrides(area="base", power="base"))
    assert (said.budget.area_mm2, said.limits.assumed) == (own.area_mm2, ())


def test_knobs_of_memories_and_dataflows_are_read_and_may_be_as_the_base_has_them():
    chip = {
        "base": "tpu-v4",
        "dataflow": ["flexible", "weight", "base"],
        "register_bytes_per_lane": [64, "base"],
        "vmem_mib": [8, "base"],
        "sram_bytes_per_clock": [2048, "base"],
    }
    spec = load_codesign({"workload": "gpt2-345m", "chip": chip}, CodesignOverrides())
    own, base = values(spec), spec.base
    assert own["dataflow"] == (2, 6, 7)
    assert own["register_bytes_per_lane"] == (64, 128)
    assert own["vmem_mib"] == (8, 16)
    assert own["sram_bytes_per_clock"] == (2048, base.sram.bandwidth_bytes_per_s / base.clock_hz)
    again = load_codesign(json.loads(json.dumps(codesign_entries(spec))), CodesignOverrides())
    assert values(again) == own


@pytest.mark.parametrize(
    ("chip", "told"),
    [
        ({"base": "tpu-v4", "dataflow": "rows"}, "a dataflow is output, weight"),
        ({"base": "tpu-v4", "dataflow": []}, "dataflow needs at least one of output"),
        ({"base": "tpu-v4", "vmem_mib": [0, 8]}, "vector cores of tpu-v4 work from vector memory"),
        ({"base": "tpu-v5e", "vmem_mib": 8}, "shared SRAM of tpu-v5e is the vector memory of its cores"),
        ({"base": "tpu-v5e", "vmem_bytes_per_clock": 8}, "choose sram_bytes_per_clock instead"),
        ({"base": "tpuv4-like", "vmem_bytes_per_clock": 8}, "choose vmem_mib as well"),
        ({"base": "tpu-v4", "core_buffer_kib": 64}, "choose vmem_mib instead"),
    ],
)
def test_what_a_base_has_not_is_refused(chip, told):
    with pytest.raises(InvalidInput, match=re.escape(told)):
        load_codesign({"workload": "gpt2-345m", "chip": chip}, CodesignOverrides())


@pytest.mark.parametrize("preset", ["chip", "cores"])
def test_a_chip_is_no_larger_than_a_reticle_where_only_other_limits_are_said(preset):
    bare = load_codesign("gpt2-345m", CodesignOverrides(preset=preset, power="200 W"))
    assert bare.budget == Budget(area_mm2=RETICLE_MM2, power_w=200.0)
    assert bare.limits.assumed == ("area_mm2",)
    said = load_codesign("gpt2-345m", CodesignOverrides(preset=preset, area="2000 mm2"))
    assert said.budget.area_mm2 == 2000
    assert said.limits.assumed == ()
    spec = load_codesign(
        {"workload": "gpt2-345m", "preset": preset, "budget": {"area": "900 mm2"}}, CodesignOverrides()
    )
    assert (spec.budget.area_mm2, spec.limits.assumed) == (900, ())


def test_a_package_of_two_dies_may_have_two_reticles():
    spec = {"workload": "gpt2-345m", "chip": {"base": {"base": "tpuv4-like", "die": {"dies": 2}}}}
    assert load_codesign(spec, CodesignOverrides(power="500 W")).budget.area_mm2 == 1716


@pytest.mark.parametrize(
    ("section", "told"),
    [
        (
            {"budget": {"total_usd": "10 k$"}},
            "total_usd must be dollars as a number without a unit, as in 10000; got '10 k$'",
        ),
        ({"budget": {"total_usd": [1]}}, "total_usd must be a number; got"),
        ({"weights": ["2"]}, "must be a number; got '2'"),
    ],
)
def test_what_is_no_number_is_named_as_it_is_written(section, told):
    with pytest.raises(InvalidInput) as error:
        load_codesign({"workload": "gpt2-345m"} | section, CodesignOverrides())
    assert told in str(error.value)
    assert "float" not in str(error.value)
    assert "int" not in str(error.value)
