"""What limits a step, in one sentence."""

from __future__ import annotations

from dovetail.evaluate import PERTURBATION_FRAC, Outcome
from dovetail.report.labels import gain, percent
from dovetail.step.step import Step
from dovetail.step.work import COMM_AXES

NOTABLE_FRAC = 0.05  # of the step: waiting that no resource shortens is worth a clause above this
NOTHING_FRAC = 0.0005  # a gain that shows as zero is none
# What a step may wait for most, and what shortens the wait.
WAITS = {
    "bubble": ("pipeline bubble", "more microbatches or fewer stages"),
    "tp": ("tensor-parallel communication", "fewer ranks, or a faster network under them"),
    "cp": ("key-value exchange", "fewer ranks, or a faster network under them"),
    "ep": ("expert all-to-all", "fewer ranks, or a faster network under them"),
    "dp": ("data-parallel communication", "a larger global batch, fewer copies, or a faster network under them"),
    "pp": ("transfers between stages", "fewer stages, or a faster network under them"),
    "offload": ("copies to the host", "less of activations offloaded, or more recompute"),
}


def limited_by(outcome: Outcome) -> str:
    """Waiting, where the step is mostly that; the resources that a tenth more of would help most; a large bubble."""
    step = outcome.step
    helping = [e for e in outcome.elasticities if e.gain_frac >= NOTHING_FRAC]
    if wait := _longest_wait(step):
        then = f"; then {helping[0].resource} ({gain(helping[0].gain_frac)})" if helping else ""
        return wait + then
    bubble_frac = step.bubble_s / step.step_s
    bubble = f"{percent(bubble_frac)} of the step is pipeline bubble" if bubble_frac >= NOTABLE_FRAC else ""
    if not helping:
        return bubble or "no single resource: a tenth more of any one gains nothing"
    first, *rest = helping
    words = f"{first.resource}: {percent(PERTURBATION_FRAC, 0)} more of it gives {gain(first.gain_frac)} throughput"
    if rest:
        words += f"; then {rest[0].resource} ({gain(rest[0].gain_frac)})"
    return f"{words}; {bubble}" if bubble else words


def _longest_wait(step: Step) -> str:
    """The bubble or an axis's exposed communication, where that is the largest part of the step; else empty."""
    waits_s = {"bubble": step.bubble_s, "offload": step.offload.exposed_s}
    waits_s |= {axis: comm.exposed_s for axis, comm in zip(COMM_AXES, step.comm, strict=True)}
    longest = max(waits_s, key=lambda name: waits_s[name])
    if waits_s[longest] <= max(step.compute_s, step.update_s):
        return ""
    what, way_out = WAITS[longest]
    return f"{what}, {percent(waits_s[longest] / step.step_s, 0)} of the step: {way_out}"
