"""What limits a step, in one sentence."""

from __future__ import annotations

from dovetail.evaluate import NUDGE_FRAC, Outcome
from dovetail.report.words import gain, percent

NOTABLE_FRAC = 0.05  # of the step: waiting that no resource shortens is worth a clause above this
NOTHING_FRAC = 0.0005  # a gain that shows as zero is none


def limited_by(outcome: Outcome) -> str:
    """The resource that a tenth more of would help most, the next one, and the bubble where it is large."""
    helping = [e for e in outcome.elasticities if e.gain_frac >= NOTHING_FRAC]
    bubble_frac = outcome.step.bubble_s / outcome.step.step_s
    bubble = f"{percent(bubble_frac)} of the step is pipeline bubble" if bubble_frac >= NOTABLE_FRAC else ""
    if not helping:
        return bubble or "no single resource: a tenth more of any one gains nothing"
    first, *rest = helping
    words = f"{first.resource}: {percent(NUDGE_FRAC, 0)} more of it gives {gain(first.gain_frac)} throughput"
    if rest:
        words += f"; then {rest[0].resource} ({gain(rest[0].gain_frac)})"
    return f"{words}; {bubble}" if bubble else words
