"""How far the mapping model is off: against array simulators and a TPU v4. `python -m benchmarks.mapping_accuracy`.

Prints one line for each comparison, and the constants of `hardware/families/tpu.py` as the data give them today. The
TPU's tables are others' and do not travel with this repository; without them the simulators alone are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.bar import REPOSITORY, reference_data
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import TableContext
from dovetail.accuracy.sets import prepared
from dovetail.cost.columns import chip_columns
from dovetail.cost.mapping.mapper import MappedTable, mapped_table
from dovetail.cost.mapping.on_chips import arrays_of
from dovetail.cost.mapping.tables import (
    ArrayChips,
    ProductShapes,
    product_shapes,
)
from dovetail.cost.mapping.vector_work import (
    ConvertedOperands,
    compiler_tiles,
    conversion_s,
    conversion_slots,
    least_visit_tiles,
    operand_visits,
)
from dovetail.files.measurements import load_measurements
from dovetail.hardware.catalog import chips
from dovetail.units import GIGA, MICRO, PERCENT
from dovetail.workload.graph import BoolArray, FloatArray

SIMULATORS = REPOSITORY / "src/dovetail/accuracy/data/array-sims/dse_peer_runs.csv"
TILES, PRODUCTS = "third_party/tpu_v4_fp16_tiles.csv", "third_party/tpu_measured_gemm.csv"
CLOCK_HZ = 1.05 * GIGA  # TPU v4 (Jouppi et al., ISCA 2023)
MACS_PER_S = 8 * 128 * 128 * CLOCK_HZ  # two cores of four arrays
NUM_LANES = 2 * 8 * 128.0  # two cores of 128 lanes x 8 sublanes
NUM_FOLDS = 5
TPU = "tpu-v4"
RATIOS = np.arange(1.0, 4.0, 0.02)  # of visits, tried one by one
NUM_REWEIGHTED = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted(ConvertedOperands):
    """Constants of products in fp16 as they are fitted here, with what a product takes to start."""

    launch_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Errors of one comparison, as shares of what was measured or simulated."""

    name: str
    num_rows: int
    mean_frac: float
    p90_frac: float
    bias_frac: float
    assumes: str

    def __str__(self) -> str:
        figures = f"{self.mean_frac * PERCENT:7.2f} {self.p90_frac * PERCENT:7.1f} {self.bias_frac * PERCENT:+7.1f}"
        return f"{self.name:44} {self.num_rows:4} {figures}  {self.assumes}"


def score(name: str, predicted: FloatArray, measured: FloatArray, assumes: str) -> Score:
    errors = predicted / measured - 1
    return Score(
        name=name,
        num_rows=len(errors),
        mean_frac=float(np.abs(errors).mean()),
        p90_frac=float(np.percentile(np.abs(errors), 90)),
        bias_frac=float(errors.mean()),
        assumes=assumes,
    )


def simulator_scores() -> list[Score]:
    """What `dovetail validate array-sims` compares, in the order of its sets."""
    table = load_measurements(SIMULATORS)
    found = []
    for one in prepared(table, TableContext()):
        predicted = one.predicted(one.chip)
        num_equal = int((predicted == one.measured).sum())
        found.append(score(one.name, predicted, one.measured, f"{num_equal} of {len(predicted)} equal"))
    return found


def tpu_v4() -> ArrayChips:
    """The catalogue's chip at its full clock: a mapper knows no share of peak."""
    columns = chip_columns((chips[TPU](),))
    return arrays_of(columns, np.array([2 * MACS_PER_S]))


def shipped_constants() -> Fitted:
    """What the calibration of the catalogue's chip says."""
    chip = chips[TPU]()
    return Fitted(
        visit_slots=chip.calibration.conversion_slots,
        result_slots=chip.calibration.conversion_result_slots,
        visits_ratio=chip.calibration.visits_ratio,
        least_tile=float(chip.tensor.num_cols),
        launch_s=chip.calibration.launch_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """Products of one TPU v4 in fp16 with their times, mapped onto it."""

    table: MappedTable
    time_s: FloatArray
    mapped_s: FloatArray

    def __len__(self) -> int:
        return len(self.time_s)

    @property
    def shapes(self) -> ProductShapes:
        return self.table.shapes

    @property
    def vmem_bytes(self) -> FloatArray:
        return self.table.chips.memories[0].capacity_bytes

    def part(self, which: BoolArray) -> Timed:
        return timed_products(self.shapes.rows(np.flatnonzero(which)), self.time_s[which])


def timed_products(shapes: ProductShapes, time_s: FloatArray) -> Timed:
    table = mapped_table(shapes, tpu_v4())
    return Timed(table=table, time_s=time_s, mapped_s=table.time_s()[:, 0])


def timed(table: Measurements, column: str) -> Timed:
    m, n, k = (table.counts(c).astype(np.float64) for c in ("m", "n", "k"))
    return timed_products(product_shapes(m, n, k), table.positive(column) * MICRO)


def predicted_s(rows: Timed, constants: Fitted) -> FloatArray:
    """With the mapper's own tiles and the compiler's stated loss."""
    [capacity_bytes] = rows.vmem_bytes
    converted_s = conversion_s(rows.shapes, capacity_bytes, np.array([NUM_LANES * CLOCK_HZ]), constants)[:, 0]
    return np.asarray(constants.launch_s + rows.mapped_s + converted_s)


def with_tiles_s(rows: Timed, tiles: tuple[FloatArray, FloatArray], visit_slots: float) -> FloatArray:
    """Where tiles are known: products at peak plus visits, one constant."""
    visits_s = operand_visits(rows.shapes, *tiles) / (NUM_LANES * CLOCK_HZ)
    return np.asarray(rows.shapes.macs / MACS_PER_S + visit_slots * visits_s)


def fitted_visit_slots(rows: Timed, tiles: tuple[FloatArray, FloatArray]) -> float:
    """Slots per visited element, where tiles are known: the weighted median minimises the mean absolute error."""
    visits_s = operand_visits(rows.shapes, *tiles) / (NUM_LANES * CLOCK_HZ)
    slots = (rows.time_s - rows.shapes.macs / MACS_PER_S) / visits_s
    order = np.argsort(slots)
    weights = np.cumsum((visits_s / rows.time_s)[order])
    return float(slots[order][np.searchsorted(weights, weights[-1] / 2)])


def fitted_constants(rows: Timed, visit_slots: float, *, has_result: bool = True) -> Fitted:
    """Launch, the compiler's ratio of visits and slots of a result, where tiles are the mapper's own."""
    best, least_frac = shipped_constants(), np.inf
    per_slot_s = 1 / (NUM_LANES * CLOCK_HZ)
    results_s = rows.shapes.b * rows.shapes.m * rows.shapes.n * per_slot_s
    columns = np.stack([np.ones(len(rows)), results_s][: 1 + has_result], axis=1)
    for ratio in RATIOS:
        one = replace(shipped_constants(), visits_ratio=float(ratio), visit_slots=visit_slots, result_slots=0.0)
        slots = conversion_slots(rows.shapes, compiler_tiles(rows.shapes, rows.vmem_bytes, one), one)[:, 0]
        known_s = rows.mapped_s + slots * per_slot_s
        found = _least_rest(columns, rows.time_s - known_s, rows.time_s)
        error = float(np.abs((known_s + columns @ found) / rows.time_s - 1).mean())
        if error < least_frac:
            least_frac = error
            best = replace(one, launch_s=float(found[0]), result_slots=float(found[1]) if has_result else 0.0)
    return best


def _least_rest(columns: FloatArray, rest: FloatArray, whole: FloatArray) -> FloatArray:
    """Coefficients of least mean absolute error, relative to `whole`, by reweighted least squares."""
    scaled, target = columns / whole[:, None], rest / whole
    weights = np.ones(len(rest))
    found: FloatArray = np.zeros(columns.shape[1])
    for _ in range(NUM_REWEIGHTED):
        weighted = scaled.T * weights
        found = np.asarray(np.linalg.solve(weighted @ scaled, weighted @ target), dtype=np.float64)
        weights = 1 / np.maximum(np.abs(scaled @ found - target), 1e-4)  # style: a floor of weights
    return found


def five_fold_s(rows: Timed, fit: Callable[[Timed], Fitted]) -> FloatArray:
    """Each row by constants fitted on the four fifths that it is not in."""
    fold = np.random.default_rng(0).permutation(len(rows)) % NUM_FOLDS
    found = np.zeros(len(rows))
    for one in range(NUM_FOLDS):
        found[fold == one] = predicted_s(rows.part(fold == one), fit(rows.part(fold != one)))
    return found


def tpu_scores(profiles: Measurements, products: Measurements) -> list[Score]:
    """A TPU v4 in fp16: XLA's tiles known, and the mapper's own with a stated loss of the compiler."""
    known, rows = timed(profiles, "time_us"), timed(products, "time_us_avg")
    tiles = (profiles.numbers("tiles_m"), profiles.numbers("tiles_n"))
    slots = fitted_visit_slots(known, tiles)
    name = f"TPU v4, XLA's tiles: {slots:.2f} slots per visit"
    found = [score(name, with_tiles_s(known, tiles, slots), known.time_s, "products at peak plus visits; 1 constant")]
    for has_result in (False, True):

        def fit(part: Timed, has_result: bool = has_result) -> Fitted:
            return fitted_constants(part, slots, has_result=has_result)

        one = fit(rows)
        figures = f"launch {one.launch_s / MICRO:.3f} us, visits x{one.visits_ratio:.2f}"
        figures += f", {one.result_slots:.2f} slots per result"
        label = f"TPU v4, own tiles, {2 + has_result} constants"
        found.append(score(label, predicted_s(rows, one), rows.time_s, figures))
        found.append(score(".. five-fold", five_fold_s(rows, fit), rows.time_s, ""))
        judged = predicted_s(known, one)
        found.append(score(".. judged on the 100 profiles", judged, known.time_s, "no rule for XLA's tiles transfers"))
    found.append(score("TPU v4, constants that ship", predicted_s(rows, shipped_constants()), rows.time_s, ""))
    return found + loss_lines(known, tiles, rows)


def loss_lines(known: Timed, tiles: tuple[FloatArray, FloatArray], rows: Timed) -> list[Score]:
    """What the compiler loses beyond the mapper's bound, in visits where tiles are known and in time elsewhere."""
    least = operand_visits(known.shapes, *least_visit_tiles(known.shapes, known.vmem_bytes))[:, 0]
    found = [_interval("visits of XLA over the mapper's", operand_visits(known.shapes, *tiles) / least)]
    for name, one in (("615 products", rows), ("100 profiles", known)):
        bound_s = predicted_s(one, replace(shipped_constants(), visits_ratio=1.0))
        found.append(_interval(f"time over the mapper's bound, {name}", one.time_s / bound_s))
    return found


def _interval(name: str, ratio: FloatArray) -> Score:
    low, middle, high = np.percentile(ratio, [10, 50, 90])
    return score(name, ratio, np.ones(len(ratio)), f"median {middle:.2f}, 80 % between {low:.2f} and {high:.2f}")


def scores() -> list[Score]:
    """All comparisons that this machine has the data for."""
    found = simulator_scores()
    profiles, products = reference_data(TILES), reference_data(PRODUCTS)
    if profiles is not None and products is not None:
        found += tpu_scores(load_measurements(profiles), load_measurements(products))
    return found


def main() -> None:
    found = scores()
    print(f"{'comparison':44} rows  mean %   p90 %  bias %  assumes")
    for one in found:
        print(one)


if __name__ == "__main__":
    main()
