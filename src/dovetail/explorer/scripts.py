"""The question of a page as a command and as Python, so that whatever is on the page can be had without it."""

from __future__ import annotations

import json
import shlex
from typing import Any

from dovetail.errors import InvalidInput
from dovetail.explorer.answers import job_as_turned
from dovetail.explorer.state import DEVICES, OPTIONS, State

PLAN_FILE = "plan.yaml"  # what the page calls the plan that it downloads
NO_DESIGN = "a design of a search has no name that a command takes; save its chip from the study"
CHANGED = "The sliders' changes of the hardware are not in it: change the chip's file, or sweep over them."


def arguments_of(state: State) -> dict[str, Any]:
    """What `dovetail.simulate` takes for the state's plan, which is in a file; sizes as they were understood."""
    if state.design:
        raise InvalidInput(NO_DESIGN)
    job = job_as_turned(state)
    workload, cluster = job.workload, job.cluster
    found: dict[str, Any] = {
        "model": state.model_file.name if state.model_file else state.model,
        "cluster": state.cluster_file.name if state.cluster_file else state.cluster,
    }
    if state.cluster_file is None:
        found["devices"] = cluster.num_devices
    found["global_batch"] = workload.global_batch
    if workload.model.sample == "tokens":
        found["seq"] = workload.seq
    found["compute"] = workload.precision.compute
    found |= {OPTIONS[name].name: text for name, text in state.options.items()}
    return found | {"plan": PLAN_FILE}


def command_of(state: State) -> str:
    """The command that answers the same."""
    words = [f"--{name.replace('_', '-')} {shlex.quote(str(value))}" for name, value in arguments_of(state).items()]
    return " \\\n  ".join(["dovetail simulate", *words])


def python_of(state: State) -> str:
    """A program that answers the same."""
    given = "".join(f"    {name}={json.dumps(value)},\n" for name, value in arguments_of(state).items())
    return f"import dovetail\n\nanswer = dovetail.simulate(\n{given})\nprint(answer)\nframe = answer.to_frame()\n"


def note_of(state: State) -> str:
    """What the command and the program leave out; empty where they are whole."""
    return CHANGED if set(state.factors) - {DEVICES} else ""
