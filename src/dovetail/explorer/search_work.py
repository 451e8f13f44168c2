"""What a search's own process does: the same calls as from Python, told through a pipe as they go on."""

from __future__ import annotations

import math
import os
import time
import traceback
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

from dovetail.api.codesigned import Codesign
from dovetail.api.progress import PlanStanding, Progress, Tell
from dovetail.api.requests.searches import codesign, pareto
from dovetail.errors import DovetailError
from dovetail.explorer.answers import found_for_state, page_of_state
from dovetail.explorer.designs import design_word
from dovetail.explorer.fronts import Front, design_state, front_of_report
from dovetail.explorer.search_request import CODESIGN, FRONT, PLAN, SearchRequest
from dovetail.explorer.state import FIRST, State
from dovetail.explorer.work import NICE, begin_child
from dovetail.files.model import model_of
from dovetail.files.uploaded import catalogue_entry
from dovetail.plugins import Plugin, blamed
from dovetail.report.charts.trail import Mark
from dovetail.report.codesigned import CodesignReport
from dovetail.report.fronts import FrontReport
from dovetail.report.page import Page
from dovetail.search.codesign.joint import Standing as JointStanding
from dovetail.workload.model import Model

PAUSE_S = 0.1  # between two things told
OURS = "a fault of Dovetail ended this search; the server's output has the details"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a search came to: a page to look at, states to open, and a front where that was asked for."""

    page: Page
    states: tuple[State, ...] = ()
    front: Front | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Why there is no answer."""

    said: str


def run_search(asked: SearchRequest, store: str, pipe: Connection, plugins: tuple[Plugin, ...] = ()) -> None:
    """Searches, tells how far it is and what it found, and ends."""
    begin_child(plugins)
    if hasattr(os, "nice"):
        os.nice(NICE)  # whoever moves a slider goes before
    try:
        with blamed():
            pipe.send(ended(asked, store, _piped(pipe)))
    except DovetailError as error:
        pipe.send(Refused(said=str(error)))
    except Exception:
        traceback.print_exc()
        pipe.send(Refused(said=OURS))
    finally:
        pipe.close()


def ended(asked: SearchRequest, store: str, tell: Tell) -> Ended:
    return {PLAN: _plan, CODESIGN: _codesign, FRONT: _front}[asked.kind](asked, store, tell)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """How far a search is, and, where it has them, the best so far and the bound as a mark of its trail."""

    progress: Progress
    mark: Mark | None = None


def mark_of(now: Progress) -> Mark | None:
    """Of a plan in seconds of a step, of chips in how many times as good as the base; nothing of a front."""
    for one in now.standing:
        if isinstance(one, PlanStanding):
            best = one.best[0].step_s if one.best else math.inf
            return Mark(num_done=one.tally.num_plans, best=float(best), bound=float(one.bound_s))
        if isinstance(one, JointStanding) and one.loss < math.inf and one.bound > 0:
            return Mark(num_done=one.num_done, best=1 / one.loss, bound=1 / one.bound)
    return None


def _piped(pipe: Connection) -> Tell:
    """Tells through `pipe`, not too often, and of a search's own account its words and its mark."""
    last_s = 0.0

    def tell(now: Progress) -> None:
        nonlocal last_s
        if (moment_s := time.monotonic()) - last_s >= PAUSE_S:
            last_s = moment_s
            pipe.send(Told(progress=replace(now, standing=()), mark=mark_of(now)))

    return tell


def _plan(asked: SearchRequest, _store: str, tell: Tell) -> Ended:
    """A plan is found in one go: there is nothing to keep of a search for one."""
    state = (asked.state or FIRST).with_plan("")
    found = found_for_state(state, tell, asked.objective)
    state = state.with_plan(found.plan, found.selection)
    return Ended(page=page_of_state(state), states=(state,))


def _codesign(asked: SearchRequest, store: str, tell: Tell) -> Ended:
    found = codesign(**{**asked.request.given, "spec": _model(asked)}, store=store, progress=tell)
    return Ended(page=found.page, states=_states(found))


def _states(found: Codesign) -> tuple[State, ...]:
    if not isinstance(found.outcome, CodesignReport):
        return ()
    question = found.outcome.question
    word = design_word(question.base.name, found.outcome.network, found.best.system)
    return tuple(design_state(case, word, own.plan) for case, own in zip(question.cases, found.best.cases, strict=True))


def _front(asked: SearchRequest, store: str, tell: Tell) -> Ended:
    found = pareto(**{**asked.request.given, "spec": _model(asked)}, store=store, progress=tell)
    front = front_of_report(found.outcome) if isinstance(found.outcome, FrontReport) else None
    return Ended(page=found.page, front=front)


def _model(asked: SearchRequest) -> Model:
    return model_of(catalogue_entry(asked.model), asked.seq)
