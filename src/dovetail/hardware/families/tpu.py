"""TPUs of all generations: points of one template, fitted together."""

from __future__ import annotations

from dovetail.hardware.chip import Calibration
from dovetail.hardware.families import Family, LeftOut, families
from dovetail.units import MICRO

# Operands in fp16 are converted by the vector unit at every visit of a tile, which is added to the arrays' time. By
# `python -m benchmarks.mapping_accuracy`: slots of a visit on 100 XLA profiles of a TPU v4 whose tiles are known (3.7 %
# off); launch, slots of a result and XLA's visits over the mapper's on 615 products of the same chip. By
# `python -m benchmarks.tpu_steps`: the share of peak on 16 published steps of v4, v5e, v5p and v6e, which are 4.8 %
# off, and 5.8 % by constants fitted on the other generations; the middle of a valley from 0.75 to 0.84 in which what
# shows of collectives goes from 0.3 to 0.7.
TPU_CALIBRATION = Calibration(
    tensor_frac=0.78,
    vector_frac=0.80,
    hbm_frac=0.985,
    link_frac=0.90,
    launch_s=0.56 * MICRO,
    conversion_slots=7.95,
    conversion_result_slots=12.07,
    visits_ratio=1.66,
    fitted_on="715 products of a TPU v4 in fp16 (SCALE-Sim-validation) and 16 published steps of v4 to v6e",
    family="tpu",
)
# Root mean square of the logarithm of predicted over measured steps, each generation by constants of the others: how
# far this physics is off on a chip that it was not fitted on.
TPU_LEFT_OUT = LeftOut(
    spread_frac=0.074, measured_on="16 published steps of v4, v5e, v5p and v6e, each generation left out in turn"
)
# Measured time over the mapper's bound (its own tiles, all else equal), least, median and most of the middle 80 %: what
# XLA loses. On 615 products of multiples of 16, and on 100 profiles whose extents are mostly no multiples of 128.
COMPILER_LOSS = (0.98, 1.12, 1.39)
COMPILER_LOSS_UNALIGNED = (1.20, 1.68, 2.94)


def interval_label(interval: tuple[float, float, float]) -> str:  # style: (least, median, most)
    low, middle, high = interval
    return f"{middle:.2f} in the median, {low:.2f} to {high:.2f} in the middle 80 %"


families.register("tpu")(
    Family(
        name="tpu",
        summary="Google's TPUs, v2 on, as XLA compiles for them",
        calibration=lambda _clock_hz, _host_slower: TPU_CALIBRATION,
        fitted=("tensor_frac", "launch_s", "conversion_slots", "conversion_result_slots", "visits_ratio"),
        source=(
            "fitted on 715 products of a TPU v4 in fp16, 16 published steps of v4 to v6e; estimate: vector_frac,"
            " link_frac"
        ),
        left_out=TPU_LEFT_OUT,
        framework="maxtext",  # XLA lays out its memory, and no PyTorch has a reserve there
    )
)
