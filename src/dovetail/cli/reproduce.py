"""`dovetail reproduce`: a paper's tables and figures, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dovetail.accuracy.reproduce.ace import ace_study
from dovetail.accuracy.reproduce.beyond import beyond
from dovetail.accuracy.reproduce.phaze_dp import Placed, phaze_dp_study
from dovetail.cli.html import check_html, show_html
from dovetail.cli.progress import busy, stepping
from dovetail.cli.reproduce_phaze import phaze
from dovetail.cli.reproduce_wham import wham
from dovetail.cli.screen import show_json, show_tables
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.phaze_dp import load_instance, load_recorded, shipped_instances
from dovetail.files.text import one_line
from dovetail.files.written import write_file
from dovetail.report.beyond import beyond_record, beyond_tables
from dovetail.report.pages.inputs import plain_inputs
from dovetail.report.pages.reproduction import reproduction_page
from dovetail.report.phaze import phaze_tables
from dovetail.report.phaze_dp import phaze_dp_record, phaze_dp_tables
from dovetail.report.record import Record
from dovetail.report.reproduction import ace_record, ace_tables
from dovetail.report.reproduction_figures import ace_figures
from dovetail.report.table import Table
from dovetail.report.wham import wham_tables
from dovetail.search.planners.placed import best_placement, placement_of
from dovetail.search.planners.placement import Placement

PAPERS = ("ace", "phaze", "phaze-dp", "wham")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproduceAsked:
    """The command's arguments."""

    paper: str
    is_beyond: bool = False
    refits: bool = False
    figures: str = ""
    models: tuple[str, ...] = ()
    is_quick: bool = False
    as_json: bool = False
    html: str = ""


def answer(asked: ReproduceAsked) -> bool:
    """Shows the tables, and says whether every number that must meet the paper's does."""
    if asked.paper not in PAPERS:
        hint = did_you_mean(asked.paper, PAPERS)
        raise InvalidInput(f"no paper is named {one_line(asked.paper)!r}{hint}")
    check_html(asked.html)
    if asked.paper == "wham":
        return _wham(asked)
    if asked.paper == "phaze":
        return _phaze(asked)
    if asked.models or asked.is_quick:
        raise InvalidInput("--model and --quick belong to phaze and wham; say them with one of these")
    if asked.paper == "phaze-dp":
        return _phaze_dp(asked)
    if asked.is_beyond and (asked.figures or asked.refits):
        raise InvalidInput("--beyond is a table of its own; say --figures or --refit without it")
    folder = _folder(asked.figures)
    if asked.is_beyond:
        with busy("simulating chips of 2026"):
            record = beyond_record(beyond())
        _show(record, beyond_tables, asked)
        return True
    with busy("simulating the paper's sweeps"):
        record = ace_record(ace_study(refits=asked.refits))
    if folder is not None:
        for name, picture in ace_figures(record).items():
            write_file(folder / name, picture)
    _show(record, ace_tables, asked)
    return bool(record["holds"])


def _show(record: Record, tables: Callable[[Record], tuple[Table, ...]], asked: ReproduceAsked) -> None:
    show_json(record) if asked.as_json else show_tables(tables(record))
    if asked.html:
        page = reproduction_page(record, tables(record))
        show_html(asked.html, page, plain_inputs(asked), record, is_told=not asked.as_json)


def _wham(asked: ReproduceAsked) -> bool:
    if asked.is_beyond or asked.refits or asked.figures:
        raise InvalidInput("wham has tables alone; say --beyond, --refit and --figures with ace")
    record = wham(asked.models, is_exhaustive=not asked.is_quick)
    _show(record, wham_tables, asked)
    return bool(record["holds"])


def _phaze(asked: ReproduceAsked) -> bool:
    if asked.is_beyond or asked.refits or asked.figures:
        raise InvalidInput("phaze has tables alone; say --beyond, --refit and --figures with ace")
    record = phaze(asked.models, is_quick=asked.is_quick)
    _show(record, phaze_tables, asked)
    return bool(record["holds"])


def _phaze_dp(asked: ReproduceAsked) -> bool:
    if asked.is_beyond or asked.refits or asked.figures:
        raise InvalidInput("phaze-dp is one table; say --beyond, --refit and --figures with ace")
    instances = shipped_instances()
    recorded = {name: load_recorded(file) for name, file in instances.items()}
    with stepping(list(instances)) as told:

        def placed(name: str) -> Placed:
            told(name)
            return placed_instance(instances[name])

        record = phaze_dp_record(phaze_dp_study(recorded, placed))
    _show(record, phaze_dp_tables, asked)
    return bool(record["holds"])


def placed_instance(file: Path) -> Placed:
    """Our optimum of a PHAZE instance, and the experts' placement timed."""
    instance = load_instance(file)
    best = best_placement(instance.problem)
    if not isinstance(best, Placement):
        raise InvalidInput(f"{one_line(file.name)}: {best.reason}")
    degree = instance.expert_tensor_parallel
    chosen = [variant for variant in instance.problem.variants if variant.tensor_parallel == degree]
    if not chosen:
        raise InvalidInput(f"{one_line(file.name)}: the experts' degree {degree} has no table of layers")
    expert = placement_of(instance.problem, chosen[0], instance.expert_data_parallel, instance.expert_ends)
    return Placed(
        batch_s=best.batch_s,
        expert_batch_s=expert.batch_s,
        tensor_parallel=best.variant.tensor_parallel,
        data_parallel=best.data_parallel,
        num_stages=len(best.stages),
    )


def _folder(name: str) -> Path | None:
    """Where figures go: a folder that is there."""
    if not name:
        return None
    folder = Path(name)
    if not folder.is_dir():
        raise InvalidInput(f"there is no folder {one_line(name)!r} to write figures to", "--figures")
    return folder
