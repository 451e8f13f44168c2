"""A plan as labelled chips, TP 8 beside PP 4: the decisions of a plan in the words of Megatron-LM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from dovetail.parallel.plan import Plan
from dovetail.report.labels import counted, in_a_row, offload_in_brief, policy_in_brief
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One decision of a plan: a label, its value, and what it means."""

    label: str
    value: str
    meaning: str


def plan_chips(plan: Plan, workload: Workload) -> tuple[Chip, ...]:
    """Degrees always, other decisions where they are not the plain ones."""
    architecture = workload.model.architecture
    is_mixture = isinstance(architecture, Transformer) and architecture.experts is not None
    num_micro = plan.num_microbatches(workload.global_batch)
    chips = [
        Chip(label="TP", value=str(plan.tensor_parallel), meaning="tensor parallel: devices that share each layer"),
        Chip(label="PP", value=str(plan.pipeline_parallel), meaning="pipeline stages"),
        Chip(label="DP", value=str(plan.data_parallel), meaning="data parallel: copies of the model"),
        Chip(label="CP", value=str(plan.context_parallel), meaning="context parallel: devices that share a sequence"),
    ]
    if is_mixture or plan.expert_parallel > 1:
        chips.append(Chip(label="EP", value=str(plan.expert_parallel), meaning="devices that share the experts"))
    chips.append(Chip(label="ZeRO", value=str(plan.zero_stage), meaning="what copies of the model share of its state"))
    meaning = f"samples per microbatch; {counted(num_micro, 'microbatch')} per step"
    chips.append(Chip(label="Microbatch", value=str(plan.microbatch), meaning=meaning))
    if plan.pipeline_parallel > 1:
        name = "interleaved 1F1B" if plan.interleave > 1 and plan.schedule == "1f1b" else plan.schedule.upper()
        chips.append(Chip(label="Schedule", value=name, meaning="the order of passes in the pipeline"))
    if plan.interleave > 1:
        chips.append(Chip(label="VPP", value=str(plan.interleave), meaning="model chunks per pipeline stage"))
    if plan.sequence_parallel and plan.tensor_parallel > 1:
        chips.append(Chip(label="SP", value="on", meaning="sequence parallel beside tensor parallel"))
    policies = [policy_in_brief(name) for name in dict.fromkeys(plan.recompute)]
    layers = f" of {in_a_row(plan.recompute_layers)} layers per stage" if plan.recompute_layers else ""
    chips.append(Chip(label="Recompute", value=" and ".join(policies), meaning=f"activation checkpointing{layers}"))
    if offload := offload_in_brief(plan):
        chips.append(Chip(label="Offload", value=offload.removesuffix(" on the host"), meaning="kept on the host"))
    return tuple(chips)


def brief_chips(plan: Plan, workload: Workload) -> tuple[Chip, ...]:
    """The chips of a plan among others: without degrees of 1 and what says nothing, so that rows can be compared."""
    plain = {("TP", "1"), ("PP", "1"), ("DP", "1"), ("CP", "1"), ("EP", "1"), ("ZeRO", "0"), ("Recompute", "none")}
    chips = [one for one in plan_chips(plan, workload) if (one.label, one.value) not in plain]
    chips = [one for one in chips if one.label != "Schedule" or plan.schedule != "1f1b"]
    if len(set(plan.layers_per_stage)) > 1:
        pieces = "chunk" if plan.interleave > 1 else "stage"
        layers = f"{in_a_row(plan.layers_per_stage)} layers per {pieces}"
        chips.append(Chip(label="Layers", value="uneven", meaning=layers))
    return tuple(chips)


def chips_html(chips: Sequence[Chip], *, is_small: bool = False, label: str = "The plan") -> str:
    told = "".join(
        f'<li title="{escape(one.meaning)}"><b>{escape(one.label)}</b> <span>{escape(one.value)}</span></li>'
        for one in chips
    )
    return f'<ul class="chips{" small" if is_small else ""}" aria-label="{escape(label)}">{told}</ul>'
