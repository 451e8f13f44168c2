"""What WHAM says of itself beside what the comparison on our cost model came to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail.hardware.catalog import chips
from dovetail.papers.verdicts import Claim, Reading, mean
from dovetail.papers.wham.cases import BASE, NAMES, PAPER
from dovetail.papers.wham.convergence import BUDGET, NUM_SEEDS, Convergence
from dovetail.papers.wham.study import READINGS, Wham, WhamModel, WhamStudy

MOST_GAP_FRAC = 0.02  # of the critical-path heuristic to the best of all designs, on average: our bar


def mean_slower(study: WhamStudy, reading: str) -> float:
    """How much slower the chips searched for inference in this way train than the best, on the geometric mean."""
    return mean(
        chosen.step_s / model.best.step_s
        for model in study.models
        for name, chosen in model.inference
        if name == reading
    )


def mean_gap_frac(study: WhamStudy) -> float | None:
    """Of the critical-path heuristic; nothing where it was not run."""
    gaps = [model.gap_frac(model.heuristics.grown) for model in study.models if model.heuristics]
    return float(np.mean(gaps)) if gaps else None


def claims(found: Wham) -> tuple[Claim, ...]:
    """All of the paper's; where all eleven models were looked at, our chips must beat the hand-tuned ones."""
    obstacle = "" if is_whole(found.ours) else f"the paper's figure is of all {len(NAMES)} models"
    least = 1.0 if is_whole(found.ours) else 0.0
    return (
        _throughput(found, obstacle, least),
        _over_inference(found, obstacle),
        _per_watt(found, obstacle),
        *_convergence(found, obstacle),
    )


def _reading(found: Wham, what: str, figure: Callable[[WhamStudy], float], differs: str = "") -> Reading:
    return Reading(what=what, paper_mapper=figure(found.by_paper_mapper), ours=figure(found.ours), differs=differs)


def _mean(figure: Callable[[WhamModel], float]) -> Callable[[WhamStudy], float]:
    return lambda study: mean(map(figure, study.models))


def _throughput(found: Wham, obstacle: str, least: float) -> Claim:
    own, real = found.ours.models[0].reference, found.ours.models[0].real.as_is
    return Claim(
        what="throughput over hand-tuned chips, mean",
        reported=(PAPER.least_gain, PAPER.most_gain),
        obstacle=obstacle,
        least=least,
        readings=(
            _reading(
                found,
                "its TPU v2, in that chip's mm2 and W",
                _mean(lambda model: model.own_limits_gain),
                f"its TPU v2 has an eighth of a TPU v2's lanes, and {own.area_mm2:.0f} mm2 and {own.power_w:.0f} W"
                " by our silicon model",
            ),
            _reading(found, "its TPU v2, in the paper's limits", _mean(lambda model: model.gain(model.reference))),
            _reading(
                found, "NVDLA-like, in the paper's limits", _mean(lambda model: model.gain(model.hand_tuned[-1].as_is))
            ),
            _reading(
                found,
                "a real TPU v2, in its mm2 and W",
                _mean(lambda model: model.real.gain),
                f"{real.area_mm2:.0f} mm2 and {real.power_w:.0f} W; designs have its memories and calibration",
            ),
        ),
    )


def _over_inference(found: Wham, obstacle: str) -> Claim:
    words = {
        "one sample": "searched by one sample's forward pass",
        "batch": "by the forward pass of the batch",
        "one, per W": "by one sample, for each watt",
    }
    differs = "same limits, template and cost model on both sides; what Spotlight's designs were is not published"
    small = [most for most, slower in found.ours.by_multipliers if slower >= PAPER.over_inference]
    if small:
        differs += f"; {PAPER.over_inference:g} times slower is the best chip of {small[-1]:,} multipliers"
    return Claim(
        what="over designs searched for inference, mean",
        reported=(PAPER.over_inference,),
        obstacle=obstacle,
        readings=tuple(
            _reading(found, words[name], _slower(name), differs if not place else "")
            for place, (name, *_) in enumerate(READINGS)
        ),
    )


def _slower(name: str) -> Callable[[WhamStudy], float]:
    return lambda study: mean_slower(study, name)


def _per_watt(found: Wham, obstacle: str) -> Claim:
    rated_w, own = chips[BASE]().tdp_w, found.ours.models[0].reference

    def most(study: WhamStudy) -> float:
        return max(model.per_watt_gain for model in study.models)

    best = max(found.by_paper_mapper.models, key=lambda model: model.per_watt_gain)
    return Claim(
        what="throughput/TDP, most",
        reported=(PAPER.most_per_watt,),
        obstacle=obstacle,
        readings=(
            _reading(
                found,
                "its TPU v2",
                most,
                f"{best.task.name}, far above all other models; watts of our power model",
            ),
            _reading(
                found,
                f"its TPU v2 at its rated {rated_w:.0f} W",
                lambda study: most(study) * rated_w / own.power_w,
            ),
            _reading(found, "a real TPU v2", lambda study: max(model.real.per_watt_gain for model in study.models)),
        ),
    )


def _convergence(found: Wham, obstacle: str) -> tuple[Claim, Claim]:
    readings = []
    for what, over in (
        ("Bayesian over WHAM's search, designs", lambda one: one.over_critical_path),
        ("Bayesian over our exact one, designs", lambda one: one.over_exact),
    ):
        differs = f"a search like Spotlight's of our own, {NUM_SEEDS} seeds of at most {BUDGET} designs each"
        by_mapper = (_mean_converged(study, over) for study in (found.by_paper_mapper, found.ours))
        paper_mapper, ours = by_mapper
        readings.append(Reading(what=what, paper_mapper=paper_mapper, ours=ours, differs=differs))
    quick = "" if readings[0].ours is not None else "searches are followed where every design is scheduled, not quickly"
    return (
        Claim(
            what="search: less time than Spotlight's, mean",
            reported=(PAPER.convergence,),
            obstacle=obstacle or quick,
            readings=tuple(readings),
        ),
        Claim(
            what="the same, slowest of its baselines",
            reported=(PAPER.most_convergence,),
            obstacle="a run of one baseline that the paper does not publish",
            readings=(),
        ),
    )


def _mean_converged(study: WhamStudy, over: Callable[[Convergence], float]) -> float | None:
    followed = [model.heuristics.convergence for model in study.models if model.heuristics]
    return mean(map(over, followed)) if followed else None


def is_whole(study: WhamStudy) -> bool:
    return tuple(model.task.name for model in study.models) == NAMES


def holds(found: Wham) -> bool:
    """Whether what must be met is, and every design that is called the best is known to be."""
    models = [model for study in (found.ours, found.by_paper_mapper) for model in study.models]
    shared, gap_frac = found.ours.common_design, mean_gap_frac(found.ours)
    is_confirmed = all(model.is_confirmed for model in models) and (shared is None or shared.is_proven)
    is_near = gap_frac is None or gap_frac <= MOST_GAP_FRAC
    return is_confirmed and is_near and all(claim.holds for claim in claims(found))
