"""Numbers as people say them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from dovetail.parallel.dispatchers import ALL_TO_ALL
from dovetail.parallel.plan import Plan
from dovetail.units import MANY, MICRO, MILLI, PETA
from dovetail.workload.optimizer import Precision
from dovetail.workload.scaling_recipes import DEFAULTS

MOST_LIKELY = 0.99  # beyond it the error of memory is not known well enough to say more
AXIS_LABELS = {
    "tp": "tensor parallel",
    "cp": "context parallel",
    "ep": "expert parallel",
    "dp": "data parallel",
    "pp": "pipeline transfers",
}


def percent(share_frac: float, digits: int = 1) -> str:
    return f"{share_frac:.{digits}%}".replace("%", " %")


def gain(gain_frac: float) -> str:
    return f"{round(gain_frac, 3) + 0.0:+.1%}".replace("%", " %")  # nothing is +0.0 %, from whichever side


def seconds(part_s: float, whole_s: float) -> str:
    """A part of a time in the unit one would say the whole in, so that a column can be read downwards."""
    if whole_s >= MANY:
        return f"{part_s:.3e} s"
    for scale_s, symbol in ((1.0, "s"), (MILLI, "ms")):
        if whole_s >= scale_s:
            return f"{part_s / scale_s:.3f} {symbol}"
    return f"{part_s / MICRO:.3f} us"


def number(value: float) -> str:
    """A count or a rate: thousands are set apart, and small ones keep three digits."""
    return f"{value:,.0f}" if 100 <= abs(value) < PETA else f"{value:.3g}"


def counted(count: int, noun: str) -> str:
    ending = "" if count == 1 else "es" if noun.endswith("h") else "s"
    return f"{count:,} {noun}{ending}"


def one_of(nouns: str) -> str:
    """'a token' of 'tokens', 'an image' of 'images'."""
    noun = nouns.removesuffix("s")
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def in_a_row(values: Iterable[object]) -> str:
    """Values of stages in order, alike ones together: 11,12x6,11 of counts, full x 2, none x 2 of words."""
    alike = [(value, len(list(some))) for value, some in itertools.groupby(values)]
    are_counts = all(isinstance(value, int) for value, _ in alike)
    times, apart = ("x", ",") if are_counts else (" x ", ", ")
    return apart.join(f"{value}{times}{count}" if count > 1 else str(value) for value, count in alike)


def recompute_in_brief(plan: Plan) -> str:
    """Policies, and of how many layers of each stage where not of all; empty where nothing is recomputed."""
    policies = tuple(dict.fromkeys(plan.recompute))
    if policies == ("none",):
        return ""
    layers = f" of {in_a_row(plan.recompute_layers)} layers per stage" if plan.recompute_layers else ""
    named = [policy_in_brief(policy) for policy in policies if policy != "none"]
    stages = " on some stages" if len(named) < len(policies) and not plan.recompute_layers else ""
    return f"{' and '.join(named)} recompute{layers}{stages}"


def policy_in_brief(policy: str) -> str:
    """A recompute policy by its name; one that places tensors of its own by these, those of one place together."""
    if "=" not in policy:
        return policy
    by_place: dict[str, list[str]] = {}
    for tensor, place in (word.split("=") for word in policy.split(",")):
        by_place.setdefault(place, []).append(tensor)
    placed = (f"{place}: {', '.join(tensors)}" for place, tensors in by_place.items())
    return f"custom ({'; '.join(placed)})"


def offload_in_brief(plan: Plan) -> str:
    """What of a plan is the host's; empty where nothing is."""
    frac = plan.offload_activations_frac
    words = ["optimizer"] if plan.offload_optimizer else []
    words += [f"{percent(frac, 0)} of activations"] if frac else []
    return f"{' and '.join(words)} on the host" if words else ""


def compute_in_brief(precision: Precision) -> str:
    """The dtype of products, with the scaling recipe where that is not the dtype's own."""
    is_usual = precision.recipe == DEFAULTS.get(precision.compute, "")
    return precision.compute if is_usual else f"{precision.compute} ({precision.recipe})"


def exchange_in_brief(plan: Plan) -> str:
    """How devices that share a sequence attend to all of it; empty where they gather keys and values."""
    return plan.context_comm_type if plan.context_parallel > 1 and plan.context_comm_type != "gather" else ""


def plan_in_brief(plan: Plan) -> str:
    """The decisions of a plan that are not the plain ones, in one line."""
    is_uneven = len(set(plan.layers_per_stage)) > 1
    words = [f"{axis} {plan.degree(axis)}" for axis in ("tp", "cp", "pp", "dp") if plan.degree(axis) > 1]
    words += [f"cp by {exchange_in_brief(plan)}"] if exchange_in_brief(plan) else []
    by = f" by {plan.dispatcher}" if plan.dispatcher != ALL_TO_ALL else ""
    words += [f"ep {plan.expert_parallel}{by}"] if plan.expert_parallel > 1 else []
    words += [plan.schedule] if plan.schedule != "1f1b" and plan.pipeline_parallel > 1 else []
    words += [f"interleave {plan.interleave}"] if plan.interleave > 1 else []
    words += ["sequence parallel"] if plan.sequence_parallel and plan.tensor_parallel > 1 else []
    words += [f"ZeRO-{plan.zero_stage}"] if plan.zero_stage else []
    words += [recompute_in_brief(plan)] if recompute_in_brief(plan) else []
    words += [offload_in_brief(plan)] if offload_in_brief(plan) else []
    pieces = "chunks" if plan.interleave > 1 else "stages"
    words += [f"{pieces} of {in_a_row(plan.layers_per_stage)} layers"] if is_uneven else []
    return ", ".join([*words, f"microbatch {plan.microbatch}"])


def likely(probability: float) -> str:
    """A probability in percent, never rounded to certain: "97 %", "over 99 %"."""
    if probability > MOST_LIKELY:
        return f"over {100 * MOST_LIKELY:.0f} %"
    return f"{100 * probability:.0f} %" if probability >= 1 - MOST_LIKELY else f"under {100 * (1 - MOST_LIKELY):.0f} %"
