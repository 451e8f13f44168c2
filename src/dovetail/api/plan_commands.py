"""What takes a plan on from here, as commands."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from dovetail.api.asked import Asked
from dovetail.report.launch.runnable import Runnable, runners
from dovetail.search.planners.planner import NUM_REFINED

PLAN_FILE = "plan.yaml"  # in the commands that are shown, where none was written


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAsked:
    """What is asked beside the model and the cluster."""

    objective: str = "time"
    num_best: int = 10
    num_refined: int = NUM_REFINED
    fixed: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    plan_file: str = ""
    is_forced: bool = False


def commands_of(asked: Asked, wanted: PlanAsked, best: tuple[Runnable, ...]) -> tuple[str, ...]:
    """What takes the plan on from here, after what writes it where that was not asked for."""
    words = " ".join(shlex.quote(word) for word in _words(asked))
    taking = f"{words} --plan {shlex.quote(wanted.plan_file or PLAN_FILE)}"
    measured = f" --profile {shlex.quote(str(asked.profile))}" if asked.profile else ""
    launches = [f"dovetail launch {taking} --framework {name}" for name in runners(best)[:1]]
    written = () if wanted.plan_file else (f"dovetail plan {words}{measured}{_wishes(wanted)} --plan-file {PLAN_FILE}",)
    return (*written, f"dovetail simulate {taking}{measured}", *launches)


def _wishes(wanted: PlanAsked) -> str:
    """The options that decide which plan is best, as they were given."""
    said = [("--objective", wanted.objective)] if wanted.objective != "time" else []
    said += [("--limit", str(wanted.num_refined))] if wanted.num_refined != NUM_REFINED else []
    said += [("--fix", words) for words in wanted.fixed] + [("--forbid", words) for words in wanted.forbidden]
    return "".join(f" {option} {shlex.quote(value)}" for option, value in said)


def _words(asked: Asked) -> list[str]:
    """The arguments that say model and cluster, as they were given."""
    said = {"--model": asked.model, "--cluster": asked.cluster, "--devices": asked.devices}
    said |= {"--global-batch": asked.global_batch, "--seq": asked.seq, "--compute": asked.compute}
    options = [word for option, value in said.items() if value for word in (option, str(value))]
    return [*([str(asked.spec)] if asked.spec else []), *options]
