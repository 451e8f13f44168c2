"""What a framework can run of the plans that a user leaves open: its entry as a space to search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from dovetail.errors import DovetailError
from dovetail.hardware.heterogeneous import AnyCluster, chips_of
from dovetail.parallel.plan import OVERLAPS, Overlap, Plan, Plans
from dovetail.report.launchers.fallbacks import as_run
from dovetail.report.launchers.frameworks import FrameworkLauncher, Launcher, launchers
from dovetail.search.planners.constraints import OVERLAP, Constraint, space_under
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.search.planners.runnable_plans import RunnableSpace
from dovetail.workload.graph import BoolArray
from dovetail.workload.workload import Workload

ZERO_STAGES = (0, 1, 2, 3)
WHERE = "--framework"


def frameworks_for(cluster: AnyCluster) -> tuple[str, ...]:
    """Frameworks that are shown for chips such as these: those of TPUs for TPUs, the others for GPUs."""
    is_tpu = all(chip.vendor == "Google" for chip in chips_of(cluster))
    return tuple(name for name, entry in launchers.items() if entry.is_for_tpus == is_tpu)


def runnable_spaces(
    name: str, version: str, workload: Workload, cluster: AnyCluster, constraints: Iterable[Constraint]
) -> tuple[RunnableSpace, ...]:
    """What the release `version` of a framework runs under `constraints`: a space for each way it keeps weights.

    Raises where nothing is left, or where the framework does not train such a model on such chips at all.
    """
    entry, wanted = launchers[name], tuple(constraints)
    launcher = entry.at(version)
    stages = _zero_stages(entry, wanted)
    found: dict[Workload, list[int]] = {}
    refusals: list[DovetailError] = []
    for stage in stages:
        try:
            found.setdefault(_as_trained(name, entry, launcher, workload, cluster, stage), []).append(stage)
        except DovetailError as error:
            refusals.append(error)
    spaces, problems = [], list(refusals)
    for trained, of_stage in found.items():
        zero = Constraint(key="zero_stage", values=tuple(of_stage), where=WHERE)
        kept = (*wanted, *_constraints(entry, wanted), zero)
        try:
            space = space_under(kept, trained.training_graph(), cluster.num_devices)
        except DovetailError as error:
            problems.append(error)
            continue
        expressible = _expressible_recompute(name, entry, launcher, trained, cluster, of_stage[0], space.recompute)
        space = replace(space, recompute=expressible or space.recompute)
        spaces.append(_space(name, version, trained, cluster, space))
    if not spaces:
        raise problems[0]
    return tuple(spaces)


def _space(name: str, version: str, workload: Workload, cluster: AnyCluster, space: PlanSpace) -> RunnableSpace:
    entry = launchers[name]

    def rules(plans: Plans) -> BoolArray:
        return entry.rules(plans, workload)

    return RunnableSpace(
        workload=workload,
        space=space,
        framework=name,
        rules=rules,
        as_run=partial(_run, entry.at(version), workload, cluster),
        has_partial_recompute=version in entry.partial_recompute and "full" in space.recompute,
    )


def _zero_stages(entry: FrameworkLauncher, wanted: tuple[Constraint, ...]) -> tuple[int, ...]:
    """ZeRO stages that the framework has and a user allows; all of the framework's where a user leaves none of them."""
    own = entry.choices.get("zero_stage", ZERO_STAGES)
    rules = [one for one in wanted if one.key == "zero_stage"]
    left = tuple(stage for stage in own if all((stage in one.values) != one.forbids for one in rules))
    return left or own


def _constraints(entry: FrameworkLauncher, wanted: tuple[Constraint, ...]) -> Iterator[Constraint]:
    """The framework's choices; where a user leaves one open, those of them that planners look at, if there are any."""
    named, plain = {one.key for one in wanted}, PlanSpace()
    for key, values in entry.choices.items():
        if key == "zero_stage":
            continue
        usual = values if key.startswith(OVERLAP) else getattr(plain, key)
        shown = values if key in named else tuple(value for value in values if value in usual) or values
        yield Constraint(key=key, values=shown, where=WHERE)


def _as_trained(
    name: str,
    entry: FrameworkLauncher,
    launcher: Launcher,
    workload: Workload,
    cluster: AnyCluster,
    zero_stage: int,
) -> Workload:
    """The workload as the framework trains it under ZeRO `zero_stage`, asked of plain data parallelism."""
    sample, plan = _sample(name, entry, workload, cluster, zero_stage)
    trained, _ = as_run(sample, plan, launcher(sample, cluster, plan).missing)
    return replace(trained, global_batch=workload.global_batch)


def _expressible_recompute(
    name: str,
    entry: FrameworkLauncher,
    launcher: Launcher,
    workload: Workload,
    cluster: AnyCluster,
    zero_stage: int,
    policies: tuple[str, ...],
) -> tuple[str, ...]:
    """Of `policies` those that the framework runs as they are for this model, asked of plain data parallelism."""
    sample, plan = _sample(name, entry, workload, cluster, zero_stage)
    kept = []
    for policy in policies:
        wanted = replace(plan, recompute=(policy,))
        _, run = as_run(sample, wanted, launcher(sample, cluster, wanted).missing)
        kept += [policy] if run.recompute == wanted.recompute else []
    return tuple(kept)


def _sample(
    name: str, entry: FrameworkLauncher, workload: Workload, cluster: AnyCluster, zero_stage: int
) -> tuple[Workload, Plan]:
    """A job of plain data parallelism that the framework runs."""
    fixed = {key.removeprefix(OVERLAP): values[0] for key, values in entry.choices.items() if key.startswith(OVERLAP)}
    overlap = Overlap(**{key: value for key, value in fixed.items() if key in OVERLAPS})
    plan = Plan(data_parallel=cluster.num_devices, zero_stage=zero_stage, framework=name, overlap=overlap)
    return replace(workload, global_batch=cluster.num_devices), plan


def _run(launcher: Launcher, workload: Workload, cluster: AnyCluster, plan: Plan) -> tuple[Plan, ...]:
    """What runs for `plan` with the same workload; nothing where the framework refuses it or trains otherwise."""
    try:
        trained, run = as_run(workload, plan, launcher(workload, cluster, plan).missing)
        again = as_run(trained, run, launcher(trained, cluster, run).missing)
    except DovetailError:
        return ()
    return (run,) if trained == workload and again == (workload, run) else ()


def runs_as_it_is(launcher: Launcher, workload: Workload, cluster: AnyCluster) -> Callable[[Plan], bool]:
    """Whether a framework runs a plan and its workload as they are."""
    return lambda plan: _run(launcher, workload, cluster, plan) == (plan,)


def as_trained_by(name: str, launcher: Launcher, workload: Workload, cluster: AnyCluster, plan: Plan) -> Workload:
    """The workload as the framework `name` trains it, where `plan` is one of its own that it runs as it is.

    Otherwise the workload as it is given.
    """
    if plan.framework != name:
        return workload
    trained, _ = as_run(workload, plan, launcher(workload, cluster, plan).missing)
    return trained if runs_as_it_is(launcher, trained, cluster)(plan) else workload
