"""Designs side by side: what was pinned, each beside the first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from dovetail.errors import DovetailError
from dovetail.explorer.answers import figures_of_job, prepared, result_of
from dovetail.explorer.elements import box, button, markup, words
from dovetail.explorer.figures import LIMIT, Measure, Measures, change_frac, figure_label, measures_of
from dovetail.explorer.frame import PageFrame
from dovetail.explorer.state import FIRST, State, query_of, states_of
from dovetail.report.labels import plan_in_brief
from dovetail.report.page_tables import table_html
from dovetail.report.table import Table

LEAD = "Pinned designs side by side, each beside the first. Pin more on the plan page."
EMPTY = "Nothing is pinned yet. On the plan page, press “Pin this design”; change something, and pin again."
SAME = "same"
Rows = list[tuple[str, ...]]


class CompareView:
    """The page in one tab: pins are in the address alone."""

    def __init__(self, query: list[tuple[str, str]]) -> None:
        self._query = query
        self.frame = PageFrame("/compare", query)
        self.state, self.pins = FIRST, ()  # type: State, tuple[State, ...]

    def build(self) -> None:
        with self.frame.shown("Compare", LEAD):
            with self.frame.refusing():
                self.state, self.pins = states_of(self._query)
            self._table = ui.element("div")
            with self._table:
                words("Working out the figures." if self.pins else EMPTY, "p", "busy")

    async def begin(self) -> None:
        with self.frame.refusing():
            states_of(self._query)
            await self._show()

    async def _show(self) -> None:
        self._keep()
        if not self.pins:
            self._table.clear()
            with self._table:
                words(EMPTY, "p", "busy")
            return
        table = await asyncio.to_thread(compared, self.pins)
        self._table.clear()
        with self._table:
            with box("panel", "section"):
                markup("\n".join(table_html(table, is_titled=False)), "div", "compare")
            with box("panel", "section"):
                words("Open or remove", "h2")
                for index, pin in enumerate(self.pins):
                    with box("row"):
                        words(f"Open {named(index)}", "a", href=self.frame.address("/", query_of(pin, self.pins)))
                        button(f"Remove {named(index)}", self._removing(index), is_quiet=True, id=f"remove-{index}")

    def _removing(self, index: int) -> Any:
        async def remove() -> None:
            self.pins = (*self.pins[:index], *self.pins[index + 1 :])
            with self.frame.refusing():
                await self._show()

        return remove

    def _keep(self) -> None:
        query = query_of(self.state, self.pins)
        self.frame.keep(query)
        self.frame.carry(query)


def named(index: int) -> str:
    return f"design {chr(ord('A') + index)}"


def compared(pins: Sequence[State]) -> Table:
    """A column for each state: what it is, what it comes to, and how far that is from the first."""
    columns = [_column(pin) for pin in pins]
    keys = list(dict.fromkeys(key for column in columns for key in column.facts))
    rows: Rows = []
    for key in keys:
        told = [column.facts.get(key, "-") for column in columns]
        rows.append((key, told[0], *(SAME if own == told[0] and own != "-" else own for own in told[1:])))
    first = {one.key: one for one in columns[0].measures}
    for key, label in _labels(columns).items():
        cells = [_cell({one.key: one for one in column.measures}.get(key), first.get(key)) for column in columns]
        rows.append((label, *cells))
    return Table(
        title="Designs side by side",
        columns=("", *(named(index).replace("d", "D", 1) for index in range(len(pins)))),
        rows=tuple(rows),
        align="l" + "r" * len(pins),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One design: what it is in words, and its figures."""

    facts: dict[str, str]
    measures: Measures


def _column(state: State) -> Column:
    """Raises nothing: what is wrong with one design stands in its column."""
    try:
        own = prepared(state)
        result = result_of(own, state)
    except DovetailError as error:
        return Column(facts={"model": state.model or "uploaded", "cannot": str(error)}, measures=())
    job = own.job
    facts = {
        "model": job.workload.model.name,
        "global batch": f"{job.workload.global_batch:,} x {job.workload.seq:,}",
        "compute": job.workload.precision.compute,
        "cluster": job.cluster.name,
        "devices": f"{job.cluster.num_devices:,}",
        "plan": plan_in_brief(own.plan),
    }
    for figure in figures_of_job(job):
        factor = state.factors.get(figure.key, 1.0)
        facts[figure.label] = figure_label(figure.value * factor, figure.unit)
    return Column(facts=facts, measures=measures_of(result))


def _labels(columns: Sequence[Column]) -> dict[str, str]:
    return {one.key: one.label for column in columns for one in column.measures}


def _cell(now: Measure | None, first: Measure | None) -> str:
    if now is None:
        return "does not fit"
    moved_frac = change_frac(now, first) if first is not None and now.key != LIMIT else 0.0
    over = " (does not fit)" if now.share_frac > 1 else ""
    return f"{now.shown}{over}" + (f" ({moved_frac:+.1%})" if moved_frac else "")
