"""The documented bars: how far each set may be off, and which statistic says so."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.accuracy.compared import Score

STATISTICS = ("MAPE", "median", "p90", "worst")
ROUNDING_FRAC = 1e-12  # style: a tolerance; two floats that say the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One promise: `statistic` of the rows of `kind` (empty: of the whole set) is at most `limit_frac`."""

    promise: str
    statistic: str
    limit_frac: float
    kind: str = ""

    def measured_frac(self, score: Score) -> float:
        return {
            "MAPE": score.mape_frac,
            "median": score.median_frac,
            "p90": score.p90_frac,
            "worst": score.worst_frac,
        }[self.statistic]

    def holds(self, score: Score) -> bool:
        return self.measured_frac(score) <= self.limit_frac + ROUNDING_FRAC


EAGER_KINDS = (
    "head", "head_bias", "to_fp32", "pow2_fp32", "mean_last_fp32", "mul_col_bf16", "mul_mixed", "cat_halves",
    "dropout", "pow3", "add_scalar", "sum_rows_fp32", "sum_rows_bf16", "contiguous_t", "rope_mul", "repeat_kv",
    "permute_contiguous", "rope_rotate", "logits_float", "cross_entropy_fp32", "grouped_mm", "index_add",
    "index_put_acc", "index_select", "sdpa_causal", "sdpa_full", "sdpa_mask", "sdpa_dropout_causal",
    "sdpa_mask_dropout", "batch_norm", "relu", "max_pool3s2", "avg_pool3s1", "hardswish", "silu", "conv",
)  # fmt: skip
BARS = (
    Bar(promise="h200 gemm model shapes", statistic="MAPE", limit_frac=0.06),
    Bar(promise="h200 gemm random shapes", statistic="MAPE", limit_frac=0.09),
    Bar(promise="h200 gemm fp8", statistic="MAPE", limit_frac=0.08),
    Bar(promise="h200 attention", statistic="MAPE", limit_frac=0.08),
    Bar(promise="h200 attention", statistic="MAPE", limit_frac=0.08, kind="forward"),
    Bar(promise="h200 attention", statistic="MAPE", limit_frac=0.08, kind="backward"),
    Bar(promise="h200 bmm", statistic="MAPE", limit_frac=0.10),
    Bar(promise="h200 vector", statistic="MAPE", limit_frac=0.08),
    Bar(promise="h200 convolution", statistic="MAPE", limit_frac=0.12),
    Bar(promise="h200 eager operators", statistic="MAPE", limit_frac=0.08),
    *(Bar(promise="h200 eager operators", statistic="MAPE", limit_frac=0.12, kind=kind) for kind in EAGER_KINDS),
    Bar(promise="h200 layers", statistic="MAPE", limit_frac=0.05),
    Bar(promise="h200 steps", statistic="MAPE", limit_frac=0.05),
    Bar(promise="h200 code", statistic="MAPE", limit_frac=0.03, kind="eager"),
    Bar(promise="h200 code", statistic="MAPE", limit_frac=0.06, kind="compile"),
    Bar(promise="h200 code", statistic="worst", limit_frac=0.15),
    Bar(promise="h200 code memory", statistic="MAPE", limit_frac=0.01),
    Bar(promise="h200 code memory", statistic="worst", limit_frac=0.05),
    Bar(promise="h200 power", statistic="worst", limit_frac=0.10),
    Bar(promise="h200 contention", statistic="MAPE", limit_frac=0.10),
    Bar(promise="fp32 passes", statistic="MAPE", limit_frac=0.07),
    Bar(promise="published gemm", statistic="median", limit_frac=0.10),
    Bar(promise="published training", statistic="MAPE", limit_frac=0.12),
    Bar(promise="published training", statistic="median", limit_frac=0.08),
    Bar(promise="published tpu", statistic="MAPE", limit_frac=0.08),
    Bar(promise="published memory", statistic="MAPE", limit_frac=0.05),
    Bar(promise="tpu gemm", statistic="MAPE", limit_frac=0.13),
    Bar(promise="tpu gemm, tiles known", statistic="MAPE", limit_frac=0.04),
    Bar(promise="scale-sim", statistic="worst", limit_frac=0.0),
    Bar(promise="zigzag", statistic="MAPE", limit_frac=0.06),
    Bar(promise="zigzag energy", statistic="MAPE", limit_frac=0.12),
    Bar(promise="accelforge", statistic="MAPE", limit_frac=0.15),
    Bar(promise="phaze area", statistic="worst", limit_frac=1e-9),  # style: a tolerance, exact but for the last digits
    Bar(promise="die area", statistic="worst", limit_frac=0.10),
    Bar(promise="die area, upper bounds", statistic="worst", limit_frac=0.001),  # style: a tolerance, none is beyond
    Bar(promise="astra-sim collectives", statistic="worst", limit_frac=0.01),
    Bar(promise="astra-sim steps", statistic="worst", limit_frac=0.01),
    Bar(promise="collectives over NVLink", statistic="MAPE", limit_frac=0.07),
    Bar(promise="collectives over PCIe", statistic="MAPE", limit_frac=0.14),
    Bar(promise="collectives over nodes", statistic="MAPE", limit_frac=0.08),
    Bar(promise="die power", statistic="worst", limit_frac=0.15),
)


def bars_of(promise: str, kind: str = "") -> tuple[Bar, ...]:
    return tuple(bar for bar in BARS if bar.promise == promise and bar.kind == kind)
