"""How a table of products was run, where its columns do not say: of a few ways, the one that its times bear out.

Publishers exchange the names of two extents, time kernels again and again or from an idle queue, and quantise
activations within the timed call or before it. A table is taken as documented unless another way explains many rows
clearly better, and then a note says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.accuracy.prepared import Prepared
from dovetail.cost.families.products import SCALED_PASSES
from dovetail.cost.op_cost import Setting
from dovetail.hardware.chip import Chip
from dovetail.units import GIGA, PERCENT
from dovetail.workload.graph import FloatArray, IntArray

LEAST_ROWS = 20  # fewer rows decide nothing
CLEARLY_FRAC = 0.8  # of the error as documented: what another way must stay below
# Dynamic scaling of activations to fp8: the absolute maximum, then scaled and cast. Read twice in 2 bytes and written
# in 1, each at the pace that one stream of 2-byte loads keeps in flight (one H200: 0.89 of 0.90 of 4.8 TB/s, 132 SMs).
QUANTISED_BYTES = 5.0
STREAM_BYTES_PER_S = 29.1 * GIGA  # of a core
RESULT_BYTES = 2.0  # products of fp8 are written in bf16
QUANTISING_KERNELS = 6.0  # estimate: small fp8 calls of a B200 take 12 us more than bf16 ones, six launches


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One way in which products were run; `words` is empty for the documented one."""

    words: str = ""
    is_exchanged: bool = False  # n and k stand in each other's column
    setting: Setting = Setting.ALONE
    is_quantised: bool = False  # activations come in bf16 and are quantised within the call
    is_epilogue_hidden: bool = False  # results are scaled beside the next tile's main loop, as with tensor memory


DOCUMENTED = Reading()
EXCHANGED = Reading(words="n and k exchanged", is_exchanged=True)
REPEATED = Reading(words="kernels timed again and again", setting=Setting.KERNEL)
QUANTISED = Reading(words="activations quantised within the call", setting=Setting.KERNEL, is_quantised=True)
HIDDEN = replace(QUANTISED, words=f"{QUANTISED.words} and scales hidden", is_epilogue_hidden=True)


def readings_of(dtypes: Sequence[str]) -> tuple[Reading, ...]:
    """The ways that a table of these dtypes may have been run, the documented one first."""
    return (DOCUMENTED, EXCHANGED, REPEATED, *((QUANTISED, HIDDEN) if "fp8" in dtypes else ()))


def borne_out(found: Sequence[tuple[Reading, Prepared]]) -> Prepared:
    """The set as documented, or as the reading that is clearly less far off, with a note that says so."""
    _, documented = found[0]
    if len(documented.measured) < LEAST_ROWS:
        return documented
    errors = [_error_frac(prepared) for _, prepared in found]
    best = int(np.argmin(errors))
    if errors[best] > CLEARLY_FRAC * errors[0]:
        return documented
    reading, prepared = found[best]
    shown = f"{errors[best] * PERCENT:.1f} % off; as documented they would be {errors[0] * PERCENT:.1f} %"
    return replace(prepared, note=f"rows of {prepared.name} are read with {reading.words}: {shown}")


def quantising_s(m: IntArray, k: IntArray, chip: Chip) -> FloatArray:
    """Seconds in which activations of m x k elements are scaled to fp8 before they are multiplied."""
    bandwidth = min(
        chip.hbm.bandwidth_bytes_per_s * chip.calibration.hbm_frac, chip.tensor.num_units * STREAM_BYTES_PER_S
    )
    return np.asarray(QUANTISED_BYTES * m * k / bandwidth + QUANTISING_KERNELS * chip.calibration.launch_s)


def hidden_s(m: IntArray, n: IntArray, chip: Chip) -> FloatArray:
    """Seconds that products of fp8 are counted with after their main loop, and do not show where it is hidden."""
    bandwidth = chip.hbm.bandwidth_bytes_per_s * chip.calibration.hbm_frac
    return np.asarray(SCALED_PASSES * RESULT_BYTES * m * n / bandwidth)


def _error_frac(prepared: Prepared) -> float:
    return float(np.mean(np.abs(prepared.predicted(prepared.chip) / prepared.measured - 1)))
