"""One operator on one chip: our cost beside the plain roofline and the closed forms of systolic arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.accuracy.columns import attention_ops, bare_ops, convolution_ops, product_ops
from dovetail.cost.costs import op_costs
from dovetail.cost.kernels import FUSED_BACKWARD, FUSED_FORWARD
from dovetail.cost.limits import op_limits
from dovetail.cost.op_cost import LIMITS, OpCosts, Setting
from dovetail.cost.own_costs import own_kinds
from dovetail.cost.power import Load, sustained_clock_frac
from dovetail.cost.systolic import DATAFLOWS, systolic_cycles
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.hardware.chip import Chip
from dovetail.workload.graph import IntArray, Ops, Phase
from dovetail.workload.operators import DTYPES, OPERATORS, Unit, code_of
from dovetail.workload.optimizer import Precision
from dovetail.workload.optimizers import optimizers, update_operator_names

PHASES = {"forward": Phase.FORWARD, "input-grad": Phase.INPUT_GRAD, "weight-grad": Phase.WEIGHT_GRAD}
ALIASES = {"gemm": "matmul", "mm": "matmul", "bmm": "matmul", "conv": "convolution"}
PRODUCTS = ("linear", "matmul", "expert_linear", "recurrent_linear")
# Options that one operator alone makes anything of, by the names of the request's fields.
_OPTIONS = {
    "heads": ("--heads", "attention"),
    "kv_heads": ("--kv-heads", "attention"),
    "seq": ("--seq", "attention"),
    "head_width": ("--head-dim", "attention"),
    "is_causal": ("--causal", "attention"),
    "window": ("--kernel", "convolution"),
    "stride": ("--stride", "convolution"),
    "table_rows": ("--table-rows", "embedding"),
}
_FUSED = {*FUSED_FORWARD, *FUSED_BACKWARD, "expert_linear"}  # those that run otherwise with --fused


def kinds() -> tuple[str, ...]:
    """Operators that a chip's own units run, those of plugins among them."""
    return tuple(o.name for o in OPERATORS if o.unit in (Unit.TENSOR, Unit.VECTOR))


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorQuery:
    """One operator as a person says it; sizes that it does not have are left at 1."""

    kind: str
    dims: tuple[int, ...] = ()
    dtype: str = "bf16"
    phase: str = "forward"
    batch: int = 1
    heads: int = 1
    kv_heads: int = 0  # 0: as many as heads
    seq: int = 0
    head_width: int = 0
    is_causal: bool = False
    window: int = 1
    stride: int = 1
    table_rows: int = 1  # of an embedding's table
    is_fused: bool = False
    setting: str = Setting.ALONE.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What one model says of the operator, and what binds it there."""

    model: str
    time_s: float
    limit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpAnswer:
    """One operator on one chip; `others` are for comparison."""

    kind: str
    what: str
    chip: str
    dtype: str
    phase: str
    time_s: float
    flop: float
    hbm_bytes: float
    energy_j: float
    mean_w: float
    tdp_w: float
    sustained_s: float  # again and again, at the clock that the power limit then leaves
    clock_frac: float
    limit: str
    peak_flop_per_s: float
    peak_bytes_per_s: float
    others: tuple[Estimate, ...]

    @property
    def flop_per_s(self) -> float:
        return self.flop / self.time_s

    @property
    def hbm_bytes_per_s(self) -> float:
        return self.hbm_bytes / self.time_s


def op_answer(query: OperatorQuery, chip: Chip, *, is_compared: bool = False) -> OpAnswer:
    """The operator's cost as `query` runs it; with `is_compared`, other models' words on it."""
    kind = _kind(query.kind)
    _check_names(query)
    _check_used(kind, query)
    ops = _ops(kind, query)
    ops = replace(ops, is_fused=np.full(len(ops), query.is_fused))
    is_tensor = bool(ops.unit[0] == Unit.TENSOR)
    peak_flop_per_s = chip.peak_flop_per_s(query.dtype) if is_tensor else chip.vector.peak_flop_per_s
    costs = op_costs(ops, chip, Setting(query.setting))
    if not np.isfinite(costs.compute_s[0]):
        raise InvalidInput(f"{chip.name}'s figures give no finite time; look at its bandwidths and rates")
    others: tuple[Estimate, ...] = (_roofline(ops, chip, peak_flop_per_s),) if is_compared else ()
    if is_compared and kind in PRODUCTS and has_array(chip):
        others += _systolic(ops, chip)
    return OpAnswer(
        kind=kind,
        what=_what(kind, ops),
        chip=chip.name,
        dtype=DTYPES[int(ops.dtype[0])],
        phase="update" if ops.phase[0] == Phase.UPDATE else query.phase,
        limit=LIMITS[int(op_limits(ops, chip, Setting(query.setting))[0])],
        peak_flop_per_s=peak_flop_per_s,
        peak_bytes_per_s=chip.hbm.bandwidth_bytes_per_s,
        others=others,
        **_figures(ops, costs, chip),
    )


def _figures(ops: Ops, costs: OpCosts, chip: Chip) -> dict[str, float]:
    """Time, traffic, energy and power, and what the operator comes to when run again and again."""
    load = Load(cost=op_costs(ops, chip).total(np.ones(1, dtype=np.bool_)))
    clock_frac = sustained_clock_frac(load, chip)
    time_s, energy_j = float(costs.compute_s[0]), float(costs.energy_j[0])
    return {
        "time_s": time_s,
        "flop": float(costs.flop[0]),
        "hbm_bytes": float(costs.hbm_bytes[0]),
        "energy_j": energy_j,
        "mean_w": chip.energy.idle_w + energy_j / time_s,
        "tdp_w": chip.tdp_w,
        "sustained_s": load.time_s(clock_frac),
        "clock_frac": clock_frac,
    }


def has_array(chip: Chip) -> bool:
    """Whether the chip's units are systolic arrays: those hold tiles of just their own rows and columns."""
    return chip.tensor.tiling.tiles == ((chip.tensor.num_rows, chip.tensor.num_cols),)


def _kind(name: str) -> str:
    aliases = ALIASES | {alias.replace("-", "_"): each.name for _, each in optimizers.items() for alias in each.aliases}
    plain = name.strip().lower().replace("-", "_")
    plain = aliases.get(plain, plain)
    if plain not in kinds():
        raise InvalidInput(f"no operator is named {name!r}{did_you_mean(plain, (*kinds(), *aliases))}", "KIND")
    return plain


def _update_bytes(kind: str, rows: int, cols: int) -> float:
    """What the element-wise step of an optimizer moves per parameter: all in fp32, the weights their own master copy.

    Of an optimizer that updates matrices in a way of their own this is its share for one of so many rows and columns;
    products that it needs are operators of their own.
    """
    precision = Precision(optimizer=_optimizer_of(kind), compute="fp32")
    update = precision.entry.matrix_update
    if update is None or update.operator != kind or (cols == 1 and precision.entry.update.operator == kind):
        return precision.update_bytes
    return precision.matrix_update_bytes + 2 * precision.factor_bytes * (rows + cols) / (rows * cols)


def _optimizer_of(kind: str) -> str:
    """The optimizer whose own element-wise operator `kind` is: another's rest may go by it too."""
    using = [name for name, each in optimizers.items() if kind in (update.operator for update in each.updates)]
    return min(using, key=lambda name: optimizers[name].updates[-1].operator != kind)


def _check_names(query: OperatorQuery) -> None:
    if query.dtype not in DTYPES:
        raise InvalidInput(f"no dtype is named {query.dtype!r}{did_you_mean(query.dtype, DTYPES)}", "--dtype")
    if query.phase == "weight-grad" and not _has_weights(_kind(query.kind)):
        raise InvalidInput(f"{query.kind} has no weight gradient; input-grad is its backward pass", "--pass")
    if query.phase not in PHASES:
        raise InvalidInput(f"no pass is named {query.phase!r}{did_you_mean(query.phase, PHASES)}", "--pass")
    known = tuple(setting.value for setting in Setting)
    if query.setting not in known:
        raise InvalidInput(f"no setting is named {query.setting!r}{did_you_mean(query.setting, known)}", "--setting")


def _check_used(kind: str, query: OperatorQuery) -> None:
    """Raises where an option was given that changes nothing for this operator."""
    plain = OperatorQuery(kind=query.kind)
    is_ours = code_of(kind) not in own_kinds()  # a plugin's cost may look at anything
    for name, (option, of) in _OPTIONS.items():
        if is_ours and kind != of and getattr(query, name) != getattr(plain, name):
            raise InvalidInput(f"{option} is of {of}; leave it out")
    if is_ours and query.is_fused and kind not in _FUSED:
        raise InvalidInput("--fused is of operators that PyTorch gives more passes, such as layernorm; leave it out")
    if kind in update_operator_names() and query.phase != "forward":
        raise InvalidInput("an update has one pass; leave it out", "--pass")
    if kind in update_operator_names() and query.dtype not in ("fp32", plain.dtype):
        raise InvalidInput(f"an update is computed in fp32, not in {query.dtype}; leave it out", "--dtype")


def _has_weights(kind: str) -> bool:
    return kind in (*PRODUCTS, "convolution", "embedding", "embedding_bag", "bias_grad", *update_operator_names())


def _ops(kind: str, query: OperatorQuery) -> Ops:
    phase, dtypes = _one(PHASES[query.phase]), [query.dtype]
    if kind == "attention":
        _need(query, 0, "no sizes but --seq and --head-dim, with --batch, --heads and --kv-heads")
        if not query.seq or not query.head_width:
            raise InvalidInput("attention needs --seq and --head-dim")
        if query.kv_heads and query.heads % query.kv_heads:
            raise InvalidInput(f"kv-heads must divide heads; got {query.kv_heads} of {query.heads}", "--kv-heads")
        return attention_ops(
            _one(query.batch * query.heads),
            _one(query.seq),
            _one(query.head_width),
            kv_frac=np.array([(query.kv_heads or query.heads) / query.heads]),
            work_frac=np.array([0.5 if query.is_causal else 1.0]),
            phase=_one(Phase.FORWARD if query.phase == "forward" else Phase.INPUT_GRAD),
            dtypes=dtypes,
        )
    if kind == "convolution":
        _need(query, 3, "in channels, out channels and the side of its square images, with --batch and --kernel")
        in_channels, out_channels, side = (_one(size) for size in query.dims)
        shape = {"batch": _one(query.batch), "window": _one(query.window), "stride": _one(query.stride), "side": side}
        return convolution_ops(in_channels=in_channels, out_channels=out_channels, phase=phase, dtypes=dtypes, **shape)
    return _product(kind, query, phase) if kind in PRODUCTS else _vector(kind, query, phase)


def _product(kind: str, query: OperatorQuery, phase: IntArray) -> Ops:
    """Sizes are those of the forward product; its gradients contract over another of them."""
    _need(query, 3, "M, N and K of C[M,N] = A[M,K] B[K,N]")
    m, n, k = (_one(size) for size in query.dims)
    if query.phase == "input-grad":
        n, k = k, n
    elif query.phase == "weight-grad":
        m, k = k, m
    if kind in ("linear", "matmul"):  # one product is one whether its second operand is a weight or not
        kind = "matmul" if query.batch > 1 else "linear"
    return product_ops(query.batch, m, n, k, kind=kind, phase=phase, dtypes=[query.dtype])


def _vector(kind: str, query: OperatorQuery, phase: IntArray) -> Ops:
    if len(query.dims) not in (1, 2):
        raise InvalidInput(f"{kind} takes rows and columns; got {len(query.dims)} sizes", "DIMS")
    rows, cols = (*query.dims, 1)[:2]
    is_update = kind in update_operator_names()
    return bare_ops(
        kind=code_of(kind),
        phase=_one(Phase.UPDATE) if is_update else phase,
        dtypes=["fp32" if is_update else query.dtype],
        extents=(query.batch, rows, cols, query.table_rows, 1),
        side_bytes_per_element=_update_bytes(kind, rows, cols) if is_update else 0.0,
    )


def _one(count: int) -> IntArray:
    return np.array([count], dtype=np.int64)


def _need(query: OperatorQuery, num_dims: int, words: str) -> None:
    if len(query.dims) != num_dims:
        raise InvalidInput(f"{query.kind} takes {words}; got {len(query.dims)} sizes", "DIMS")


def _what(kind: str, ops: Ops) -> str:
    b, m, n, k, v = (int(size) for size in ops.extents[0])
    if kind == "attention":
        groups = float(ops.distinct_frac[0, 1])
        shared = f", {round(b * groups)} of keys" if groups < 1 else ""
        mask = ", causal" if float(ops.work_frac[0]) < 1 else ""
        return f"{b} heads{shared}, {m} queries by {n} keys, width {k}{mask}"
    if kind in (*PRODUCTS, "convolution"):
        batched = f"{b} x " if b > 1 else ""
        return f"{batched}C[{m},{n}] = A[{m},{k}] B[{k},{n}]"
    return f"{b * m} rows of {n}" if v == 1 else ""


def _roofline(ops: Ops, chip: Chip, peak_flop_per_s: float) -> Estimate:
    """The slower of arithmetic at peak and traffic at full bandwidth, nothing else."""
    math_s = float(ops.flop[0]) / peak_flop_per_s
    hbm_s = float(ops.read_bytes[0] + ops.write_bytes[0]) / chip.hbm.bandwidth_bytes_per_s
    unit = "tensor" if ops.unit[0] == Unit.TENSOR else "vector"
    return Estimate(model="roofline at peak", time_s=max(math_s, hbm_s), limit=unit if math_s >= hbm_s else "hbm")


def _systolic(ops: Ops, chip: Chip) -> tuple[Estimate, ...]:
    """Closed forms with tiles dealt over the chip's arrays, memory never in the way."""
    b, m, n, k, _ = ops.extents.astype(np.float64).T
    units = chip.tensor
    found = []
    for dataflow in DATAFLOWS:
        for is_overlapped in (False, True):
            steps = b * systolic_cycles(
                m,
                n,
                k,
                num_rows=units.num_rows,
                num_cols=units.num_cols,
                dataflow=dataflow,
                is_overlapped=is_overlapped,
                num_arrays=units.num_units,
            )
            words = f"{dataflow}, {'overlapped' if is_overlapped else 'exact'}"
            found.append(Estimate(model=words, time_s=float(steps[0]) / chip.clock_hz, limit="tensor"))
    return tuple(found)
