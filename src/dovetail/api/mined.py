"""The best chip to train a model: from what was asked to what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, SupportsIndex

from dovetail.api.answer import Answer, call_of, inputs_in, plain_page
from dovetail.api.arguments import counted, in_python, listed
from dovetail.api.around import Around, called
from dovetail.api.mine_search import MineAsked, NoDesign, Unfit, searched
from dovetail.api.progress import Tell
from dovetail.errors import InvalidInput
from dovetail.files.given import SpecGiven
from dovetail.files.mining import MiningSaid
from dovetail.files.mining_stages import StagesSaid
from dovetail.report.mined import MinedReport, mined_tables, nothing_tables, sentence, unfit_tables
from dovetail.report.mined_record import mined_record, nothing_record, unfit_record
from dovetail.report.page import Page
from dovetail.report.pages.mined import ASKED, mined_page
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.search.mining.answers import ChipAnswer, NothingInside


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Mining(Answer):
    """The best chips and what proves them, or why there is none: `outcome` is the report's own value."""

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
        found = self.outcome
        if isinstance(found, MinedReport):
            return mined_tables(found)
        return unfit_tables(found.result, found.ways) if isinstance(found, Unfit) else nothing_tables(*_told(found))

    @property
    def _record(self) -> Record:
        found = self.outcome
        if isinstance(found, MinedReport):
            return mined_record(found)
        return unfit_record(found.result, found.ways) if isinstance(found, Unfit) else nothing_record(*_told(found))

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
            raise InvalidInput(f"there is no chip, so there is no {wanted}; ask .fits before, and print the answer")
        return self.outcome


def _told(found: NoDesign) -> tuple[NothingInside, str]:
    return found.nothing, found.base


@in_python
def mine(
    spec: SpecGiven,
    *,
    metric: str = "throughput",
    area: str = "",
    power: str = "",
    algorithm: str = "exact",
    base: str = "",
    batch: SupportsIndex | None = None,
    seq: SupportsIndex | None = None,
    devices: SupportsIndex | None = None,
    fix: Sequence[str] = (),
    forbid: Sequence[str] = (),
    stages: str = "",
    keep: SupportsIndex | None = None,
    replan: bool = False,
    budget: SupportsIndex | None = None,
    seed: SupportsIndex | None = None,
    store: str | PathLike[str] = "",
    workers: SupportsIndex | None = None,
    dask: str = "",
    top: SupportsIndex = 10,
    progress: Tell | bool = False,
) -> Mining:
    """Find the best chip to train a model, or several, and prove it.

    `spec` is a model (name, file, mapping or value), or a spec with models, a plan and a chip. `area` and `power` are
    limits such as "606.68 mm2" and "280 W", which are also what holds if nothing is said. With `devices`, the planner
    is asked for a plan on so many chips, which `fix` and `forbid` may bind. `stages` is one, mosaic or pooled.
    """
    said = dict(locals())  # of arguments alone, as nothing stands before
    with called(progress, store=store, workers=workers, dask=dask) as around:
        return mined_for(_asked(said), around, call_of("mine", **said))


def _asked(said: dict[str, Any]) -> MineAsked:
    """The arguments, with counts read."""
    numbers = ("budget", "seed", "top", "batch", "seq", "devices", "keep")
    counts = {name: counted(name, said[name]) for name in numbers}
    by_stage = StagesSaid(
        devices=counts["devices"],
        stages=said["stages"],
        num_kept=counts["keep"],
        fixed=listed(said["fix"]),
        forbidden=listed(said["forbid"]),
    )
    words = {name: said[name] for name in ("base", "area", "power")}
    return MineAsked(
        spec=said["spec"],
        said=MiningSaid(**words, batch=counts["batch"], seq=counts["seq"], stages=by_stage),
        metric=said["metric"],
        algorithm=said["algorithm"],
        num_most=counts["budget"],
        seed=counts["seed"],
        num_best=counts["top"],
        is_replanned=said["replan"],
    )


def mined_for(asked: MineAsked, around: Around, call: str = "dovetail.mine()") -> Mining:
    """The best chip, or why there is none."""
    return Mining(outcome=searched(asked, around), call=call)
