"""What WHAM says of itself beside what the comparison on our cost model came to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dovetail.hardware.catalog import chips
from dovetail.papers.wham.cases import BASE, NAMES, PAPER
from dovetail.papers.wham.study import WhamStudy

MOST_GAP_FRAC = 0.02  # of the critical-path heuristic to the best of all designs, on average: our bar


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A ratio, ours and the paper's; `holds` where ours must be above `least`, if it must be anything (0: no)."""

    what: str
    ours: float
    reported: tuple[float, ...]  # one number, or the ends of a range
    differs: str
    least: float = 0.0

    @property
    def holds(self) -> bool:
        return self.ours > self.least


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean."""
    return float(np.exp(np.mean(np.log(list(ratios)))))


def mean_slower(study: WhamStudy, reading: str) -> float:
    """How much slower the chips searched for inference in this way train than the best, on the geometric mean."""
    return mean(
        chosen.step_s / model.best.step_s
        for model in study.models
        for name, chosen in model.inference
        if name == reading
    )


def mean_gap_frac(study: WhamStudy) -> float:
    return float(np.mean([model.grown_gap_frac for model in study.models]))


def claims(study: WhamStudy) -> tuple[Claim, ...]:
    """The paper's four, of which the gain must be met where all eleven models were looked at."""
    least = PAPER.most_gain if is_whole(study) else 0.0
    own, gains = study.models[0].reference, (PAPER.least_gain, PAPER.most_gain)
    most = max(model.per_watt_gain for model in study.models)
    rated_w = chips[BASE]().tdp_w
    return (
        Claim(
            what="throughput over WHAM's TPU v2, mean",
            ours=mean(model.gain(model.reference) for model in study.models),
            reported=gains,
            least=least,
            differs=f"the limits are a TPU v2's die and rating, of which our silicon model says that the hand-tuned"
            f" chip takes {own.area_mm2:.0f} mm2 and {own.power_w:.0f} W",
        ),
        Claim(
            what="the same within the mm2 and W that chip takes",
            ours=mean(model.own_limits_gain for model in study.models),
            reported=gains,
            least=least,
            differs="equal area and power, both by our silicon model",
        ),
        *_over_inference(study),
        Claim(
            what="throughput/TDP over WHAM's TPU v2, most",
            ours=most,
            reported=(PAPER.most_per_watt,),
            differs=f"watts of our power model on both sides; with the {rated_w:.0f} W that a TPU v2 is rated at on the"
            f" hand-tuned side, {most * rated_w / own.power_w:.1f}",
        ),
    )


def _over_inference(study: WhamStudy) -> Iterable[Claim]:
    reported = (PAPER.over_inference,)
    single, whole, per_watt = study.models[0].inference
    yield Claim(
        what="over chips searched for inference: one sample, mean",
        ours=mean_slower(study, single[0]),
        reported=reported,
        differs="same limits, template and cost model as the search for training; Spotlight has its own",
    )
    yield Claim(
        what="the same, forward pass of the training batch",
        ours=mean_slower(study, whole[0]),
        reported=reported,
        differs="as above",
    )
    message = "one sample by throughput/TDP, as a chip for inference would be chosen"
    small = [(most, slower) for most, slower in study.by_multipliers if slower >= PAPER.over_inference]
    if small:
        message += f"; {PAPER.over_inference:g} times slower is the best chip of {small[-1][0]:,} multipliers"
    yield Claim(
        what="the same, one sample for each watt",
        ours=mean_slower(study, per_watt[0]),
        reported=reported,
        differs=message,
    )


def is_whole(study: WhamStudy) -> bool:
    return tuple(model.task.name for model in study.models) == NAMES


def holds(study: WhamStudy) -> bool:
    """Whether what must be met is, and every design that is called the best is known to be."""
    shared = study.common_design
    is_confirmed = all(model.is_confirmed for model in study.models) and shared.is_proven
    return is_confirmed and mean_gap_frac(study) <= MOST_GAP_FRAC and all(claim.holds for claim in claims(study))
