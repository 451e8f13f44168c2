"""The answer that one tab looks at: asked, planned, evaluated and compared; its page is told when anything changes."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace

from nicegui import background_tasks, ui

from dovetail.api.progress import PlanStanding, Progress
from dovetail.errors import InvalidInput
from dovetail.explorer.answers import Found, found_for_state, job_of_state, unchanged
from dovetail.explorer.figures import LIMIT, WORKING, Measures
from dovetail.explorer.frame import PageFrame, Site
from dovetail.explorer.packed import MOST_IN_ADDRESS
from dovetail.explorer.state import MAX_PINS, Session, State
from dovetail.explorer.views import Shown, edited_shown, reference_measures, shown
from dovetail.explorer.work import Cancelled
from dovetail.files.job import OpenJob
from dovetail.files.plan_text import plan_text
from dovetail.hardware.heterogeneous import devices_label
from dovetail.report.labels import percent

SETTLED_S = 0.35  # without a change: then everything is worked out again
AS_PLANNED = "the plan first found"
STOPPED = "The search was stopped before other plans were ranked."
TOO_LONG = "This upload is too large for a link: the page keeps it until it is closed."
Act = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """What a plan is searched for, and how far that is."""

    what: str
    key: str
    now: Progress | None = None
    best: str = ""  # the best plan so far, as text
    has_best: bool = False  # whether the figures on the page are of that
    num_before: int = 0  # that wait for a worker before this one


def best_so_far(now: Progress) -> str:
    """The best plan that a search has told of, as text; empty before one fits."""
    for standing in now.standing:
        if isinstance(standing, PlanStanding) and standing.best and not standing.framework:
            return plan_text(standing.best[0].plan)
    return ""


def gap_label(now: Progress) -> str:
    """How far from the best possible a search may be; empty while no bound is known."""
    for standing in now.standing:
        if isinstance(standing, PlanStanding) and standing.bound_s:
            return f", at most {percent(max(0.0, standing.gap_frac), 1)} from the best possible"
    return ""


def _nothing() -> None:
    """Whom a page does not tell."""


class Live:
    """State, reference and kept designs of one tab, all of which are in the address; and what they come to."""

    def __init__(self, site: Site, frame: PageFrame, session: Session) -> None:
        self._site, self._frame = site, frame
        self.session = session
        self.asker = secrets.token_hex(8)
        self.job: OpenJob | None = None  # what is asked, on hardware as it is
        self.shown: Shown | None = None
        self.shown_of = session.state  # the state that `shown` is of
        self.before: Measures = ()
        self.found: Found | None = None
        self.found_state = session.state  # what `found` answers
        self.found_of = ""  # its key; empty where the search was stopped
        self.busy: Busy | None = None
        self.words = ""  # of the address, of this page alone
        self.on_job: Act = _nothing
        self.on_figures: Act = _nothing
        self.on_busy: Act = _nothing
        self.on_settled: Callable[[], object] = _nothing
        self._number = 0  # of the last thing asked: what answers an earlier one comes too late
        self._is_working = self._is_stale = self._is_new = False
        ui.context.client.on_delete(self._leave)

    @property
    def state(self) -> State:
        return self.session.state

    @property
    def is_stale(self) -> bool:
        """Whether the figures on the page are of another question than the one that is asked."""
        return self.shown is not None and self.busy is not None and not self.busy.has_best

    def read_job(self) -> None:
        """What is asked, for forms and sliders; raises where it cannot be."""
        self.job = job_of_state(self.state)
        self.on_job()

    def show_known(self) -> None:
        """What somebody asked before, at once: with the page itself, before its tab is connected."""
        workers = self._site.workers
        if not self.state.plan:
            found = workers.known(f"plan {self.state.key}")
            if found is None:
                return
            self.found, self.found_of, self.found_state = found, self.state.key, self.state
            self.session = replace(self.session, state=self.state.with_plan(found.plan, found.selection))
        now = workers.known(f"figures True {self.state.key}")
        if now is not None and not self.session.reference:
            self.shown, self.shown_of = now, self.state
            self.on_job()
            self.on_figures()

    async def begin(self) -> None:
        """Shows what the address asks for; called once the browser listens."""
        await (self._settled() if self.state.plan else self._planned())

    # --- what the user does ------------------------------------------------------------------------------------------

    async def ask(self, wanted: Callable[[], State]) -> None:
        """Another model, cluster or size: the best plan for it; `wanted` raises where it is none."""
        with self._frame.refusing():
            state = wanted()
            job = job_of_state(state)
            self.session, self._is_new, self.job = replace(self.session, state=state), True, job
            if self.session.reference and self.session.reference[0].name == AS_PLANNED:
                self.session = replace(self.session, reference=())  # it was of another question
            self.on_job()
            await self._planned()

    async def replan(self) -> None:
        """The best plan for the hardware as it is now; what figures are compared with stays."""
        with self._frame.refusing():
            self._is_new = True
            await self._planned()

    async def edit(self, option: str, words: str) -> None:
        """One decision of the plan by hand; where it cannot be, the field goes back to what the plan has."""
        is_done = False
        with self._frame.refusing():
            self._check_planned()
            key = f"edit {option} {words} {self.state.key}"
            state, now = await self._site.workers.answer(self.asker, key, edited_shown, self.state, option, words)
            self._site.workers.keep(f"figures False {state.key}", now)
            await self._use(state)
            is_done = True
        if not is_done:
            self.on_job()

    async def use(self, plan: str) -> None:
        """Another plan, as text."""
        with self._frame.refusing():
            await self._use(self.state.with_plan(plan))

    async def _use(self, state: State) -> None:
        self._compare_with_planned()
        if self.found is not None and self.found.plan == state.plan:  # back to what the search chose
            state = state.with_plan(state.plan, self.found.selection)
        self.session = replace(self.session, state=replace(state, name=""))
        self._is_new = True
        await self._changed()

    async def turn(self, key: str, factor: Callable[[], float]) -> None:
        """A figure of the hardware, or how many devices there are, by its slider."""
        with self._frame.refusing():
            times = factor()
            self._compare_with_planned()
            self.session = replace(self.session, state=replace(self.state.with_factor(key, times), name=""))
            await self._changed()

    async def reset(self) -> None:
        """The hardware as it is."""
        with self._frame.refusing():
            self.session, self._is_new = replace(self.session, state=unchanged(self.state)), True
            self.read_job()
            await self._settled()

    def cancel(self) -> None:
        if self.busy is not None:
            self._site.workers.leave(self.asker, self.busy.key)

    def pin(self, name: str) -> None:
        """Keeps the state under a name, to be compared."""
        with self._frame.refusing():
            self._check_planned()
            if len(self.session.pins) >= MAX_PINS:
                raise InvalidInput(f"at most {MAX_PINS} designs are kept at once; remove one on the compare page")
            kept = self._called(name)
            others = tuple(one for one in self.session.pins if one.name != kept.name)
            self.session = replace(self.session, pins=(*others, kept), state=kept)
            self.keep()
            self.on_figures()

    async def refer(self, name: str) -> None:
        """Compares figures with the state as it is now, under a name."""
        with self._frame.refusing():
            self._check_planned()
            kept = self._called(name)
            self.session = replace(self.session, reference=(kept,), state=kept)
            await self._settled()

    async def compare_with(self, place: str) -> None:
        """Compares figures with a design that was kept, by its place; with nothing where there is none."""
        with self._frame.refusing():
            known = {str(index): pin for index, pin in enumerate(self.session.pins)}
            if place != "keep":
                chosen = (known[place],) if place in known else ()
                self.session = replace(self.session, reference=chosen)
            await self._settled()

    # --- what follows ------------------------------------------------------------------------------------------------

    def _check_planned(self) -> None:
        if not self.state.plan:
            raise InvalidInput("there is no plan yet; wait for it")

    def _called(self, name: str) -> State:
        own = self.state.named(name)
        return own if own.name else self.state.named(self.default_name)

    @property
    def default_name(self) -> str:
        """What a design is called where its user says nothing."""
        changed = ", ".join(f"{key} x{value:.3g}" for key, value in sorted(self.state.factors.items()))
        own = self.state.name or changed or (self.job.workload.model.name if self.job is not None else self.state.model)
        if any(pin.name == own and pin.key == self.state.key for pin in self.session.pins):
            return own  # this very design: keeping it again changes nothing
        taken = {pin.name for pin in self.session.pins}
        numbered = (f"{own[:34]} ({count})" for count in range(2, MAX_PINS + 2))
        return own if own not in taken else next(name for name in numbered if name not in taken)

    def _compare_with_planned(self) -> None:
        """What is on the page is what changes are compared with, where nothing was chosen."""
        if not self.session.reference and self.state.plan:
            self.session = replace(self.session, reference=(self.state.named(self.state.name or AS_PLANNED),))

    async def _planned(self) -> None:
        self._number += 1
        number, asked = self._number, self.state.with_plan("")
        self._site.workers.leave_all(self.asker)
        workers, key = self._site.workers, f"plan {asked.key}"
        what = f"{self.job.workload.model.name} on {devices_label(self.job.cluster)}" if self.job is not None else ""
        known = workers.known(key)
        if known is None:
            self.busy = Busy(what=what, key=key, num_before=workers.num_waiting)
            self.on_busy()
        try:
            found = await workers.search(self.asker, key, self._progress(key), found_for_state, asked)
        except Cancelled:
            if number == self._number:
                await self._cancelled()
            return
        except BaseException:
            if number == self._number:
                self.busy = None
                self.on_busy()
            raise
        if number == self._number:
            self.busy, self.found, self.found_of, self.found_state = None, found, asked.key, asked
            self.session = replace(self.session, state=self.state.with_plan(found.plan, found.selection))
            await self._settled()

    def _progress(self, key: str) -> Callable[[Progress], None]:
        def tell(now: Progress) -> None:
            if self.busy is None or self.busy.key != key:
                return
            self.busy = replace(self.busy, now=now, num_before=0)
            best = best_so_far(now)
            if best and best != self.busy.best:
                self.busy = replace(self.busy, best=best)
                background_tasks.create(self._show_best(key, best))
            self.on_busy()

        return tell

    async def _show_best(self, key: str, plan: str) -> None:
        """The figures of the best plan so far, while the search goes on."""
        state = self.state.with_plan(plan)
        now = await self._site.workers.answer(self.asker, f"figures False {state.key}", shown, state, False)
        if self.busy is not None and self.busy.key == key and self.busy.best == plan:
            self.shown, self.shown_of, self.before = now, state, ()
            self.busy = replace(self.busy, has_best=True)
            self.on_figures()

    async def _cancelled(self) -> None:
        """Takes the best plan so far; without one, goes back to what was shown, or leaves the question open."""
        busy, self.busy = self.busy, None
        best = busy.best if busy is not None else ""
        if best:
            gap = "" if busy is None or busy.now is None else gap_label(busy.now)
            said = f"The search was stopped: this is the best plan so far{gap}."
            self.found, self.found_of = Found(plan=best, said=said, why_alone=STOPPED), ""
            self.session = replace(self.session, state=self.state.with_plan(best))
            await self._settled()
            return
        if self.shown is not None:
            self.session = replace(self.session, state=self.shown_of)
            self.read_job()
        self.on_busy()
        raise InvalidInput("the search was cancelled before it had found a plan; start it again")

    async def _changed(self) -> None:
        """Quick figures at once, and all others when the hand rests; changes that come meanwhile are taken together."""
        self._check_planned()
        self._number += 1
        if self._is_working:
            self._is_stale = True
            return
        self._is_working = True
        try:
            while True:
                self._is_stale, number = False, self._number
                await self._show(has_limit=False)
                if not self._is_stale:
                    break
        finally:
            self._is_working = False
        self.keep()
        await asyncio.sleep(SETTLED_S)
        if number == self._number:
            await self._settled()

    async def _show(self, *, has_limit: bool) -> None:
        number, state, workers = self._number, self.state, self._site.workers
        key = f"figures {has_limit} {state.key}"
        now, before = await asyncio.gather(
            workers.answer(self.asker, key, shown, state, has_limit), self._reference_measures()
        )
        if number != self._number and has_limit:
            return
        if not has_limit and self.shown is not None and now.fits:
            old = tuple(replace(one, note=WORKING) for one in self.shown.measures if one.key == LIMIT)
            now = replace(now, measures=(*now.measures[:2], *old, *now.measures[2:]))
        self.shown, self.shown_of, self.before = now, state, before
        self.on_figures()
        self.on_busy()

    async def _reference_measures(self) -> Measures:
        if not self.session.reference or self.session.reference[0].key == self.state.key:
            return ()
        [own] = self.session.reference
        return await self._site.workers.answer(self.asker, f"reference {own.key}", reference_measures, own)

    async def _settled(self) -> None:
        """Everything there is to say of the state."""
        self._number += 1
        number = self._number
        if self.shown is None:
            await self._show(has_limit=False)
        await self._show(has_limit=True)
        if number != self._number:
            return
        self.on_job()
        self.keep()
        told = self.on_settled()
        if asyncio.iscoroutine(told):
            await told

    def _leave(self) -> None:
        """The tab is gone: nobody waits for what it asked."""
        self._site.workers.leave_all(self.asker)

    def keep(self) -> None:
        """The session into the address and the links of other pages."""
        query = self.session.query
        is_kept = len(query) <= MOST_IN_ADDRESS
        own = "&".join(filter(None, (query, self.words)))
        self._frame.keep(own, is_kept=is_kept, is_new=self._is_new)
        self._is_new = False
        self._frame.carry(query if is_kept else "")
        if not is_kept:
            self._frame.refuse(TOO_LONG)
