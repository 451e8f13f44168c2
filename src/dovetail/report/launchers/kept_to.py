"""What keeps a search to plans that a framework runs as they are, as options of `dovetail plan`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from dovetail.errors import DovetailError
from dovetail.hardware.heterogeneous import AnyCluster
from dovetail.parallel.plan import RECOMPUTE_POLICIES, Plan
from dovetail.report.launchers.frameworks import Launcher
from dovetail.report.launchers.launch import Launch
from dovetail.search.planners.constraints import KEYS, written
from dovetail.workload.workload import Workload

_SEVERAL: dict[str, tuple[Any, ...]] = {"recompute": RECOMPUTE_POLICIES, "zero_stage": (0, 1, 2, 3)}
_BY_STAGE = {"recompute", "recompute_layers", "layers_per_stage"}


def options(launcher: Launcher, workload: Workload, cluster: AnyCluster, plan: Plan) -> tuple[str, ...]:
    """Options that leave out what is run otherwise of `plan`; none where it runs as it is."""
    return tuple(_options(partial(launcher, workload, cluster), plan))


def _options(launched: Callable[[Plan], Launch], plan: Plan) -> Iterator[str]:
    changed = _changed(launched(plan))
    for name in dict.fromkeys("recompute" if name == "recompute_layers" else name for name in changed):
        if name in _SEVERAL:
            said = [value for value in _SEVERAL[name] if _is_said(launched, plan, name, value)]
            yield f"--fix {name}={','.join(map(written, said))}"
        elif name in KEYS:
            yield f"--fix {name}={written(changed[name])}"
    if changed.keys() & _BY_STAGE:
        yield "--forbid uneven"


def _changed(launch: Launch) -> dict[str, Any]:
    return dict(pair for one in launch.missing for pair in one.instead)


def _is_said(launched: Callable[[Plan], Launch], plan: Plan, name: str, value: Any) -> bool:
    """Whether a plan like `plan`, but alike on all stages, can have `value`."""
    alike = {"recompute": plan.recompute[:1], "recompute_layers": (), "layers_per_stage": ()}
    wanted = replace(plan, **alike | {name: (value,) if name == "recompute" else value})
    try:
        return name not in _changed(launched(wanted))
    except DovetailError:
        return False
