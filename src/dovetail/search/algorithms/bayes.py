"""Bayesian optimisation over features of a design, in the manner of Spotlight (Sakhuja et al., HPCA 2023).

Spotlight's point is that a surrogate learns more from quantities that a designer would look at than from raw knobs. A
Gaussian process with a Matern 5/2 kernel sees octaves of each knob and of their products: for a chip, of array sizes
and of all lanes together. A second one learns which points keep the limits, and expected improvement is weighed by the
chance that one does (Gardner et al., ICML 2014): the best designs lie where limits begin, and a penalty on those beyond
would teach a single process to keep away.
"""

from __future__ import annotations

import itertools
import math
from random import Random

import numpy as np

from dovetail.search.algorithms import Algorithm, Scored, Search, algorithms, blind
from dovetail.search.space import Point, Space
from dovetail.workload.graph import FloatArray

NUM_FIRST = 10  # drawn at random before there is a model: twice the knobs of a chip
NUM_CANDIDATES = 256  # looked at by the model each time
NEAR_FRAC = 0.5  # of candidates: neighbours of one of the best
NUM_BEST = 5  # whose neighbours are candidates
LENGTHS = (0.1, 0.2, 0.5, 1.0, 2.0)  # of the kernel, tried by likelihood
NUM_FIXED = 10  # predictions before the length is chosen again
NOISE = 0.00001  # of the variance: evaluations repeat, and this keeps the kernel invertible
NUM_REMEMBERED = 128  # a process grows with the cube of what it has seen
CLIPPED_FRAC = 0.7  # losses above this quantile count as that: how bad a bad design is, tells nothing of good ones


def bayes(space: Space, rng: Random) -> Search:
    """Asks for the candidate with the highest expected improvement, weighed by the chance that it keeps the limits."""
    seen: dict[Point, Scored] = {}
    inside, limits = _Learner(), _Learner()
    while len(seen) < space.num_points:
        point = space.sample(rng)
        if len(seen) >= NUM_FIRST:
            fresh = _candidates(space, rng, list(seen.values()), seen)
            if fresh:
                point = fresh[int(np.argmax(_promise(space, list(seen.values()), fresh, inside, limits)))]
        while point in seen:
            point = space.sample(rng)
        [scored] = yield [point]
        seen[point] = scored


def _candidates(space: Space, rng: Random, scored: list[Scored], seen: dict[Point, Scored]) -> list[Point]:
    """Points not seen: neighbours of the best, and others from anywhere."""
    best = sorted(scored, key=lambda one: (one.loss, one.excess_frac))[:NUM_BEST]
    num_near = int(NEAR_FRAC * NUM_CANDIDATES)
    near = [space.near(rng.choice(best).point, rng) for _ in range(num_near)]
    anywhere = [space.sample(rng) for _ in range(NUM_CANDIDATES - num_near)]
    return [point for point in dict.fromkeys(near + anywhere) if point not in seen]


def _promise(space: Space, scored: list[Scored], fresh: list[Point], inside: _Learner, limits: _Learner) -> FloatArray:
    """Expected improvement of each of `fresh` by the chance that it keeps the limits."""
    at = features(space, fresh)
    kept = sorted((one for one in scored if math.isfinite(one.loss)), key=lambda one: one.loss)[:NUM_REMEMBERED]
    gain = np.ones(len(fresh))
    if len(kept) > 1:
        losses = np.log([one.loss for one in kept])
        losses = np.minimum(losses, np.quantile(losses, CLIPPED_FRAC))
        gain = _expected_gain(*inside.predicted(features(space, [one.point for one in kept]), losses, at), losses[0])
    lately = scored[-NUM_REMEMBERED:]
    is_beyond = np.array([math.isinf(one.loss) for one in lately])
    if is_beyond.any():
        sides = np.where(is_beyond, 1.0, -1.0)
        mean, spread = limits.predicted(features(space, [one.point for one in lately]), sides, at)
        gain = gain * _below(-mean / spread)
    return gain


def features(space: Space, points: list[Point]) -> FloatArray:
    """Octaves of knobs, and of products of two: what designers look at, scaled to the same length."""
    plain = space.features(points)
    pairs = [plain[:, a] + plain[:, b] for a, b in itertools.combinations(range(plain.shape[1]), 2)]
    wide = np.concatenate([plain, np.stack(pairs, axis=1) / 2], axis=1) if pairs else plain
    return np.asarray(wide / math.sqrt(wide.shape[1]))


class _Learner:
    """A Gaussian process fitted again each time; the length of its kernel only every so often."""

    def __init__(self) -> None:
        self._length, self._num_predicted = 0.0, 0

    def predicted(self, x: FloatArray, y: FloatArray, at: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation at new places."""
        middle, scale = y.mean(), max(float(y.std()), NOISE)
        z, gaps = (y - middle) / scale, _gaps(x, x)
        lengths = LENGTHS if self._num_predicted % NUM_FIXED == 0 else (self._length,)
        _, self._length, inverse = min((_fitted(gaps, z, length) for length in lengths), key=lambda fit: fit[0])
        self._num_predicted += 1
        cross = _kernel(_gaps(at, x), self._length) @ inverse.T
        variance = np.maximum(1.0 - (cross**2).sum(axis=1), NOISE)
        return middle + scale * (cross @ (inverse @ z)), scale * np.sqrt(variance)


def _gaps(a: FloatArray, b: FloatArray) -> FloatArray:
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def _kernel(gaps: FloatArray, length: float) -> FloatArray:
    """Matern 5/2."""
    far = gaps * (math.sqrt(5) / length)
    return np.asarray((1 + far + far**2 / 3) * np.exp(-far))


def _fitted(gaps: FloatArray, z: FloatArray, length: float) -> tuple[float, float, FloatArray]:
    """Less the logarithm of the likelihood, the length, and the inverse of the kernel's Cholesky factor."""
    factor = np.linalg.cholesky(_kernel(gaps, length) + NOISE * np.eye(len(z)))
    inverse = np.asarray(np.linalg.inv(factor), dtype=np.float64)
    white = inverse @ z
    return float(white @ white / 2 + np.log(np.diagonal(factor)).sum()), length, inverse


def _expected_gain(mean: FloatArray, spread: FloatArray, least: float) -> FloatArray:
    z = (least - mean) / spread
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    return np.asarray((least - mean) * _below(z) + spread * density)


def _below(z: FloatArray) -> FloatArray:
    """The normal distribution's share below `z`."""
    return np.array([0.5 * math.erfc(value) for value in (z / -math.sqrt(2)).tolist()])


algorithms.register("bayes")(
    Algorithm(search=blind(bayes), summary="Bayesian optimisation over features, as Spotlight")
)
