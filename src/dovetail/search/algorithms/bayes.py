"""Bayesian optimisation over features of a design, in the manner of Spotlight (Sakhuja et al., HPCA 2023).

Spotlight's point is that a surrogate learns more from quantities that a designer would look at than from raw knobs. A
Gaussian process with a Matern 5/2 kernel sees octaves of each knob and of their products: for a chip, of array sizes
and of all lanes together.
"""

from __future__ import annotations

import itertools
import math
from random import Random

import numpy as np

from dovetail.search.algorithms import Algorithm, Scored, Search, algorithms, blind
from dovetail.search.space import Point, Space
from dovetail.workload.graph import FloatArray

NUM_FIRST = 10  # drawn at random before there is a model
NUM_CANDIDATES = 512  # looked at by the model each time
NEAR_FRAC = 0.25  # of candidates: neighbours of the best
LENGTHS = (0.1, 0.2, 0.5, 1.0, 2.0)  # of the kernel, tried by likelihood
NOISE = 0.00001  # of the variance: evaluations repeat, and this keeps the kernel invertible
NUM_REMEMBERED = 200  # the process grows with the cube of what it has seen
PENALTY = 2.0  # in logarithms of loss, of a point that breaks a limit, and more by how far


def bayes(space: Space, rng: Random) -> Search:
    """Asks for the candidate with the highest expected improvement."""
    seen: dict[Point, Scored] = {}
    while len(seen) < space.num_points:
        point = space.sample(rng) if len(seen) < NUM_FIRST else _most_promising(space, rng, list(seen.values()))
        if point in seen:
            point = _unseen(space, rng, seen)
        [told] = yield [point]
        seen[point] = told


def _unseen(space: Space, rng: Random, seen: dict[Point, Scored]) -> Point:
    point = space.sample(rng)
    while point in seen:
        point = space.sample(rng)
    return point


def features(space: Space, points: list[Point]) -> FloatArray:
    """Octaves of knobs, and of products of two: what designers look at, scaled to the same length."""
    plain = space.features(points)
    pairs = [plain[:, a] + plain[:, b] for a, b in itertools.combinations(range(plain.shape[1]), 2)]
    wide = np.concatenate([plain, np.stack(pairs, axis=1) / 2], axis=1) if pairs else plain
    return np.asarray(wide / math.sqrt(wide.shape[1]))


def _most_promising(space: Space, rng: Random, told: list[Scored]) -> Point:
    known = sorted(told, key=lambda one: (one.loss, one.excess_frac))[:NUM_REMEMBERED]
    losses = _logarithms(known)
    num_near = int(NEAR_FRAC * NUM_CANDIDATES)
    candidates = [space.near(known[0].point, rng) for _ in range(num_near)]
    candidates += [space.sample(rng) for _ in range(NUM_CANDIDATES - num_near)]
    seen = {one.point for one in told}
    fresh = [point for point in dict.fromkeys(candidates) if point not in seen] or [space.sample(rng)]
    mean, spread = _predicted(features(space, [one.point for one in known]), losses, features(space, fresh))
    return fresh[int(np.argmax(_expected_gain(mean, spread, float(losses.min()))))]


def _logarithms(known: list[Scored]) -> FloatArray:
    """Losses as logarithms; what breaks a limit lies above the worst that keeps all."""
    finite = [math.log(one.loss) for one in known if math.isfinite(one.loss)]
    worst = max(finite, default=0.0)
    return np.array([math.log(k.loss) if math.isfinite(k.loss) else worst + PENALTY + k.excess_frac for k in known])


def _kernel(a: FloatArray, b: FloatArray, length: float) -> FloatArray:
    """Matern 5/2."""
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    gaps = np.sqrt(np.maximum(squares, 0.0)) * (math.sqrt(5) / length)
    return np.asarray((1 + gaps + gaps**2 / 3) * np.exp(-gaps))


def _predicted(x: FloatArray, y: FloatArray, at: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation at new places, by the length whose likelihood is highest."""
    middle, scale = y.mean(), max(float(y.std()), NOISE)
    z = (y - middle) / scale
    best = min((_fitted(x, z, length) for length in LENGTHS), key=lambda fit: fit[0])
    _, length, inverse, weights = best
    cross = _kernel(at, x, length)
    variance = np.maximum(1.0 - ((cross @ inverse) * cross).sum(axis=1), NOISE)
    return middle + scale * (cross @ weights), scale * np.sqrt(variance)


def _fitted(x: FloatArray, z: FloatArray, length: float) -> tuple[float, float, FloatArray, FloatArray]:
    """Less the logarithm of the likelihood, the length, the kernel's inverse, and the weights of what is known."""
    kernel = _kernel(x, x, length) + NOISE * np.eye(len(x))
    inverse = np.asarray(np.linalg.inv(kernel), dtype=np.float64)
    weights = np.asarray(inverse @ z)
    return float(z @ weights + np.linalg.slogdet(kernel)[1]) / 2, length, inverse, weights


def _expected_gain(mean: FloatArray, spread: FloatArray, least: float) -> FloatArray:
    z = (least - mean) / spread
    normal = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in z])
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    return np.asarray((least - mean) * normal + spread * density)


algorithms.register("bayes")(
    Algorithm(search=blind(bayes), summary="Bayesian optimisation over features, as Spotlight")
)
