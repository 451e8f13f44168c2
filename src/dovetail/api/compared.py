"""Several jobs in one answer: each predicted as `simulate` does, and those that cannot be say why."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import product
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dovetail.api.answer import Answer
from dovetail.api.jobs import JobRequest
from dovetail.api.requests.comparisons import CompareRequest
from dovetail.api.requests.option import PRICE
from dovetail.api.simulated import Question, simulation_of
from dovetail.errors import DovetailError, InvalidInput, did_you_mean
from dovetail.files.cluster_names import names_cluster, short_cluster_name
from dovetail.files.entry import is_file_name
from dovetail.files.inline_plan import is_inline
from dovetail.files.kinds import CATALOGUES, kind_of_file
from dovetail.files.residuals import load_residuals
from dovetail.files.written import write_file
from dovetail.report.asked import cluster_pair, model_pair
from dovetail.report.charts.compared import curves_by_axis, jobs_scatter, memory_by_job, time_by_job
from dovetail.report.compared import (
    ComparedJob,
    Refused,
    compared_csv,
    compared_figures,
    compared_sentence,
    differences,
    first_of,
    job_record,
)
from dovetail.report.figures import Figures, record_of, tables_of
from dovetail.report.page import Page, Section
from dovetail.report.plain import Record
from dovetail.report.table import Table

if TYPE_CHECKING:
    from dovetail.api.search_context import SearchContext

AUTO = "auto"
Context = Callable[[], "AbstractContextManager[SearchContext]"]
Through = Callable[[Sequence[Any]], Iterable[Any]]  # tells of progress while it hands on what it is given


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Comparison(Answer):
    """Several jobs in one table: `jobs` are values, `rows` plain data."""

    jobs: tuple[ComparedJob, ...]
    title: str
    call: str
    axes: tuple[str, ...] = ()  # of a sweep: the keys that were varied

    @property
    def fits(self) -> bool:
        """Whether one of them has a step at least."""
        return any(job.fits for job in self.jobs)

    @property
    def rows(self) -> list[Record]:
        """One record for each job: what is varied of it, whether it fits or why not, and its figures."""
        residuals = load_residuals()
        return [job_record(job, residuals, first_of(self.jobs)) for job in self.jobs]

    @property
    def headline(self) -> str:
        return compared_sentence(self.jobs)

    @property
    def tables(self) -> tuple[Table, ...]:
        return tables_of(self._figures)

    @property
    def page(self) -> Page:
        _, table, *_ = self.tables
        curves = curves_by_axis(self.jobs, self.axes)
        sections = (
            Section(title=self.title, tables=(table,)),
            *((Section(title="The sweep", charts=curves),) if curves else ()),
            Section(title="Time and memory", charts=jobs_scatter(self.jobs, load_residuals())),
            Section(title="Where the time goes", charts=time_by_job(self.jobs)),
            Section(title="Memory", charts=memory_by_job(self.jobs)),
        )
        shown = tuple(one for one in sections if one.tables or one.charts)
        return Page(title=self.title, sentence=f"{self.headline}.", asked=self._asked, sections=shown)

    @property
    def _asked(self) -> tuple[tuple[str, str], ...]:
        """The models and clusters that are compared, each once."""
        found = [job.result for job in self.jobs if not isinstance(job.result, Refused)]
        pairs = (pair for one in found for pair in (model_pair(one.workload), cluster_pair(one.cluster)))
        return tuple(sorted(dict.fromkeys(pairs), key=lambda pair: pair[0] == "Cluster"))

    @property
    def _record(self) -> Record:
        return record_of(self._figures)

    @property
    def _figures(self) -> Figures:
        return compared_figures(self.jobs, self.title, load_residuals())

    @property
    def inputs(self) -> Record:
        return {"settings": [dict(job.settings) for job in self.jobs]}

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Writes every row with every figure as comma-separated values."""
        write_file(Path(path), compared_csv(self.jobs, load_residuals()))

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.rows)

    def __getitem__(self, place: int) -> Record:
        return job_record(self.jobs[place], load_residuals(), first_of(self.jobs))


def compared(request: CompareRequest, *, context: Context, through: Through = iter) -> Comparison:
    """Every combination of what is several, a row each; raises where none of them can be read."""
    specs, parts = _parted(request)
    prices = _devices_usd_per_s(request, len(parts["cluster"]))
    shared = request.part(JobRequest, spec="", model="", cluster="", plan="")
    questions: list[tuple[str, Question]] = []
    whole = [specs or ("",), *(parts[part] or ("",) for part in ("model", "cluster", "plan"))]
    for spec, model, (place, cluster), plan in product(whole[0], whole[1], enumerate(whole[2]), whole[3]):
        job = replace(shared, spec=spec, model=model, cluster=cluster, plan=plan)
        named = [_name(one) for one, some in zip((spec, model, cluster, plan), whole, strict=True) if len(some) > 1]
        price = prices[place] if len(prices) > 1 else prices[0] if prices else 0.0
        question = Question(
            job=job, num_tokens=request.tokens, device_usd_per_s=price, is_forward_only=request.forward_only
        )
        questions.append((" ".join(named), question))
    if len(questions) < 2:
        raise InvalidInput(f"to compare takes two jobs or more; {_way_out(specs, parts)}")
    results = [refused_or(question, context) for _, question in through(questions)]
    if all(isinstance(result, DovetailError) for result in results):
        raise results[0]  # every one is refused: the first says why
    told = [Refused(message=str(one)) if isinstance(one, DovetailError) else one.outcome for one in results]
    beside = [
        {} if isinstance(one, DovetailError) else {"budget": one.budget, "selection": one.selection} for one in results
    ]
    settings = differences(told, [name for name, _ in questions], keeps_names=len(specs) > 1)
    jobs = tuple(
        ComparedJob(settings=tuple(own.items()), result=result, **more)
        for own, result, more in zip(settings, told, beside, strict=True)
    )
    return Comparison(jobs=jobs, title=f"{len(jobs)} jobs compared", call=request.call)


def refused_or(question: Question, context: Context) -> Any:
    """The simulation, or the error that says why there is none: one row costs no other."""
    try:
        return simulation_of(question, context=context)
    except DovetailError as error:
        return error


def _parted(request: CompareRequest) -> tuple[tuple[Any, ...], dict[str, tuple[Any, ...]]]:
    """Spec files, and models, clusters and plans: those of options, and names given by place."""
    parts = {"model": request.model, "cluster": request.cluster, "plan": request.plan}
    specs: list[Any] = []
    for design in request.designs:
        kind = _kind(design)
        if kind == "spec":
            specs.append(design)
        else:
            parts[kind] = (*parts[kind], design)
    return tuple(specs), parts


def _kind(design: Any) -> str:
    """Whether a design is a spec, or names a model, a cluster or a plan."""
    if not isinstance(design, str):
        return "spec"
    if is_file_name(design) and not is_inline(design):
        kind = kind_of_file(design) if os.path.isfile(design) else "spec"
        return kind if kind in ("model", "cluster", "plan") else "spec"
    if is_inline(design) or design == AUTO:
        return "plan"
    if names_cluster(design):
        return "cluster"
    kinds = [kind for kind, registry in CATALOGUES.items() if design in registry and kind != "chip"]
    if len(kinds) == 1:
        return kinds[0]
    if os.path.isfile(design):
        return "spec"
    if kinds:
        raise InvalidInput(f"{design!r} names a {' and a '.join(kinds)}; pass --{' or --'.join(kinds)}")
    known = {name for kind, registry in CATALOGUES.items() if kind != "chip" for name in registry.names()}
    known |= {short_cluster_name(name) for name in CATALOGUES["cluster"].names()}
    if design in CATALOGUES["chip"]:
        raise InvalidInput(f"{design!r} is a chip; name a cluster of it, such as {_cluster_like(design)}")
    unsized = re.sub("x[0-9]+$", "", design)
    raise InvalidInput(f"no spec, model, cluster or plan is named {design!r}{did_you_mean(unsized, known)}")


def _cluster_like(chip: str) -> str:
    names = CATALOGUES["cluster"].names()
    first = chip.partition("-")[0]
    return next((name for name in names if first in name), names[0])


def _devices_usd_per_s(request: CompareRequest, num_clusters: int) -> tuple[float, ...]:
    prices = tuple(PRICE.check("--price", one) for one in request.price)
    if len(prices) not in (0, 1, num_clusters):
        message = f"there are {len(prices)} prices and {num_clusters} clusters"
        raise InvalidInput(f"{message}; give one for all, or one for every cluster", "--price")
    return prices


def _way_out(specs: tuple[Any, ...], parts: dict[str, tuple[Any, ...]]) -> str:
    if not specs and not any(parts.values()):
        return "name spec files, or give --model, --cluster and --plan, some of them twice"
    return "add a spec file, or another --plan, --cluster or --model"


def _name(value: Any) -> str:
    name = getattr(value, "name", "")
    if isinstance(value, str | PathLike):
        return os.path.basename(os.fspath(value)) if is_file_name(os.fspath(value)) else os.fspath(value)
    return name if isinstance(name, str) and name else type(value).__name__
