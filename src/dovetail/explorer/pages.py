"""The pages by their addresses."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from fastapi import Request
from nicegui import ui

from dovetail.errors import InvalidInput
from dovetail.explorer.accuracy_page import AccuracyView
from dovetail.explorer.answers import found_for_state, prepared, result_of
from dovetail.explorer.catalogue import chip_groups, cluster_groups, model_groups
from dovetail.explorer.chip_page import ChipView
from dovetail.explorer.compare_page import CompareView
from dovetail.explorer.frame import Site
from dovetail.explorer.hardware_page import HardwareView
from dovetail.explorer.network_page import NetworkView
from dovetail.explorer.plan_page import PlanView
from dovetail.explorer.search_page import SearchView
from dovetail.explorer.searches import Searches
from dovetail.explorer.settings import Settings
from dovetail.explorer.state import FIRST
from dovetail.explorer.study_page import StudyView
from dovetail.explorer.uploads import add_uploads
from dovetail.explorer.views import shown
from dovetail.explorer.work import Cancelled, Workers
from dovetail.files.plan_text import plan_text
from dovetail.parallel.plan import Plan

CONNECT_S = 30.0


class View(Protocol):
    """A page that is built at once, and goes on with what takes a while when its tab is there to see it."""

    def build(self) -> None: ...

    async def begin(self) -> None: ...


def begin_warm() -> None:
    """Reads the catalogues, and evaluates once: whoever opens the first page does not wait for that."""
    model_groups()
    cluster_groups()
    chip_groups()
    state = FIRST.with_plan(plan_text(Plan(data_parallel=FIRST.devices, zero_stage=1)))
    result_of(prepared(state), state, has_changes=False)


async def warm(workers: Workers) -> None:
    """Answers what a newcomer's page asks, before anybody opens it."""
    asker = "the server"
    with suppress(Cancelled, InvalidInput):  # the server ends before it was warm
        found = await workers.search(asker, f"plan {FIRST.key}", lambda _: None, found_for_state, FIRST)
        state = FIRST.with_plan(found.plan, found.selection)
        for has_limit in (False, True):
            await workers.answer(asker, f"figures {has_limit} {state.key}", shown, state, has_limit)


def add_pages(settings: Settings, workers: Workers, searches: Searches) -> None:
    """Makes the server answer; every page is built again for every tab, and knows nothing of others."""
    site = Site(settings=settings, workers=workers, searches=searches)
    add_uploads(is_read_only=settings.is_read_only)

    @ui.page("/", response_timeout=CONNECT_S)
    async def plan(request: Request) -> None:
        await _begin(PlanView(site, request.query_params.multi_items()))

    @ui.page("/hardware", response_timeout=CONNECT_S)
    async def hardware(request: Request) -> None:
        await _begin(HardwareView(site, request.query_params.multi_items()))

    @ui.page("/chip", response_timeout=CONNECT_S)
    async def chip(request: Request) -> None:
        await _begin(ChipView(site, request.query_params.multi_items()))

    @ui.page("/network", response_timeout=CONNECT_S)
    async def network(request: Request) -> None:
        await _begin(NetworkView(site, request.query_params.multi_items()))

    @ui.page("/accuracy", response_timeout=CONNECT_S)
    async def accuracy(request: Request) -> None:
        await _begin(AccuracyView(site, request.query_params.multi_items()))

    @ui.page("/compare", response_timeout=CONNECT_S)
    async def compare(request: Request) -> None:
        await _begin(CompareView(site, request.query_params.multi_items()))

    @ui.page("/study", response_timeout=CONNECT_S)
    async def study(request: Request) -> None:
        await _begin(StudyView(site, request.query_params.multi_items()))

    @ui.page("/search", response_timeout=CONNECT_S)
    async def search(request: Request) -> None:
        SearchView(site, request.query_params.multi_items()).build()


async def _begin(view: View) -> None:
    view.build()
    await ui.context.client.connected(timeout=CONNECT_S)
    await view.begin()
