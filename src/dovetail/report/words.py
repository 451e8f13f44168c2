"""Numbers as people say them."""

from __future__ import annotations

from dovetail.plan.plan import Plan
from dovetail.units import MANY, MICRO, MILLI, PETA

AXIS_WORDS = {
    "tp": "tensor parallel",
    "cp": "context parallel",
    "ep": "expert parallel",
    "dp": "data parallel",
    "pp": "pipeline transfers",
}


def percent(share_frac: float, digits: int = 1) -> str:
    return f"{share_frac:.{digits}%}".replace("%", " %")


def gain(gain_frac: float) -> str:
    return f"{gain_frac + 0.0:+.1%}".replace("%", " %")


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


def plan_in_brief(plan: Plan) -> str:
    """The decisions of a plan that are not the plain ones, in one line."""
    words = [f"{axis} {plan.degree(axis)}" for axis in ("tp", "cp", "pp", "dp") if plan.degree(axis) > 1]
    words += [f"ep {plan.expert_parallel}"] if plan.expert_parallel > 1 else []
    words += [plan.schedule] if plan.schedule != "1f1b" and plan.pipeline_parallel > 1 else []
    words += [f"interleave {plan.interleave}"] if plan.interleave > 1 else []
    words += ["sequence parallel"] if plan.sequence_parallel and plan.tensor_parallel > 1 else []
    words += [f"ZeRO-{plan.zero_stage}"] if plan.zero_stage else []
    policies = tuple(dict.fromkeys(plan.recompute))
    words += [f"{' and '.join(policies)} recompute"] if policies != ("none",) else []
    return ", ".join([*words, f"microbatch {plan.microbatch}"])
