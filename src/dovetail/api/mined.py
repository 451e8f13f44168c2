"""The best chip to train a model: from what was asked to what was found."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.api.answer import Answer, inputs_in, plain_page
from dovetail.api.mine_search import NoDesign, Unfit, searched
from dovetail.api.requests.searches import MineRequest
from dovetail.api.search_context import SearchContext
from dovetail.errors import InvalidInput
from dovetail.report.figures import Figures, record_of, tables_of
from dovetail.report.mined import MinedReport, mined_figures, nothing_figures, sentence, unfit_figures
from dovetail.report.page import Page
from dovetail.report.pages.mined import ASKED, mined_page
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.search.mining.answers import ChipAnswer, NothingInside


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Mining(Answer):
    """The best chips with their proof, or why there is none."""

    outcome: MinedReport | Unfit | NoDesign
    call: str

    @property
    def fits(self) -> bool:
        return isinstance(self.outcome, MinedReport)

    @property
    def best(self) -> ChipAnswer:
        """The best chip: its design, what it takes, and what each model comes to on it."""
        return self._report("best").best[0]

    @property
    def designs(self) -> tuple[ChipAnswer, ...]:
        """The best chips, the best first."""
        return self._report("designs").best

    @property
    def gain_frac(self) -> float:
        """How much better than the base chip as it is."""
        report = self._report("gain_frac")
        return report.gain_frac(report.best[0], report.reference)

    @property
    def is_proven(self) -> bool:
        """Whether no design of the space is better."""
        return self._report("is_proven").mined.is_proven

    @property
    def headline(self) -> str:
        return sentence(self.outcome) if isinstance(self.outcome, MinedReport) else self.tables[0].title

    @property
    def tables(self) -> tuple[Table, ...]:
        return tables_of(self._figures)

    @property
    def _record(self) -> Record:
        return record_of(self._figures)

    @property
    def _figures(self) -> Figures:
        found = self.outcome
        if isinstance(found, MinedReport):
            return mined_figures(found)
        return (
            unfit_figures(found.result, found.ways) if isinstance(found, Unfit) else nothing_figures(*_message(found))
        )

    @property
    def page(self) -> Page:
        if not isinstance(self.outcome, MinedReport):
            return plain_page(self.headline, self.tables)
        return mined_page(self.outcome)

    @property
    def inputs(self) -> Record:
        return inputs_in(self.record, ASKED)

    def _report(self, wanted: str) -> MinedReport:
        if not isinstance(self.outcome, MinedReport):
            raise InvalidInput(f"there is no chip, so there is no {wanted}; check .fits first, and print the answer")
        return self.outcome


def _message(found: NoDesign) -> tuple[NothingInside, str]:
    return found.nothing, found.base


def mined_for(request: MineRequest, context: SearchContext) -> Mining:
    """The best chip, or why there is none."""
    return Mining(outcome=searched(request, context), call=request.call)
