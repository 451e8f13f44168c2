"""Steps of models as their code runs: recorded, priced on a chip, and kept by the hash of all that decides them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dovetail.accuracy.prepared import RecordSteps, StepCase, StepFigures
from dovetail.api.search_context import SearchContext
from dovetail.errors import DovetailError, InvalidInput, NotModelled
from dovetail.files.step_cache import keep_figures, kept_figures
from dovetail.hardware.chip import Chip
from dovetail.importers.content import step_key
from dovetail.importers.offline import offline
from dovetail.importers.torch_cases import Case, case_of, configs_in, recorded_case
from dovetail.step.eager import HostPace, eager_step

CASES = "*cases*.py"  # files beside a table that hold the configurations of its models
MODES = {"eager": False, "compile": True}  # by the word of a table: whether torch.compile runs it


def steps_recorder(table: Path, cases: str, context: SearchContext, host_slowdown: float = 1.0) -> RecordSteps:
    """A function that records the steps of `table`, whose models are in the file `cases`, or in one beside it."""

    def recorded(steps: Sequence[StepCase], chip: Chip) -> list[StepFigures | DovetailError]:
        configs: dict[str, dict[str, object]] = {}
        for file in [Path(cases)] if cases else sorted(table.parent.glob(CASES)):
            configs = configs_in(file) | configs
        return [_figures(step, configs, chip, host_slowdown) for step in context.through("recording steps", steps)]

    return recorded


def _figures(
    step: StepCase, configs: dict[str, dict[str, object]], chip: Chip, host_slowdown: float
) -> StepFigures | DovetailError:
    """A step that cannot be recorded costs its own row and no other."""
    try:
        if step.mode not in MODES:
            raise NotModelled(f"steps in mode {step.mode!r:.40} are not predicted; {' and '.join(MODES)} are")
        case = case_of(
            step.model,
            configs,
            batch=step.batch,
            seq=step.seq,
            is_checkpointed=step.is_checkpointed,
            is_autocast=step.is_autocast,
        )
        key = step_key(case.content, step.mode, repr(chip), repr(host_slowdown))
        found = kept_figures(key)
        if found is None:
            with offline():
                host = HostPace(slowdown=host_slowdown)
                found = _predicted(case, chip, host, is_compiled=MODES[step.mode])
            keep_figures(key, found)
        return found
    except DovetailError as error:
        return error
    except (Exception, SystemExit) as error:  # code of models may raise anything
        return InvalidInput(f"{type(error).__name__}: {error!s:.200}")


def _predicted(case: Case, chip: Chip, host: HostPace, *, is_compiled: bool) -> StepFigures:
    found = eager_step(recorded_case(case, is_compiled=is_compiled), chip, host)
    return StepFigures(step_s=found.step_s, peak_bytes=found.peak_bytes, notes=found.step.notes)
