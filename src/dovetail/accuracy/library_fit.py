"""Constants of a collective library fitted to a platform's own logs, few or many rows of them.

Every constant has a prior: what the library has for the nearest platform, and how far generations lie apart in it. So
a single row moves all latencies together, one large all-gather over each number of ranks gives a PCIe platform its
bandwidths, and what no row tells stays where it was. Nothing is random.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.accuracy.collective_rows import Collectives, seconds_of
from dovetail.comm.library.on_group import LINK_RATE, Library
from dovetail.comm.library.platforms import Platform, RingPlatform
from dovetail.comm.library.timing import link_rate_bytes_per_s
from dovetail.errors import InvalidInput
from dovetail.hardware.topology import FittedConstants
from dovetail.workload.graph import BoolArray, FloatArray

FAR_FRAC = 0.12  # an error from which on it counts by its distance and not its square; also what one row is off by
PACE_SPREAD = 0.30  # of base latency between A100, H100 and B200, in logarithms: all latencies go with it,
LATENCY_SPREAD = 0.15  # and each differs from that by as much again: hop over base is 0.14, 0.21 and 0.20
CHUNK_SPREAD = 0.55  # of the chunk's overhead between the three
OWN_CHUNK_SPREAD = 0.78  # of the own chunk's ratio in an all-to-all, likewise
KNOWN_RATE_SPREAD = 0.05  # NVLink's bandwidth: fitted freely it comes to within 3 % of NCCL's figures
PCIE_RATE_SPREAD = 1.5  # bandwidth over PCIe by number of ranks: L40S loses a factor of 4 per doubling, others little
PROTOCOL_SPREAD = 0.3  # of PCIe's protocols, which one platform was measured of
NETWORK_SPREAD = 0.5  # of steps and fill between nodes; InfiniBand and EFA are a factor of 2 to 4 apart
NIC_SPREAD = 0.1  # of the share of the NICs that is reached: 0.85 and 0.91 on two clusters
TUNER_RATIOS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the tuner's bandwidth, which decides where protocols change
TUNER_SPREAD = 0.7  # in logarithms: a factor of 2
MIN_TUNER_ROWS = 12  # of one collective over one number of ranks, to tell where protocols change
MIN_LEFT_OUT_SIZES = 4
NUM_FOLDS = 5
NUDGE = 1e-5  # style: of a constant's logarithm
MAX_ROUNDS = 60
LEAST_GAIN_FRAC = 1e-7  # style: a tolerance


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedConstant:
    """A constant before and after; `num_ranks` is 0 where it holds for any."""

    name: str
    num_ranks: int
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LibraryFit:
    """A library fitted to rows: seconds before and after, and by fits to the other sizes where there are enough."""

    constants: tuple[FittedConstant, ...]
    tuner_ratio: float
    rows: Collectives
    before_s: FloatArray
    after_s: FloatArray
    left_out_s: FloatArray  # none where there are too few sizes
    ran: tuple[str, ...]

    @property
    def fitted(self) -> FittedConstants:
        return tuple((one.name, one.num_ranks, one.after) for one in self.constants)

    def error_frac(self, seconds: FloatArray) -> float:
        return float(np.abs(seconds / self.rows.measured_s - 1).mean())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Problem:
    """Constants as a vector of logarithms: names, where it begins, and the inverse of a root of its covariance."""

    names: tuple[tuple[str, int], ...]
    begin: FloatArray
    whitening: FloatArray
    predicted: Callable[[FloatArray], FloatArray]
    measured_s: FloatArray


def fit_library(library: Library, rows: Collectives) -> LibraryFit:
    """The constants of `library` that err least on `rows`, which are all of one platform."""
    if not len(rows.measured_s):
        raise InvalidInput("a fit needs at least one row of measurements")
    ratios = TUNER_RATIOS if _tells_protocols(rows) and isinstance(library.platform, Platform) else (1.0,)
    tried = []
    for ratio in ratios:
        problem = _problem(_with_tuner(library, ratio), rows)
        point, loss = _least(problem, np.ones(len(rows.measured_s), dtype=np.bool_))
        tried.append((loss + (np.log(ratio) / TUNER_SPREAD) ** 2 / 2, abs(np.log(ratio)), ratio, problem, point))
    _, _, ratio, problem, point = min(tried, key=lambda one: one[:3])
    found = [
        FittedConstant(name=name, num_ranks=num_ranks, before=float(before), after=float(after))
        for (name, num_ranks), before, after in zip(problem.names, np.exp(problem.begin), np.exp(point), strict=True)
    ]
    if isinstance(library.platform, Platform):
        rates = [(one.before, one.after) for one in found if one.name == LINK_RATE]
        before = library.platform.tuner_bytes_per_s
        moved = ratio * (rates[0][1] / rates[0][0] if library.platform.link == "NVLink" else 1.0)
        if moved != 1.0:
            found.append(FittedConstant(name="tuner_bytes_per_s", num_ranks=0, before=before, after=before * moved))
    final = library.with_constants(tuple((one.name, one.num_ranks, one.after) for one in found))
    after_s, ran = seconds_of(final.platform, final.network, rows)
    return LibraryFit(
        constants=tuple(found),
        tuner_ratio=ratio,
        rows=rows,
        before_s=seconds_of(library.platform, library.network, rows)[0],
        after_s=after_s,
        left_out_s=_left_out(problem, rows),
        ran=ran,
    )


def _tells_protocols(rows: Collectives) -> bool:
    keys = list(zip(rows.operations, rows.num_ranks.tolist(), strict=True))
    return max(keys.count(key) for key in set(keys)) >= MIN_TUNER_ROWS


def _with_tuner(library: Library, ratio: float) -> Library:
    platform = library.platform
    if ratio == 1.0 or isinstance(platform, RingPlatform):
        return library
    return replace(library, platform=replace(platform, tuner_bytes_per_s=platform.tuner_bytes_per_s * ratio))


def _problem(library: Library, rows: Collectives) -> _Problem:
    """What `rows` can tell of `library`."""
    platform, network = library.platform, library.network
    spreads: dict[tuple[str, int], tuple[float, float, float]] = {}  # begin, spread of its own, share of the pace
    local = rows.num_ranks // rows.num_nodes
    if isinstance(platform, RingPlatform):
        spreads["hop_s", 0] = platform.hop_s, NETWORK_SPREAD, 0.0
        spreads["chunk_s", 0] = platform.chunk_s, NETWORK_SPREAD, 0.0
        spreads["nic_frac", 0] = platform.nic_frac, NIC_SPREAD, 0.0
    else:
        is_nvlink = platform.link == "NVLink"
        for name in ("base_s", "hop_s", "channels_s"):
            if value := getattr(platform, name):
                own = 0.0 if name == "base_s" else LATENCY_SPREAD
                spreads[name, 0] = value, max(own, NUDGE), PACE_SPREAD
        spreads["chunk_s", 0] = platform.chunk_s, CHUNK_SPREAD, 0.0
        if platform.p2p_own_chunk_ratio:
            spreads["p2p_own_chunk_ratio", 0] = platform.p2p_own_chunk_ratio, OWN_CHUNK_SPREAD, 0.0
        if not is_nvlink:
            for name in ("ll_frac", "simple_hop_ratio", "p2p_s"):
                spreads[name, 0] = getattr(platform.protocols, name), PROTOCOL_SPREAD, 0.0
        counts = [2] if is_nvlink else sorted(set(local.tolist()) | {count for count, _ in platform.link_bytes_per_s})
        for count in counts:
            rate = float(link_rate_bytes_per_s(platform, count))
            spreads[LINK_RATE, count] = rate, KNOWN_RATE_SPREAD if is_nvlink else PCIE_RATE_SPREAD, 0.0
        if (rows.num_nodes > 1).any():
            for name in ("step_s", "fill_s", "fill_bytes"):
                spreads[name, 0] = getattr(network, name), NETWORK_SPREAD, 0.0
            spreads["nic_frac", 0] = network.nic_frac, NIC_SPREAD, 0.0
    names = tuple(spreads)
    begin, spread, paces = (np.array(column) for column in zip(*spreads.values(), strict=True))
    covariance = np.diag(spread**2) + np.outer(paces, paces)
    begin_rates = dict(platform.link_bytes_per_s) if isinstance(platform, Platform) else {}

    def predicted(logs: FloatArray) -> FloatArray:
        values = tuple((name, count, float(v)) for (name, count), v in zip(names, np.exp(logs), strict=True))
        changed = library.with_constants(values).platform
        if isinstance(changed, Platform) and changed.link == "NVLink":
            ratio = changed.link_bytes_per_s[0][1] / next(iter(begin_rates.values()))
            changed = replace(changed, tuner_bytes_per_s=changed.tuner_bytes_per_s * ratio)
        return seconds_of(changed, library.with_constants(values).network, rows)[0]

    return _Problem(
        names=names,
        begin=np.log(begin),
        whitening=np.linalg.inv(np.linalg.cholesky(covariance)),
        predicted=predicted,
        measured_s=rows.measured_s,
    )


def _least(problem: _Problem, kept: BoolArray) -> tuple[FloatArray, float]:
    """The most likely constants by the rows that are kept, and how unlikely: Levenberg and Marquardt's steps."""

    def left(point: FloatArray) -> FloatArray:
        found: FloatArray = np.log(problem.predicted(point) / problem.measured_s)[kept]
        return found

    def loss(errors: FloatArray, point: FloatArray) -> float:
        prior = problem.whitening @ (point - problem.begin)
        return float((np.sqrt(1 + (errors / FAR_FRAC) ** 2) - 1).sum() + prior @ prior / 2)

    precision = problem.whitening.T @ problem.whitening
    point, damping = problem.begin, 0.01
    errors = left(point)
    for _ in range(MAX_ROUNDS):
        slopes = np.stack([(left(point + NUDGE * axis) - errors) / NUDGE for axis in np.eye(len(point))], axis=1)
        weights = 1 / np.sqrt(1 + (errors / FAR_FRAC) ** 2) / FAR_FRAC**2
        normal = slopes.T @ (slopes * weights[:, None]) + precision
        pull = slopes.T @ (weights * errors) + precision @ (point - problem.begin)
        before = loss(errors, point)
        while damping < 1 / NUDGE:
            step = np.clip(np.linalg.solve(normal + damping * np.diag(np.diag(normal)), -pull), -0.5, 0.5)
            tried = left(point + step)
            if loss(tried, point + step) < before:
                point, errors, damping = point + step, tried, damping / 5
                break
            damping *= 4
        else:
            break
        if before - loss(errors, point) < LEAST_GAIN_FRAC * before:
            break
    return point, loss(errors, point)


def _left_out(problem: _Problem, rows: Collectives) -> FloatArray:
    """Seconds of every row by a fit without its size and some others, a fifth of all sizes at a time."""
    sizes = sorted(set(rows.size_bytes.tolist()))
    if len(sizes) < MIN_LEFT_OUT_SIZES:
        return np.zeros(0)
    fold_of = {size: place % min(NUM_FOLDS, len(sizes)) for place, size in enumerate(sizes)}
    folds = np.array([fold_of[size] for size in rows.size_bytes.tolist()])
    found = np.zeros(len(folds))
    for fold in sorted(set(folds.tolist())):
        point, _ = _least(problem, folds != fold)
        found[folds == fold] = problem.predicted(point)[folds == fold]
    return found


def identified(fit: LibraryFit) -> Sequence[FittedConstant]:
    """Constants that the rows moved by more than a part in a thousand."""
    return [one for one in fit.constants if abs(one.after / one.before - 1) > 1e-3]  # style: a tolerance
