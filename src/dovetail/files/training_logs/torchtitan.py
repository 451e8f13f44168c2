"""TorchTitan's log: the line of a step, what it prints of mesh, batch and GPU, and its printed configuration.

Lines are as torchtitan/components/metrics.py writes them: `tps`, before 2025 `wps`, are tokens per second of one
device, and memory is what the allocator reserved at the peak since the line before.
"""

from __future__ import annotations

import ast
import json
import math
import re
from typing import Any

from dovetail.files.training_logs import LogFormat, log_formats, matching
from dovetail.files.training_logs.draft import MAX_STEP, Draft, Line, count_in, number_in
from dovetail.report.launchers.frameworks.torchtitan import FLAVORS
from dovetail.units import GIBI

STEP_LINE = re.compile(r"(?<!validate )\bstep:\s*(\d+)\s+(?:loss|global_avg_loss|current loss):")
_RATE = re.compile(r"\b(?:tps|wps):\s*([\d.,]+)(?=\s|$)")
_MEMORY = re.compile(r"\bmemory:\s*([\d.]+)GiB\(")
_STARTED = re.compile(r"Training starts at step (\d+)")
_BATCH = re.compile(r"global batch size (\d[\d,]*)(?=,)")
_LOCAL = re.compile(r"local batch size (\d[\d,]*)(?=,)")
_SEQ = re.compile(r"sequence length (\d[\d,]*)(?=,)")
_MESH = re.compile(r"Building device mesh with parallelism: (.+)")
_OLD_MESH = re.compile(r"Building \d-D device mesh with \[([^\]]*)\], \[([^\]]*)\]")
_MODEL = re.compile(r"(?:Model|Building) (\S+) (\S+) (?:size:|with )")
_CAPACITY = re.compile(r"CUDA capacity: (.+?) with [\d.]+GiB memory")
_RECOMPUTE = re.compile(r"Applied (\w+?)(?:AC)? activation checkpointing")
_CONFIG = re.compile(r"Running with (?:args|config|configs): (\{.*)")
_EVALUATED = re.compile(r"\bvalidate step:|Validating at step")
_SAVING = re.compile(r"Saving (?:the|a) (?:\w+ )?checkpoint|Finished saving the checkpoint")
_LOG_HEAD = re.compile(r"^.*? - root - \w+ - ")
_SCHEDULES = {"gpipe": "gpipe", "zbvzerobubble": "zb-v", "interleaved1f1b": "interleaved"}
_OTHER_SCHEDULES = ("dualpipev", "interleavedzerobubble", "looped", "csv")
MAX_CONFIG_LINES = 2000


def read(lines: list[Line], draft: Draft) -> None:
    facts: dict[str, Any] = {}
    config: dict[str, Any] = {}
    for index, line in enumerate(lines):
        text = line.text
        if STEP_LINE.search(text):
            _take_step(line, draft)
        elif _EVALUATED.search(text):
            draft.evaluated()
        elif _SAVING.search(text):
            draft.checkpointed()
        elif printed := _CONFIG.search(text):
            config = _config(printed[1], lines[index + 1 : index + MAX_CONFIG_LINES], line.rank) or config
        else:
            _take_fact(text, facts, draft)
    _take_job(config, facts, draft)


def _take_step(line: Line, draft: Draft) -> None:
    steps, rate = list(STEP_LINE.finditer(line.text)), _RATE.search(line.text)
    if len(steps) > 1:
        return draft.cannot_read(line, "two ranks wrote into one another")
    if rate is None:
        return draft.cannot_read(line, "it ends before its tps")
    memory = _MEMORY.search(line.text)
    reserved = number_in(memory[1]) * GIBI if memory else 0.0
    return draft.took(
        line,
        count_in(steps[0][1]),
        {"tokens_per_s_per_device": number_in(rate[1])},
        reserved_bytes=reserved if reserved > 0 else 0.0,
    )


def _take_fact(text: str, facts: dict[str, Any], draft: Draft) -> None:
    if _STARTED.search(text):
        draft.started()
    for key, pattern in (("global_batch", _BATCH), ("local_batch", _LOCAL), ("seq", _SEQ)):
        if found := pattern.search(text):
            facts[key] = count_in(found[1])
    if mesh := _MESH.search(text):
        facts["mesh"] = dict(re.findall(r"(\w+)=(\d+)", mesh[1]))
    elif mesh := _OLD_MESH.search(text):
        names, sizes = (re.findall(r"\w+", part) for part in mesh.groups())
        facts["mesh"] = dict(zip(names, sizes, strict=False))
    elif model := _MODEL.search(text):
        facts["model"] = (model[1], model[2])
    elif capacity := _CAPACITY.search(text):
        draft.device = capacity[1]
    elif recompute := _RECOMPUTE.search(text):
        facts["recompute"] = recompute[1].lower()
    elif "with torch.compile" in text:
        facts["is_compiled"] = True
    elif "Float8Linear" in text or "Float8 tensorwise" in text:
        facts["is_fp8"] = True


def _config(begin: str, after: list[Line], rank: str) -> dict[str, Any]:
    """The printed configuration: a Python dict on one line, or JSON over many; nothing where it cannot be read."""
    text = begin
    for line in after:
        if text.count("{") == text.count("}"):
            break
        if line.rank == rank:
            text += "\n" + _LOG_HEAD.sub("", line.text)
    text = text[: text.rfind("}") + 1]
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        try:
            found = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return {}
    return found if isinstance(found, dict) else {}


def _take_job(config: dict[str, Any], facts: dict[str, Any], draft: Draft) -> None:
    """What the configuration says, and where it says nothing the lines at the start."""
    training, parallelism = _section(config, "training"), _section(config, "parallelism")
    degrees = _degrees(parallelism or training, facts)
    if degrees:
        draft.describe("cluster", devices=math.prod(degrees.values()))
    name = _model_name(config, facts)
    if name:
        draft.describe("workload", model=name)
    global_batch = facts.get("global_batch", 0) or _whole(training.get("global_batch_size"))
    local = facts.get("local_batch", 0) or _whole(training.get("local_batch_size", training.get("batch_size")))
    ways = degrees.get("dp", 0)
    draft.describe(
        "workload",
        global_batch=global_batch if global_batch > 0 else local * ways,
        seq=facts.get("seq", 0) or _whole(training.get("seq_len")),
        attention="flash-2",  # what PyTorch's scaled_dot_product_attention chooses by itself
        kernels="compiled" if _is_compiled(config, facts) else "eager",
        precision=_precision(config, training, facts),
    )
    if not degrees:
        return
    plan = _plan(config, facts, degrees, local, draft)
    if plan:
        draft.describe("plan", **plan)


def _section(config: dict[str, Any], name: str) -> dict[str, Any]:
    found = config.get(name)
    return found if isinstance(found, dict) else {}


def _whole(value: object) -> int:
    return value if type(value) is int and 0 < value <= MAX_STEP else 0


def _degrees(parallelism: dict[str, Any], facts: dict[str, Any]) -> dict[str, int]:
    """Data, tensor, context and pipeline parallel degrees as the mesh has them; empty where the log does not say."""
    mesh = {name: count_in(size) for name, size in facts.get("mesh", {}).items()}
    if not mesh:
        named = {
            "dp_replicate": "data_parallel_replicate_degree",
            "dp_shard": "data_parallel_shard_degree",
            "tp": "tensor_parallel_degree",
            "cp": "context_parallel_degree",
            "pp": "pipeline_parallel_degree",
        }
        values = {short: parallelism.get(key) for short, key in named.items()}
        if _whole(values["dp_shard"]) < 1:  # -1: as many as are left, which the configuration does not say
            return {}
        mesh = {short: _whole(value) or 1 for short, value in values.items()}
    facts["shard"], facts["replicate"] = mesh.get("dp_shard", 1), mesh.get("dp_replicate", mesh.get("dp", 1))
    ways = facts["shard"] * facts["replicate"]  # experts are dealt out over the same ranks
    return {"dp": ways} | {axis: mesh.get(axis, 1) or 1 for axis in ("tp", "cp", "pp")}


def _model_name(config: dict[str, Any], facts: dict[str, Any]) -> str:
    model = _section(config, "model")
    flavor = facts.get("model") or (model.get("name"), model.get("flavor"))
    return next((name for name, known in FLAVORS.items() if known == tuple(flavor)), "")


def _is_compiled(config: dict[str, Any], facts: dict[str, Any]) -> bool:
    compiled = _section(config, "compile") or _section(config, "training")
    return bool(facts.get("is_compiled") or compiled.get("enable") is True or compiled.get("compile") is True)


def _precision(config: dict[str, Any], training: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    converters = _section(config, "model").get("converters")
    is_fp8 = facts.get("is_fp8") or (isinstance(converters, list) and any("float8" in str(one) for one in converters))
    is_narrow = training.get("dtype") == "bfloat16"
    param = training.get("mixed_precision_param", "bfloat16")
    compute = "fp8" if is_fp8 else "fp32" if param == "float32" and not is_narrow else "bf16"
    if is_narrow:
        return {"compute": compute, "weights": "bf16", "master_weights": False}
    return {"compute": compute, "weights": "fp32", "master_weights": False, "persistent_gradients": False}


def _plan(
    config: dict[str, Any], facts: dict[str, Any], degrees: dict[str, int], local: int, draft: Draft
) -> dict[str, Any]:
    """The plan; empty, with a note, where it is one that we have no words for."""
    parallelism = _section(config, "parallelism") or _section(config, "training")
    if facts["shard"] > 1 and facts["replicate"] > 1:
        draft.notes.append("parameters are sharded and replicated (HSDP), which is not modelled: name a plan by --plan")
        return {}
    stages, schedule = degrees["pp"], str(parallelism.get("pipeline_parallel_schedule", "1F1B")).lower()
    if stages > 1 and schedule in _OTHER_SCHEDULES:
        draft.notes.append(f"the pipeline schedule {schedule} is not modelled: name a plan by --plan")
        return {}
    plan: dict[str, Any] = {
        "tensor_parallel": degrees["tp"],
        "context_parallel": degrees["cp"],
        "pipeline_parallel": stages,
        "microbatch": local or 1,
        "zero_stage": _zero_stage(parallelism, facts, stages),
        "framework": "torchtitan",
        "overlap": {"tensor": parallelism.get("enable_async_tensor_parallel") is True},
    }
    if degrees["tp"] > 1:
        plan["sequence_parallel"] = True
    if stages > 1:
        plan["microbatch"] = _whole(parallelism.get("pipeline_parallel_microbatch_size")) or 1
        if schedule in _SCHEDULES:
            plan["schedule"] = _SCHEDULES[schedule]
        if schedule == "interleaved1f1b":
            plan["interleave"] = 2  # torchtitan/distributed/pipeline_parallel.py: two stages per rank by default
    experts = count_in(str(facts.get("mesh", {}).get("ep", "")))
    if experts > 1:
        plan["expert_parallel"] = experts
        plan["expert_tensor_parallel"] = count_in(str(facts["mesh"].get("etp", "1"))) or 1
    return plan | _recompute(_section(config, "activation_checkpoint"), facts, draft)


def _zero_stage(parallelism: dict[str, Any], facts: dict[str, Any], stages: int) -> int:
    """FSDP gathers for each pass, ZeRO-3; with a pipeline it keeps what it gathered, ZeRO-2, by default."""
    if facts["shard"] < 2:
        return 0
    policy = parallelism.get("fsdp_reshard_after_forward", "default")
    if policy == "default":
        return 2 if stages > 1 else 3
    return 2 if policy == "never" else 3


def _recompute(section: dict[str, Any], facts: dict[str, Any], draft: Draft) -> dict[str, Any]:
    mode = str(section.get("mode") or facts.get("recompute") or "none").lower()
    option = str(section.get("selective_ac_option", "op"))
    if mode == "full":
        return {"recompute": "full"}
    if mode != "selective":
        return {}
    if option not in ("op", ""):
        draft.notes.append(f"every {option}-th layer is recomputed, which is read as none: name a plan by --plan")
        return {}
    return {"recompute": "selective-op"}


log_formats.register("torchtitan")(
    LogFormat(
        name="TorchTitan",
        summary="step: N  loss: ...  memory: 44.1GiB(55.7%)  tps: ...  (wps before 2025)",
        num_step_lines=matching(STEP_LINE),
        read=read,
    )
)
