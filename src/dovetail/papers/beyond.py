"""Beyond ACE: the same question on the chips of 2026. Where does the endpoint still matter?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial

from dovetail.papers.beyond_cases import FEEDS, FREE, MECHANISMS, Job, Mechanism, jobs, loads
from dovetail.step.one_device.shared_chip import ARBITERS, STATIC
from dovetail.step.one_device.shared_loop import SharedIteration, shared_iteration

MATTERS_FRAC = 0.05  # of an iteration that the endpoint costs, above which we say that it matters
ARBITRATIONS = (STATIC, *ARBITERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One job: an iteration for each mechanism that its network allows, and ACE's for each arbitration.

    `free_s` is one of an endpoint that costs nothing but sends as the SM ring does, in one order of dimensions: what
    differs from it is the endpoint's; ideal sends in the quickest way there is, and nothing beats it.
    """

    job: str
    system: str
    iterations: tuple[tuple[str, SharedIteration], ...]
    free_s: float
    arbitrated: tuple[tuple[str, str, float], ...]  # style: (endpoint, arbitration, seconds)

    def of(self, name: str) -> SharedIteration | None:
        return dict(self.iterations).get(name)

    @property
    def ideal_s(self) -> float:
        return dict(self.iterations)["ideal"].iteration_s

    @property
    def endpoint_frac(self) -> float:
        """What the SM ring costs over a free endpoint that sends as it does, as a share of its iteration."""
        return 1 - self.free_s / dict(self.iterations)["SM ring"].iteration_s

    @property
    def does_matter(self) -> bool:
        return self.endpoint_frac > MATTERS_FRAC

    @property
    def order_frac(self) -> float:
        """What Themis' order of dimensions saves beside the endpoint: ACE+ over a free one, as a share of that."""
        return 1 - dict(self.iterations)["ACE+"].iteration_s / self.free_s

    @property
    def switch_frac(self) -> float:
        """What reduction in switches saves over a free endpoint without it; 0 where there are none."""
        found = self.of("in-switch")
        return 1 - found.iteration_s / self.free_s if found else 0.0


def iteration_of(job: Job, mechanism: Mechanism) -> SharedIteration:
    """Under a static split the best one of FEEDS, chosen for the job, which is not possible at run time."""
    made = loads(job.program.payloads, job.system, job.network, mechanism)
    feeds = FEEDS if mechanism.arbitration == STATIC else FEEDS[:1]
    tried = [shared_iteration(job.program.steps, made, mechanism.arbitration, feed_frac) for feed_frac in feeds]
    return min(tried, key=lambda iteration: iteration.iteration_s)


def compared(job: Job) -> Compared:
    made = cache(partial(iteration_of, job))  # ACE's static split and the SM ring's priority are in both
    allowed = [m for m in MECHANISMS if m.endpoint != "in-switch" or job.system.is_switched]
    iterations = tuple((mechanism.name, made(mechanism)) for mechanism in allowed)
    arbitrated = tuple(
        (mechanism.name, arbitration, made(replace(mechanism, arbitration=arbitration)).iteration_s)
        for mechanism in MECHANISMS
        if mechanism.name in ("SM ring", "ACE")
        for arbitration in ARBITRATIONS
    )
    free_s = iteration_of(job, FREE).iteration_s
    named = {"job": job.name, "system": job.system.name}
    return Compared(**named, iterations=iterations, free_s=free_s, arbitrated=arbitrated)


def beyond() -> tuple[Compared, ...]:
    """Every job on each of its systems."""
    return tuple(compared(job) for job in jobs())
