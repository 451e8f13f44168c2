"""Plans as people type them in one line, `tp=8,pp=4,zero=1`, by the words of Megatron-LM and others; and overrides."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_type_hints

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.entry import described, is_file_name
from dovetail.files.text import quoted
from dovetail.parallel.plan import OVERLAPS, Plan
from dovetail.parallel.recipes import plans

SHORT_NAMES = {
    "tp": "tensor_parallel",
    "sp": "sequence_parallel",
    "cp": "context_parallel",
    "pp": "pipeline_parallel",
    "dp": "data_parallel",
    "ep": "expert_parallel",
    "etp": "expert_tensor_parallel",
}
# The words of Megatron-LM, NeMo, TorchTitan and DeepSpeed for the same decision, dashes as underscores.
FRAMEWORK_NAMES = {
    "tensor_model_parallel_size": "tensor_parallel",
    "tensor_parallel_size": "tensor_parallel",
    "tensor_parallel_degree": "tensor_parallel",
    "pipeline_model_parallel_size": "pipeline_parallel",
    "pipeline_parallel_size": "pipeline_parallel",
    "pipeline_parallel_degree": "pipeline_parallel",
    "context_parallel_size": "context_parallel",
    "context_parallel_degree": "context_parallel",
    "expert_model_parallel_size": "expert_parallel",
    "expert_parallel_degree": "expert_parallel",
    "expert_tensor_parallel_size": "expert_tensor_parallel",
    "data_parallel_size": "data_parallel",
    "virtual_pipeline_model_parallel_size": "interleave",
    "num_virtual_stages_per_pipeline_rank": "interleave",
    "vp": "interleave",
    "vpp": "interleave",
    "zero": "zero_stage",
    "micro_batch_size": "microbatch",
    "micro_batch": "microbatch",
    "mbs": "microbatch",
    "train_micro_batch_size_per_gpu": "microbatch",
    "recompute_granularity": "recompute",
    "cp_comm_type": "context_comm_type",
    "pipeline_parallel_schedule": "schedule",
    "moe_token_dispatcher_type": "dispatcher",
    "moe_flex_dispatcher_backend": "dispatcher",
    "expert_parallel_comm_backend": "dispatcher",
}
ALIASES = SHORT_NAMES | FRAMEWORK_NAMES
# The decisions that have an option of their own, by its name.
OPTIONS = {
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel",
    "dp": "data_parallel",
    "cp": "context_parallel",
    "ep": "expert_parallel",
    "etp": "expert_tensor_parallel",
    "sp": "sequence_parallel",
    "vpp": "interleave",
    "zero": "zero_stage",
    "microbatch": "microbatch",
    "recompute": "recompute",
    "schedule": "schedule",
}
# What people write into a plan that is no decision of one, and where it is given.
ELSEWHERE = {
    **dict.fromkeys(("gbs", "global_batch", "global_batch_size", "batch", "batch_size"), "--global-batch"),
    **dict.fromkeys(("seq", "seq_length", "seq_len", "sequence_length"), "--seq"),
    **dict.fromkeys(("devices", "gpus", "num_devices", "world_size"), "--devices"),
    **dict.fromkeys(("dtype", "precision", "compute"), "--compute"),
    **dict.fromkeys(("model", "cluster"), "an option of its own"),
}
COMM_TYPES = {"p2p": "ring", "a2a": "all-to-all", "allgather": "gather", "all_gather": "gather"}  # Megatron-LM's
TRUTHS = {"true": True, "on": True, "yes": True, "1": True, "false": False, "off": False, "no": False, "0": False}
OVERLAP = "overlap."
MAX_SHORT = 3  # letters of a word that was meant to be a short name
# Per stage: of no use to a pipeline of another depth.
BY_STAGE = ("layers_per_stage", "stage_pools", "recompute_layers")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?%?")
_RUN_ON = re.compile(r"([a-z_]+?)([0-9]{1,9})")  # tp8

Decision = str | int | float | tuple[str | int, ...] | list[str | int] | None  # as a program gives it
Over = Mapping[str, Any]  # decisions by field of Plan, as a file would write them


@cache
def _types() -> dict[str, Any]:
    return get_type_hints(Plan)


def _keys() -> tuple[str, ...]:
    return (*(field.name for field in dataclasses.fields(Plan)), *(f"{OVERLAP}{name}" for name in OVERLAPS), "base")


def plan_key(name: str) -> str:
    """The field of Plan that people call `name`, by its own name or an alias, however cased and dashed."""
    word = name.strip().removeprefix("--").replace("-", "_").casefold()
    key = ALIASES.get(word, word)
    if key in _keys():
        return key
    if word in ELSEWHERE:
        raise InvalidInput(f"{quoted(name)} is no decision of a plan; use {ELSEWHERE[word]}")
    short = (*SHORT_NAMES, "zero", "vpp", "mbs")
    known = short if len(word) <= MAX_SHORT else (*_keys(), *short)
    raise InvalidInput(f"no decision of a plan is named {quoted(name)}{did_you_mean(word[:100], known)}")


def is_inline(text: str) -> bool:
    """Whether `text` writes a plan out, as tp=8,pp=4 does, and names none."""
    if text in plans or (is_file_name(text) and "=" not in text.partition(",")[0]):
        return False
    first = re.split(r"[,\s]+", text.strip())[0]
    return "=" in text or (first.casefold() not in plans and _run_on(first) is not None)


def _run_on(word: str) -> tuple[str, str] | None:
    """The degree and its value in a word such as tp8."""
    match = _RUN_ON.fullmatch(word.casefold())
    return (match[1], match[2]) if match and match[1] in ALIASES else None


def inline_plan(text: str) -> dict[str, Any]:
    """The decisions that a line such as `tp=8,pp=4,zero=1,sp` takes, by field of Plan, as a file would write them.

    Commas or spaces stand between them. What follows a list's key is one more of its values; a switch alone is true;
    a name that comes first is the plan that the others change.
    """
    found: dict[str, Any] = {}
    names: dict[str, str] = {}
    for place, (name, values) in enumerate(_settings(text)):
        if values is None and place == 0 and (name in plans or is_file_name(name)):
            found["base"] = name
            continue
        key = plan_key(name)
        if key in names:
            raise InvalidInput(f"{key} is given twice, as {names[key]} and {name}; keep one")
        names[key] = name
        found[key] = _value(key, values)
    return _nested(found)


def _settings(text: str) -> Iterator[tuple[str, list[str] | None]]:
    """Names with their values; none of a name that stands alone."""
    name, values = "", None
    for word in re.split(r"[,\s;]+", re.sub(r"\s*=\s*", "=", text.strip())):
        key, mark, value = word.partition("=")
        run_on = None if mark or word in plans else _run_on(word)
        if not word:
            continue
        if mark and not key:
            raise InvalidInput(f"a decision is KEY=VALUE, as in tp=8; got {quoted(word)}")
        if mark or run_on or not _continues(name, word):
            if name:
                yield name, values
            name, values = (key, [value]) if mark else (run_on[0], [run_on[1]]) if run_on else (word, None)
        else:
            values = [*(values or []), word]
    if name:
        yield name, values


def _continues(name: str, word: str) -> bool:
    """Whether `word` is one more value of `name`, which takes several."""
    try:
        is_list = name != "" and _types().get(plan_key(name)) not in (bool, int, float, str, None)
    except InvalidInput:
        return False
    try:
        plan_key(word)
    except InvalidInput:
        return is_list
    return False


def _value(key: str, values: list[str] | None) -> Any:
    """Typed words as a file would have them."""
    wanted = bool if key.startswith(OVERLAP) else _types().get(key, str)
    if values is None:
        if wanted is bool:
            return True
        raise InvalidInput(f"{key} needs its value, as in {key}={'full' if key == 'recompute' else 8}")
    if not all(values):
        raise InvalidInput(f"{key} needs its value, as in {key}={'full' if key == 'recompute' else 8}")
    if wanted is bool:
        if values[0].casefold() not in TRUTHS:
            raise InvalidInput(f"{key} must be true or false; got {described(values[0])}")
        return TRUTHS[values[0].casefold()]
    read = [_plain(word) for word in values]
    if key == "context_comm_type":
        return COMM_TYPES.get(str(read[0]), read[0])
    if key == "axis_order" and len(read) == 1:
        return str(read[0]).split("-")
    return read[0] if wanted in (int, float, str) else read


def _plain(word: str) -> Any:
    if _WHOLE.fullmatch(word):
        return int(word)
    return float(word) if _NUMBER.fullmatch(word) and not word.endswith("%") else word


def decided_by(given: Mapping[str, str | bool]) -> dict[str, Any]:
    """The decisions that options take, by field of Plan: of --tp 8 as `given` by the option's name."""
    found = {}
    for option, value in given.items():
        key = OPTIONS[option]
        words = [str(value).lower()] if isinstance(value, bool) else [word.strip() for word in value.split(",")]
        try:
            if len(words) > 1 and _types()[key] in (int, str, bool):
                message = f"one plan has one {key}; got {quoted(str(value))}"
                raise InvalidInput(f"{message}; dovetail plan and sweep take several")
            found[key] = _value(key, words)
            if _types()[key] is int and not isinstance(found[key], int):
                raise InvalidInput(f"{key} must be a whole number; got {described(found[key])}")
        except InvalidInput as error:
            raise InvalidInput(error.message, f"--{option}") from None
    return found


def _nested(found: dict[str, Any]) -> dict[str, Any]:
    """`overlap.tensor` as a mapping in `overlap`."""
    flat = {key: value for key, value in found.items() if not key.startswith(OVERLAP)}
    inner = {key.removeprefix(OVERLAP): value for key, value in found.items() if key.startswith(OVERLAP)}
    return flat | ({"overlap": inner} if inner else {})


def overridden(draft: Mapping[str, Any], over: Over) -> dict[str, Any]:
    """A plan's decisions with those of `over` in their place, and without those that only went with the old ones.

    Data parallelism fills the cluster again where another degree changes it; layers by stage are spread evenly over a
    pipeline of another depth; interleave, schedule and sequence parallelism go where there is nothing left to cut.
    """
    found = dict(draft)
    changed = {key for key, value in over.items() if draft.get(key, _default(key)) != value}
    if changed & {"tensor_parallel", "context_parallel", "pipeline_parallel"}:
        found.pop("data_parallel", None)
    if "tensor_parallel" in changed:
        found.pop("expert_tensor_parallel", None)
        if over["tensor_parallel"] == 1:
            found.pop("sequence_parallel", None)
    if changed & {"pipeline_parallel", "interleave", "schedule"}:
        for key in BY_STAGE:
            found.pop(key, None)
        if len(set(found.get("recompute", ()))) == 1:
            found["recompute"] = found["recompute"][:1]
    if over.get("pipeline_parallel") == 1:
        found = {key: value for key, value in found.items() if key not in ("interleave", "schedule")}
    return found | dict(over)


def _default(key: str) -> Any:
    return getattr(Plan(), key, None)


def check_agree(plan: object, over: Over) -> None:
    """Raises where a plan that is written out in one line and an option of its own decide the same otherwise."""
    inline = inline_plan(plan) if isinstance(plan, str) and is_inline(plan) else {}
    for key, value in over.items():
        if key in inline and inline[key] != value:
            raise InvalidInput(f"--plan has {key}={inline[key]}, and an option {value}; keep one")
