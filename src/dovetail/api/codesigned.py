"""The best system, chip and plan together: from what was asked to what was found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from dovetail.api.answer import Answer, inputs_in, plain_page
from dovetail.api.codesign_search import searched
from dovetail.api.joint import NoSystem
from dovetail.api.requests.searches import CodesignRequest
from dovetail.api.search_context import SearchContext
from dovetail.errors import InvalidInput
from dovetail.files.job_text import job_text
from dovetail.files.written import write_file
from dovetail.parallel.plan import Plan
from dovetail.report.codesigned import CodesignReport, codesigned_figures, sentence
from dovetail.report.figures import record_of, tables_of
from dovetail.report.nothing_fits import nothing_tables
from dovetail.report.page import Page
from dovetail.report.pages.codesigned import ASKED, codesigned_page
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.search.codesign.answers import SystemAnswer, gain_frac
from dovetail.search.codesign.joint import Standing


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Codesign(Answer):
    """The best system with its proof, or that none is within the limits.

    `history` is what the search told as it went on.
    """

    outcome: CodesignReport | NoSystem
    history: tuple[Standing, ...]
    call: str

    @property
    def fits(self) -> bool:
        return isinstance(self.outcome, CodesignReport)

    @property
    def best(self) -> SystemAnswer:
        """The best system: its knobs by name, what a chip takes and costs, and what each model comes to on it."""
        return self._report("best").best

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The best plan of each model on the best system."""
        return tuple(case.plan for case in self.best.cases)

    @property
    def step_s(self) -> tuple[float, ...]:
        """Of each model on the best system."""
        return tuple(case.step_s for case in self.best.cases)

    @property
    def gap_frac(self) -> float:
        """By how much a system of the space may be better than the best found; 0: proven best."""
        return self._report("gap_frac").found.gap_frac

    @property
    def gain_frac(self) -> float:
        """How much better than the base chip with its best plan."""
        report = self._report("gain_frac")
        if report.base is None:
            raise InvalidInput(f"no plan fits {report.question.base.name} itself, so nothing is gained over it")
        return gain_frac(report.best, report.base, report.weights)

    @property
    def headline(self) -> str:
        return sentence(self.outcome) if isinstance(self.outcome, CodesignReport) else self.tables[0].title

    @property
    def tables(self) -> tuple[Table, ...]:
        found = self.outcome
        return tables_of(codesigned_figures(found)) if isinstance(found, CodesignReport) else nothing_tables(found.why)

    @property
    def _record(self) -> Record:
        found = self.outcome
        return record_of(codesigned_figures(found)) if isinstance(found, CodesignReport) else found.why

    @property
    def page(self) -> Page:
        if isinstance(self.outcome, NoSystem):
            return plain_page(self.headline, self.tables)
        return codesigned_page(self.outcome, self.history)

    @property
    def inputs(self) -> Record:
        return inputs_in(self.record, ASKED)

    def specs(self, path: str | PathLike[str]) -> dict[Path, str]:
        """The best system with the plan of each model as a spec that `simulate` takes, by the file to write it to.

        Of several models each has a file of its own, whose name ends in the model's.
        """
        report, file = self._report("spec"), Path(path)
        question, best = report.question, report.best
        cluster = question.cluster(best.system)
        notes = (sentence(report), f"One chip: {best.area_mm2:.6g} mm2, {best.power_w:.6g} W, {best.price_usd:.6g} $.")
        files = case_files(file, [case.name for case in question.cases])
        return {
            case_file: job_text(
                f"{report.name or case.name} on its best system", case.workload, cluster, found.plan, notes
            )
            for case_file, case, found in zip(files, question.cases, best.cases, strict=True)
        }

    def to_spec(self, path: str | PathLike[str]) -> tuple[Path, ...]:
        """Writes `specs`, and says where."""
        texts = self.specs(path)
        for file, text in texts.items():
            write_file(file, text)
        return tuple(texts)

    def _report(self, wanted: str) -> CodesignReport:
        if isinstance(self.outcome, NoSystem):
            raise InvalidInput(f"no system is within the limits, so there is no {wanted}; check .fits first")
        return self.outcome


def case_files(file: Path, names: Sequence[str]) -> tuple[Path, ...]:
    """Where the specs of so many models go: one to `file`, several to their own, numbered where two share a name."""
    if len(names) == 1:
        return (file,)
    plain = [re.sub(r"[^\w.-]+", "-", name) for name in names]
    ends = [name if plain.count(name) == 1 else f"{name}-{place}" for place, name in enumerate(plain, start=1)]
    return tuple(file.with_name(f"{file.stem}-{end}{file.suffix}") for end in ends)


def codesigned(request: CodesignRequest, context: SearchContext) -> Codesign:
    """The best system, or that there is none."""
    outcome, history = searched(request, context)
    return Codesign(outcome=outcome, history=history, call=request.call)
