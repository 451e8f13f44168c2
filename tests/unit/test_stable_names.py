"""Keys, kept rows and model files go by names that no rename in the code can change."""

from __future__ import annotations

import hashlib
import json
from dataclasses import MISSING, dataclass, fields
from typing import Any

import pytest

from dovetail import stable_names
from dovetail.files.value_json import as_plain
from dovetail.hardware.catalog import chips
from dovetail.parallel.plan import Overlap, Plan
from dovetail.search.codesign.rows import plan_facts, question_facts
from dovetail.search.mining.identity import digest_of
from dovetail.search.mining.task import whole_batch
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.stable_names import TYPES, StableField, StableType, stable_facts, stable_type
from dovetail.workload.operators import DTYPES, OPERATORS
from tests.codesign_questions import CASES, question, workload
from tests.stable_values import filled, reached

FIRST = {
    name: {field.python: field.stable for field in kind.fields if not field.is_later} for name, kind in TYPES.items()
}
# Of `filled` values, by stable name, as 0.1 computes them. A digest here never changes.
DIGESTS = {
    "TrainingJob": "ced88d408c22f138",
    "Load": "fb3206cded2321b4",
    "Repeated": "4d6203811b7afd18",
    "Work": "75aa03608a88cff1",
    "Ops": "24b84cb1ea940fff",
    "Tensors": "4cc2c34ab01b78c6",
    "Chip": "81475b843f62c000",
    "TensorUnits": "da21793182fbea0d",
    "Tiling": "5fe1d7113797c96c",
    "VectorUnits": "4c2a592c7c0bb86b",
    "Memory": "b5bc85ab2e47a3d2",
    "Calibration": "d0c0e5301b2dfe3b",
    "EnergyCosts": "933cd22a9fcc8ea5",
    "Die": "7b8c9bcf6ad26391",
    "Measured": "0051a9a626ee4d29",
    "MeasuredOp": "0550f60cc9bebcda",
    "Block": "6ff68f7ecb230545",
    "Precision": "cf1f41e4d7535e20",
    "Limits": "e3979bfb308a1592",
    "Design": "af99c26904ca1e6a",
    "Budget": "e4de905db655ec28",
    "Plan": "36456df31f6afa98",
    "Overlap": "4103646321e66b2e",
    "PlanSpace": "e9092677dc9e3851",
    "CasePlan": "0b1683aaf1756b79",
    "RefinedCase": "20e3913ff632d72a",
    "Captured": "38beec77493abefb",
    "Stretch": "4c5f21cab70c22b8",
    "Part": "8446eacec2379d2f",
    "Size": "06ac5135227b32cc",
    "Limit": "06018cab91e27778",
}
# What kept plans and model files of 0.1 leave out, as it was the default: a default that moves changes what they say.
LEFT_OUT: dict[str, dict[str, Any]] = {
    "Plan": {
        "tensor_parallel": 1,
        "sequence_parallel": False,
        "context_parallel": 1,
        "context_exchange": "gather",
        "pipeline_parallel": 1,
        "interleave": 1,
        "schedule": "1f1b",
        "data_parallel": 1,
        "expert_parallel": 1,
        "expert_tensor_parallel": 1,
        "sends_once": False,
        "zero_stage": 0,
        "microbatch": 1,
        "recompute": ("none",),
        "recompute_layers": (),
        "layers_per_stage": (),
        "stage_parts": (),
        "offload_optimizer": False,
        "offload_activations_frac": 0.0,
        "framework": "plain",
        "axis_order": ("tp", "cp", "dp", "pp"),
    },
    "Overlap": {
        "data": True,
        "tensor": False,
        "context": True,
        "expert": False,
        "pipeline": True,
        "host": True,
        "routing": True,
    },
    "Captured": {"notes": ()},
    "Stretch": {"repeat": 1, "is_layer": True, "is_input_data": False},
    "Part": {
        "operator": "",
        "weight": 0,
        "weight_axes": 0,
        "bias": 0,
        "is_tied": False,
        "output_frac": 1.0,
        "shared_frac": 1.0,
        "stride": 1,
        "num_heads": 0,
        "num_kv_heads": 0,
        "is_causal": False,
        "has_dropout": False,
        "score_kinds": (),
        "num_copies": 1,
        "is_core": False,
        "is_whole": False,
    },
    "Size": {"num_batch": 0, "num_seq": 0, "per": 1},
    "Limit": {},
}
# Digests of models in the words of 0.1: of the cases of joint searches, and of jobs that chips are mined for.
CASE_DIGESTS = {
    "dense": ("990181c6fff0a31d", "b629f3cd16eec25d"),
    "tied": ("ba3733d896c700c2", "364611e49b4c545d"),
    "experts": ("eea60ae0f47d2e18", "3a0125739a158bb3"),
    "vision": ("1ace47c73dceb631", "5abc412d5e9be419"),
}
JOB_DIGESTS = {
    "dense": "3ba49562467ebb4c",
    "tied": "1daed27bc4860d0a",
    "experts": "0e52fc7920353f97",
    "vision": "7ce70132a5a74d29",
}
# Graphs hold operators and dtypes by their place, and are hashed so: new ones go to the end.
OPERATORS_OF_0_1 = (
    "input linear expert_linear matmul convolution attention layernorm rmsnorm batchnorm gelu silu hardswish "
    "hardsigmoid tanh sigmoid relu softmax silu_mul gelu_mul mul add bias_add concat scale rope dropout maxpool "
    "avgpool cross_entropy inplace_cross_entropy fused_cross_entropy binary_cross_entropy embedding embedding_bag "
    "lstm_cell router permute unpermute bias_grad adam sgd gather reduce dispatch combine expert_gather "
    "expert_reduce context_gather context_reduce vocab_reduce recurrent_linear strided_maxpool strided_avgpool "
    "channel_scale pairwise_add cast transpose copy clamped_silu_mul quantize amax attention_1 attention_2 merge "
    "elementwise where reduction constant"
)
DTYPES_OF_0_1 = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4")


def test_every_type_that_enters_a_key_or_a_file_has_a_stable_name():
    assert [name for name in reached() if name not in TYPES] == []
    assert [name for name in TYPES if name not in reached()] == [], "no value on disk is of these"


@pytest.mark.parametrize("name", sorted(reached()))
def test_every_field_of_a_type_that_enters_a_key_has_a_stable_name(name):
    kind, own = reached()[name], TYPES[name]
    declared = [field.python for field in own.fields]
    assert [field.name for field in fields(kind) if field.name not in declared] == [], f"of {name}: not in TYPES"
    assert [field for field in declared if field not in {each.name for each in fields(kind)}] == [], f"of {name}: gone"
    assert len({field.stable for field in own.fields}) == len(own.fields)


@pytest.mark.parametrize("name", sorted(reached()))
def test_a_field_that_came_later_is_left_out_at_its_default(name):
    """So a study that knew nothing of it is found again, and a file without it reads as it was written."""
    defaults = {field.name: field for field in fields(reached()[name])}
    for field in TYPES[name].fields:
        if field.is_later:
            own = defaults[field.python]
            default = own.default if own.default_factory is MISSING else own.default_factory()
            assert default == field.absent, f"{name}.{field.python}: absent in keys, so the default"


def test_no_stable_name_of_0_1_was_changed_or_dropped():
    by_stable = {kind.stable: name for name, kind in TYPES.items()}
    assert [name for name in DIGESTS if name not in by_stable] == []


@pytest.mark.parametrize("stable", DIGESTS)
def test_the_hash_of_a_value_is_the_one_of_0_1(stable):
    name = next(name for name, kind in TYPES.items() if kind.stable == stable)
    assert digest_of(filled(reached()[name], FIRST))[:16] == DIGESTS[stable]


@pytest.mark.parametrize("name", CASES)
def test_the_hash_of_a_model_is_the_one_of_0_1(name):
    asked = question((name,), {})
    [case] = question_facts(asked, metric="throughput", network="torus", rule="chip")["cases"]
    digest = hashlib.sha256(json.dumps(case, sort_keys=True).encode()).hexdigest()
    assert (case["digest"][:16], digest[:16]) == CASE_DIGESTS[name]
    job = whole_batch(workload(name)).job(chips["tpuv4-like"]())
    assert digest_of(job)[:16] == JOB_DIGESTS[name]


def test_operators_and_dtypes_of_0_1_keep_their_places():
    names = OPERATORS_OF_0_1.split()
    assert [operator.name for operator in OPERATORS[: len(names)]] == names
    assert DTYPES[: len(DTYPES_OF_0_1)] == DTYPES_OF_0_1


@pytest.mark.parametrize("stable", LEFT_OUT)
def test_what_kept_plans_and_files_leave_out_is_still_the_default(stable):
    name = next(name for name, kind in TYPES.items() if kind.stable == stable)
    stably = {field.stable: field for field in TYPES[name].fields}
    own = {field.name: field for field in fields(reached()[name])}
    now = {}
    for field in LEFT_OUT[stable]:
        kept = own[stably[field].python]
        now[field] = stably[field].stable_value(kept.default if kept.default_factory is MISSING else ())
    assert now == LEFT_OUT[stable]


def test_a_plan_is_kept_in_the_words_of_0_1():
    overlap = Overlap(tensor=True)
    plan = Plan(tensor_parallel=2, pipeline_parallel=2, recompute=("full",), layers_per_stage=(3, 5), overlap=overlap)
    assert plan_facts(plan) == {
        "tensor_parallel": 2, "pipeline_parallel": 2, "recompute": ["full"], "layers_per_stage": [3, 5],
        "overlap": {"data": True, "tensor": True, "context": True, "expert": False, "pipeline": True, "host": True,
                    "routing": True},
    }  # fmt: skip


# --- what a rename, a new field and another meaning do ---------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Before:
    width: int
    depth: int


@dataclass(frozen=True, kw_only=True)
class After:
    """`Before`, renamed: its fields too, in another order, and one more."""

    layers: int
    width_bytes: int
    ways: tuple[int, ...] = ()


OLD = StableType(stable="Shape", fields=(StableField(python="width", stable="width"),
                                         StableField(python="depth", stable="depth")))  # fmt: skip
NEW = StableType(
    stable="Shape",
    fields=(
        StableField(python="width_bytes", stable="width"),
        StableField(python="layers", stable="depth"),
        StableField(python="ways", stable="ways", is_later=True, absent=()),
    ),
)


@pytest.fixture
def shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stable_names, "TYPES", {"Before": OLD, "After": NEW})


@pytest.mark.usefixtures("shapes")
def test_a_renamed_type_with_renamed_moved_and_new_fields_has_the_same_key():
    before, after = Before(width=3, depth=4), After(layers=4, width_bytes=3)
    assert digest_of(before) == digest_of(after)
    assert stable_facts(before) == stable_facts(after) == {"width": 3, "depth": 4}
    assert After(**stable_type(After).python_names({"width": 3, "depth": 4})) == after
    assert as_plain(after) == as_plain(before) == {"width": 3, "depth": 4}


@pytest.mark.usefixtures("shapes")
def test_a_new_field_that_says_something_is_another_question():
    plain, more = After(layers=4, width_bytes=3), After(layers=4, width_bytes=3, ways=(2,))
    assert digest_of(plain) != digest_of(more)
    assert stable_facts(more) == {"width": 3, "depth": 4, "ways": (2,)}


def test_another_meaning_is_another_key(monkeypatch):
    digests: set[str] = set()
    for version in (1, 2):
        changed = StableType(stable="Shape", fields=OLD.fields, version=version)
        monkeypatch.setattr(stable_names, "TYPES", {"Before": changed})
        digests.add(digest_of(Before(width=3, depth=4)))
    assert len(digests) == 2


def test_a_type_without_a_stable_name_is_named():
    with pytest.raises(AssertionError, match="Before has no stable name; add it to TYPES"):
        digest_of(Before(width=3, depth=4))
    unknown: Any = {"no_such_field": 1}
    with pytest.raises(KeyError, match="no_such_field"):
        stable_type(Plan).python_names(unknown)


def test_a_value_that_was_renamed_is_hashed_and_kept_by_its_old_name_and_read_by_both() -> None:
    plan = Plan(recompute=("norm-activation",), framework="megatron-lm")
    assert plan_facts(plan) == {"recompute": ["light"], "framework": "megatron"}
    assert plan == Plan(recompute=("light",), framework="megatron")
    assert PlanSpace(recompute=("alternate", "full")).recompute == ("selective-op", "full")
    assert stable_facts(PlanSpace(recompute=("selective-op",)))["recompute"] == ("alternate",)
