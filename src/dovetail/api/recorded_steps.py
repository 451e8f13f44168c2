"""Steps of models as their code runs: recorded, priced on a chip, and kept by the hash of all that decides them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import RecordSteps, StepCase, StepFigures
from dovetail.accuracy.sets.recorded_steps import step_cases
from dovetail.api.search_context import SearchContext
from dovetail.errors import DovetailError, InvalidInput, NotModelled
from dovetail.files.step_cache import keep_figures, kept_figures
from dovetail.files.text import quoted
from dovetail.hardware.chip import Chip
from dovetail.importers.content import step_key
from dovetail.importers.offline import offline
from dovetail.importers.torch_cases import Case, case_of, configs_in, recorded_case
from dovetail.step.eager import HostPace, eager_step
from dovetail.units import MILLI
from dovetail.workload.dispatched import DispatchedStep
from dovetail.workload.graph import FloatArray

CASES = "*cases*.py"  # files beside a table that hold the configurations of its models
MODES = {"eager": False, "compile": True}  # by the word of a table: whether torch.compile runs it


def steps_recorder(table: Path, cases: str, context: SearchContext, host_slowdown: float = 1.0) -> RecordSteps:
    """A function that records the steps of `table`, whose models are in the file `cases`, or in one beside it."""

    known: dict[str, DispatchedStep] = {}  # a step of several chips is recorded once

    def recorded(steps: Sequence[StepCase], chip: Chip) -> list[StepFigures | DovetailError]:
        configs: dict[str, dict[str, object]] = {}
        if not all(step.config for step in steps):
            configs = _configs_for(table, cases)
        through = context.through("recording steps", steps)
        return [_figures(step, configs, table, chip, host_slowdown, known) for step in through]

    return recorded


def steps_in(
    table: Path, measurements: Measurements, tell: Callable[[str], None]
) -> tuple[list[DispatchedStep], FloatArray, tuple[str, ...]]:
    """The steps of a table recorded, their measured seconds, and words on those that could not be."""
    configs = _configs_for(table)
    measured_s = measurements.positive("iter_ms") * MILLI
    steps, kept, notes = [], [], []
    for row, step in enumerate(step_cases(measurements)):
        tell(f"recording {step.words}")
        try:
            case = _case(step, configs, table)
            with offline():
                steps.append(recorded_case(case, is_compiled=MODES[step.mode]))
            kept.append(row)
        except DovetailError as error:
            notes.append(f"{measurements.name}: {step.words}: {error}")
        except (Exception, SystemExit) as error:  # code of models may raise anything
            notes.append(f"{measurements.name}: {step.words}: {type(error).__name__}: {error!s:.200}")
    return steps, measured_s[kept], tuple(notes)


def _configs_for(table: Path, cases: str = "") -> dict[str, dict[str, object]]:
    """Configurations by name: of the file `cases`, or of those beside the table; nothing where there is none."""
    configs: dict[str, dict[str, object]] = {}
    for file in [Path(cases)] if cases else sorted(table.parent.glob(CASES)):
        configs = configs_in(file) | configs
    return configs


def _case(step: StepCase, configs: dict[str, dict[str, object]], table: Path) -> Case:
    if step.mode not in MODES:
        raise NotModelled(f"steps in mode {step.mode!r:.40} are not predicted; {' and '.join(MODES)} are")
    if not step.config and not configs and ":" not in step.model:
        name = quoted(step.model)
        message = f"no file {CASES} beside {quoted(table.name)} has the configuration of {name} under CONFIGS"
        raise InvalidInput(f"{message}; name one with --cases")
    return case_of(
        step.model,
        {step.model: dict(step.config)} if step.config else configs,
        batch=step.batch,
        seq=step.seq,
        is_checkpointed=step.is_checkpointed,
        is_autocast=step.is_autocast,
        is_fp32=step.is_fp32,
    )


def _figures(
    step: StepCase,
    configs: dict[str, dict[str, object]],
    table: Path,
    chip: Chip,
    host_slowdown: float,
    known: dict[str, DispatchedStep],
) -> StepFigures | DovetailError:
    """A step that cannot be recorded costs its own row and no other."""
    try:
        case = _case(step, configs, table)
        passes = () if step.has_update else ("no update",)
        key = step_key(case.content, step.mode, repr(chip), repr(host_slowdown), *passes)
        found = kept_figures(key)
        if found is None:
            with offline():
                host = HostPace(slowdown=host_slowdown)
                name = f"{step.mode} {case.content}"
                if name not in known:
                    known[name] = recorded_case(case, is_compiled=MODES[step.mode])
                found = _predicted(known[name] if step.has_update else known[name].without_update(), chip, host)
            keep_figures(key, found)
        return found
    except DovetailError as error:
        return error
    except (Exception, SystemExit) as error:  # code of models may raise anything
        return InvalidInput(f"{type(error).__name__}: {error!s:.200}")


def _predicted(step: DispatchedStep, chip: Chip, host: HostPace) -> StepFigures:
    found = eager_step(step, chip, host)
    return StepFigures(step_s=found.step_s, peak_bytes=found.peak_bytes, notes=found.step.notes)
