"""A spec becomes a job, and each of its parts can be named, written out, or kept in another file."""

from __future__ import annotations

import json

import pytest

from dovetail.errors import InvalidInput
from dovetail.files.cluster import load_cluster
from dovetail.files.job import Job, load_plan, load_spec, load_workload
from dovetail.files.job_text import model_entries
from dovetail.files.model import load_model
from dovetail.files.value_formats import yaml_lines
from dovetail.parallel.plan import Overlap, Plan
from dovetail.workload.optimizer import Precision
from dovetail.workload.routing import Routing
from dovetail.workload.transformer import Transformer

SPEC = """\
name: a job
workload:
  model: llama3-8b
  global_batch: 64
  seq: 4096
  attention: unfused
  kernels: eager
  precision: {optimizer: sgd, compute: fp16, master_weights: false, momentum: false, persistent_gradients: false}
cluster: {name: dgx-h100, devices: 64}
plan:
  tensor_parallel: 4
  sequence_parallel: true
  context_parallel: 1
  pipeline_parallel: 2
  interleave: 2
  data_parallel: 8
  zero_stage: 1
  microbatch: 2
  recompute: [selective, none]
  layers_per_stage: [7, 9, 9, 7]
  axis_order: [tp, cp, pp, dp]
  overlap: {tensor: true}
"""


def test_every_line_of_a_spec_arrives(write):
    job = load_spec(write(SPEC))
    assert isinstance(job, Job)
    assert job.name == "a job"
    assert (job.workload.model.name, job.workload.global_batch, job.workload.seq) == ("llama3-8b", 64, 4096)
    assert (job.workload.attention, job.workload.kernels) == ("unfused", "eager")
    assert job.workload.precision == Precision(
        optimizer="sgd", compute="fp16", has_master_weights=False, has_momentum=False, has_persistent_gradients=False
    )
    assert (job.cluster.name, job.cluster.num_devices) == ("dgx-h100", 64)
    assert job.plan == Plan(
        tensor_parallel=4,
        sequence_parallel=True,
        pipeline_parallel=2,
        interleave=2,
        data_parallel=8,
        zero_stage=1,
        microbatch=2,
        recompute=("selective", "none"),
        layers_per_stage=(7, 9, 9, 7),
        axis_order=("tp", "cp", "pp", "dp"),
        overlap=Overlap(tensor=True),
    )


def test_names_alone_take_the_catalogue_defaults_and_the_file_names_the_job(write):
    job = load_spec(write("workload: llama3-8b\ncluster: dgx-h100\nplan: zero3\n", "first.yaml"))
    model = job.workload.model
    assert (job.workload.seq, job.workload.global_batch) == (model.seq, model.batch)
    assert job.plan == Plan(zero_stage=3, data_parallel=job.cluster.num_devices)
    assert job.name == "first"


def test_a_json_spec_is_as_good_as_yaml(write):
    text = json.dumps({"workload": "llama3-8b", "cluster": {"name": "dgx-h100", "devices": 8}, "plan": {"tp": 8}})
    assert load_spec(write(text, "spec.json")).plan.tensor_parallel == 8


def test_short_names_say_the_same_as_long_ones(write):
    short = load_spec(
        write("workload: llama3-8b\ncluster: {name: dgx-h100, devices: 64}\nplan: {tp: 4, cp: 2, pp: 2}\n")
    )
    assert short.plan == Plan(tensor_parallel=4, context_parallel=2, pipeline_parallel=2, data_parallel=4)


def test_data_parallelism_left_out_fills_the_cluster(write):
    spec = "workload: llama3-8b\ncluster: {name: dgx-h100, devices: 64}\nplan: {tp: 4}\n"
    assert load_spec(write(spec)).plan.data_parallel == 16


def test_expert_tensor_parallelism_left_out_follows_tensor_parallelism_only_where_there_are_experts(write):
    spec = "workload: {}\ncluster: {{name: dgx-h100, devices: 64}}\nplan: {{tp: 2, sequence_parallel: true{}}}\n"
    assert load_spec(write(spec.format("mixtral-8x7b", ", ep: 8"))).plan.expert_tensor_parallel == 2
    assert load_spec(write(spec.format("mixtral-8x7b", ", ep: 8, etp: 1"))).plan.expert_tensor_parallel == 1
    assert load_spec(write(spec.format("llama3-8b", ""))).plan.expert_tensor_parallel == 1


def test_a_schedule_is_taken_by_name_and_zero_bubble_v_cuts_stages_in_two_unasked(write):
    spec = "workload: llama3-8b\ncluster: {{name: dgx-h100, devices: 64}}\nplan: {{tp: 8, pp: 4, schedule: {}}}\n"
    assert load_spec(write(spec.format("zb-h1"))).plan.schedule == "zb-h1"
    plan = load_spec(write(spec.format("zb-v"))).plan
    assert (plan.schedule, plan.interleave) == ("zb-v", 2)
    with pytest.raises(InvalidInput, match=r"named 'zbv'; did you mean zb-v\? \(spec.yaml:3: plan.schedule\)"):
        load_spec(write(spec.format("zbv")))
    with pytest.raises(InvalidInput, match="zb-v comes past each stage twice: interleave must be 2; got 3"):
        load_spec(write(spec.format("zb-v, interleave: 3")))


def test_a_named_plan_can_be_changed(write):
    spec = "workload: llama3-8b\ncluster: {name: dgx-h100, devices: 64}\nplan: {base: tensor-8, microbatch: 2, pp: 2}\n"
    plan = load_spec(write(spec)).plan
    assert (plan.tensor_parallel, plan.sequence_parallel, plan.microbatch) == (8, True, 2)
    assert (plan.pipeline_parallel, plan.data_parallel) == (2, 4)


def test_a_plan_for_one_number_of_devices_does_not_fill_another(write):
    spec = "workload: gpt3-175b\ncluster: {name: dgx-h100, devices: 512}\nplan: phaze-gpt3-175b\n"
    with pytest.raises(InvalidInput, match="phaze-gpt3-175b is a plan for 1,024 devices, and there are 512; give"):
        load_spec(write(spec))


# --- parts in other files -------------------------------------------------------------------------------------------


def test_a_file_is_found_beside_the_file_that_names_it(write):
    write("model: shapes/tiny.yaml\n", "parts/work.yaml")
    write("{base: llama3-8b, name: tiny, num_layers: 2}\n", "parts/shapes/tiny.yaml")
    job = load_spec(write("workload: parts/work.yaml\ncluster: {name: dgx-h100, devices: 8}\nplan: ddp\n"))
    assert job.workload.model.name == "tiny"
    assert job.workload.model.source == "given in tiny.yaml"


def test_a_whole_spec_can_stand_for_any_of_its_parts(write):
    whole = str(write(SPEC, "whole.yaml"))
    assert load_workload(whole).global_batch == 64
    assert load_cluster(whole).num_devices == 64
    assert load_plan(whole, load_workload(whole), load_cluster(whole)).interleave == 2
    job = load_spec(write("workload: whole.yaml\ncluster: whole.yaml\nplan: zero1\n"))
    assert (job.workload.seq, job.plan.data_parallel) == (4096, 64)


def test_the_catalogue_wins_over_a_file_unless_a_slash_or_an_ending_says_file(write):
    write("{base: llama3-8b, name: mine}\n", "llama3-8b")
    write("{base: llama3-8b, name: mine}\n", "only-a-file")
    assert load_model("llama3-8b").name == "llama3-8b"
    assert load_model("./llama3-8b").name == "mine"
    assert load_model("only-a-file").name == "mine"


def test_an_alias_repeats_a_value(write):
    spec = "workload: llama3-8b\ncluster: {name: dgx-h100, devices: &n 8}\nplan: {tp: *n}\n"
    assert load_spec(write(spec)).plan.tensor_parallel == 8


def test_a_byte_order_mark_is_forgiven(write):
    assert load_spec(write(b"\xef\xbb\xbf" + SPEC.encode())).name == "a job"


# --- models ---------------------------------------------------------------------------------------------------------


def test_a_model_written_out_is_the_transformer_it_says(write):
    text = """\
{name: tiny, num_layers: 4, hidden: 256, num_heads: 8, num_kv_heads: 2, head_width: 32, ffn_width: 512, vocab: 1000,
 is_tied: true, seq: 128, batch: 16, num_dense_layers: 1,
 experts: {num_experts: 4, num_experts_per_token: 2, width: 64},
 latent: {query_rank: 0, kv_rank: 16, nope_width: 16, rotary_width: 16, value_width: 32}}
"""
    model = load_model(str(write(text, "tiny.yaml")))
    assert isinstance(model.architecture, Transformer)
    assert (model.architecture.num_layers, model.architecture.is_tied) == (4, True)
    assert model.architecture.experts is not None
    assert model.architecture.experts.width == 64
    assert model.architecture.latent is not None
    assert (model.seq, model.batch) == (128, 16)


def test_a_layer_pattern_is_names_and_how_many_of_each_follow_each_other(write):
    text = "{base: llama3-8b, name: local-global, window: 1024, layer_types: [[sliding_attention, 5], full_attention]}"
    model = load_model(str(write(text, "local.yaml")))
    assert isinstance(model.architecture, Transformer)
    assert model.architecture.layer_types == (("sliding_attention", 5), ("full_attention", 1))
    again = "\n".join(yaml_lines(dict(model_entries(model))))  # type: ignore[arg-type]
    assert load_model(str(write(again, "again.yaml"))).architecture == model.architecture


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("[[sliding_attention, 0]]", "layer_types: sliding_attention needs a count of at least 1; got 0"),
        ("[sliding]", "layer_types: no layer type is named 'sliding'; did you mean sliding_attention?"),
        ("[[5, sliding_attention]]", "must be a name, or a name and a count such as [name, 5]"),
        ("[dense]", "layer_types: no layer type is named 'dense'"),
    ],
)
def test_a_layer_pattern_that_says_nothing_is_refused_in_one_line(write, pattern, message):
    file = write(f"{{base: llama3-8b, name: x, window: 1024, layer_types: {pattern}}}", "bad.yaml")
    with pytest.raises(InvalidInput) as caught:
        load_model(str(file))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_workload_may_say_how_long_a_sample_is_where_the_model_does_not(write, refusal):
    shape = (
        "name: t, num_layers: 4, hidden: 64, num_heads: 8, num_kv_heads: 2, head_width: 8, ffn_width: 64, vocab: 100"
    )
    spec = "workload: {{model: {{{}}}{}}}\ncluster: {{name: dgx-h100, devices: 8}}\nplan: ddp\n"
    assert load_spec(write(spec.format(shape, ", seq: 512"))).workload.model.seq == 512
    assert refusal(spec.format(shape, "")).startswith("seq is missing")


def test_a_hugging_face_configuration_is_a_model(write):
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 128,
        "vocab_size": 1000,
        "hidden_act": "silu",
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
    }
    model = load_model(str(write(json.dumps(config), "my-llama/config.json")))
    assert (model.name, model.seq) == ("my-llama", 512)
    assert isinstance(model.architecture, Transformer)
    assert model.architecture.ffn_width == 128


def test_a_model_changed_from_a_base_is_not_called_as_its_base(write):
    assert load_model(str(write("{base: llama3-8b, num_layers: 2}\n", "a.yaml"))).name == "llama3-8b-changed"
    assert load_model(str(write("{base: llama3-8b, num_layers: 2, name: mine}\n", "b.yaml"))).name == "mine"


@pytest.mark.parametrize("name", ["a\x1b[31mb.yaml", "a\nb.yaml"])
def test_a_name_taken_from_a_file_is_printable(write, name):
    assert load_spec(write(SPEC.replace("name: a job\n", ""), name)).name.isprintable()
    config = '{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, '
    config += '"num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 1000, "max_position_embeddings": 512}'
    assert load_model(str(write(config, name.replace("yaml", "json")))).name.isprintable()


def test_a_routing_is_read_with_the_workload(write):
    routing = "{expert_imbalance: 1.5, capacity_factor: 1.25, pads_to_capacity: true}"
    workload = f"workload: {{model: mixtral-8x7b, routing: {routing}}}\n"
    job = load_spec(write(workload + "cluster: {name: dgx-h100, devices: 8}\nplan: {zero_stage: 1}\n"))
    assert job.workload.routing == Routing(expert_imbalance=1.5, capacity_factor=1.25, pads_to_capacity=True)


@pytest.mark.parametrize(
    ("model", "routing", "message"),
    [
        ("mixtral-8x7b", "{expert_imbalance: 0.5}", "at least 1; got 0.5"),
        ("mixtral-8x7b", "{imbalance: 2}", "no key of routing is named 'imbalance'"),
        ("llama3-8b", "{expert_imbalance: 2}", "llama3-8b has no experts to route rows to; leave routing out"),
    ],
)
def test_a_routing_that_cannot_be_is_refused_where_it_stands(write, model, routing, message):
    spec = f"workload: {{model: {model}, routing: {routing}}}\ncluster: {{name: dgx-h100, devices: 8}}\nplan: ddp\n"
    with pytest.raises(InvalidInput) as error:
        load_spec(write(spec))
    assert message in str(error.value)
    assert "spec.yaml:1: workload.routing" in str(error.value)
