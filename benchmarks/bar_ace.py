"""ACE's promises: every number of the paper that must be met, and arbitration beyond it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.bar import Bar
from dovetail.papers.ace import ace_study
from dovetail.papers.beyond import Compared, beyond
from dovetail.papers.beyond_cases import NUM_SPLITS
from dovetail.papers.check import Check

ISSUE = 4


def bars() -> Iterator[Bar]:
    study = ace_study()
    yield exact([check for check in study.checks if not check.within_frac])
    yield from (near(check) for check in study.checks if check.within_frac)
    found = beyond()
    yield beyond_ace(found)
    yield arbitration(found)


def exact(checks: Sequence[Check]) -> Bar:
    num_met = sum(check.holds for check in checks)
    return Bar(
        name="ACE T1 to T3",
        issue=ISSUE,
        bar="all as the paper has them",
        measured=f"{num_met} of {len(checks)}",
        holds=num_met == len(checks),
        note=", ".join(check.what for check in checks if not check.holds),
    )


def near(check: Check) -> Bar:
    return Bar(
        name=f"ACE {check.what}",
        issue=ISSUE,
        bar=f"{check.paper} within {check.within_frac:.0%}",
        measured=f"{check.ours:.3f} ({check.error_frac:+.1%})",
        holds=check.holds,
    )


def beyond_ace(found: Sequence[Compared]) -> Bar:
    """Ideal bounds every mechanism of every job; on chips of 2026 the endpoint matters for some and not for others."""
    beaten = [f"{one.job} on {one.system}: {name}" for one in found for name in _beating(one)]
    modern = {one.does_matter for one in found if one.system != "ACE NPU"}
    num_cells = sum(len(one.iterations) for one in found)
    matters = ", ".join(f"{one.job} on {one.system} {one.endpoint_frac:.1%}" for one in found if one.does_matter)
    return Bar(
        name="beyond ACE: jobs x mechanisms in one table",
        issue=ISSUE,
        bar="13 jobs, none quicker than ideal; matters for some of 2026, not for others",
        measured=f"{len(found)} jobs, {num_cells} cells, {len(beaten)} quicker than ideal",
        holds=len(found) == 13 and not beaten and modern == {True, False},
        note=f"an SM ring costs more than 5 % for {matters}" + "".join(f"; beaten: {one}" for one in beaten),
    )


def _beating(one: Compared) -> list[str]:
    return [name for name, iteration in one.iterations if iteration.iteration_s < one.ideal_s * (1 - 1e-9)]


def arbitration(found: Sequence[Compared]) -> Bar:
    """Dynamic against the best of all static splits on the grid, for every job and for SM ring and ACE."""
    ratios = []
    for one in found:
        times_s = {(name, how): seconds for name, how, seconds in one.arbitrated}
        ratios += [times_s[name, "dynamic"] / times_s[name, "static"] for name in ("SM ring", "ACE")]
    return Bar(
        name="dynamic arbitration over the best static split",
        issue=ISSUE,
        bar=f"never slower than the best of {NUM_SPLITS} splits",
        measured=f"{1 - max(ratios):.1%} to {1 - min(ratios):.1%} faster",
        holds=max(ratios) <= 1 + 1e-9,
    )
