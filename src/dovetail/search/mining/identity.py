"""What a question is known by: a digest of everything that its answers follow from, and of nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import Any

import numpy as np

from dovetail.hardware.template import Design
from dovetail.parallel.plan import Plan
from dovetail.search.mining.load import TrainingJob
from dovetail.search.mining.score import Question
from dovetail.search.mining.task import Task
from dovetail.stable_names import stable_facts, stable_fields, stable_type

_KNOBS = {field.python: field.stable for field in stable_type(Design).fields}  # of a chip that is mined


def question_facts(question: Question, metric: str, tasks: Sequence[Task] = ()) -> dict[str, Any]:
    """Plain data that is the same for the same question, whichever algorithm answers it and in whatever order.

    `tasks` are what the jobs were made of, or the one that the job is a stage of, where that counts too.
    """
    task_facts = [_task_facts(task, job) for task, job in zip(tasks, question.jobs, strict=False)] or [{}] * len(
        question.jobs
    )
    return {
        "jobs": [
            {"name": job.name, "digest": digest_of(job), "num_devices": job.num_devices, **more}
            for job, more in zip(question.jobs, task_facts, strict=True)
        ],
        "base": {"name": question.base.name, "digest": digest_of(question.base)},
        "space": {_KNOBS.get(knob.name, knob.name): list(knob.values) for knob in question.space.knobs},
        "limits": stable_facts(question.limits),
        "metric": metric,
        "loss_unit": question.metric.loss_unit,
        "reference_losses": list(question.reference_losses),
    }


def _task_facts(task: Task, job: TrainingJob) -> dict[str, Any]:
    """Batch, length, the plan as far as it is not the default one, and whether `job` is but a stage of it."""
    default, plan = stable_facts(Plan()), stable_facts(task.plan)
    changed = {name: value for name, value in plan.items() if value != default[name]}
    return {
        "batch": task.workload.global_batch,
        "seq": task.workload.seq,
        "plan": json.loads(json.dumps(changed)),
        "is_stage": job.num_devices < task.plan.num_devices,
    }


def digest_of(value: object) -> str:
    """A hash of every field of `value`, all the way down; arrays by their bytes, numbers by all of their digits.

    Types and fields go by their stable names, so that the hash of a value is the same whatever the code calls it.
    """
    digest = hashlib.sha256()
    _feed(digest, value, {})
    return digest.hexdigest()


def _feed(digest: Any, value: object, seen: dict[int, int]) -> None:
    if isinstance(value, np.ndarray):
        digest.update(f"array {value.dtype.str} {value.shape} ".encode() + np.ascontiguousarray(value).tobytes())
    elif is_dataclass(value) and not isinstance(value, type):
        if id(value) in seen:  # graphs that stages share; objects live as long as what is hashed
            digest.update(f"again {seen[id(value)]} ".encode())
            return
        seen[id(value)] = len(seen)
        digest.update(f"{stable_type(type(value)).word}( ".encode())
        for name, field_value in stable_fields(value):
            digest.update(f"{name} ".encode())
            _feed(digest, field_value, seen)
    elif isinstance(value, tuple | list):
        digest.update(f"{len(value)} of ".encode())
        for item in value:
            _feed(digest, item, seen)
    elif isinstance(value, dict):
        _feed(digest, sorted(value.items()), seen)
    else:
        assert value is None or isinstance(value, str | int | float | np.generic), f"no digest of {type(value)}"
        digest.update(f"{type(value).__name__} {value!r} ".encode())
