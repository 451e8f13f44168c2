"""`dovetail simulate`: one training step on the screen, and its timeline in a file."""

# Annotations are evaluated here: the options in them are the command's.
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from dovetail.api.requests.jobs import SimulateRequest
from dovetail.api.requests.option import Option
from dovetail.cli.options import AsJson, Html, Ranks, command
from dovetail.errors import InvalidInput

if TYPE_CHECKING:
    from dovetail.api.search_context import SearchContext


@command(SimulateRequest)
def simulate(
    request: SimulateRequest,
    *,
    perfetto: Annotated[str, Option("Write the step's timeline, device by device, for ui.perfetto.dev.", "FILE")] = "",
    ranks: Ranks = "",
    html: Html = "",
    as_json: AsJson = False,
) -> bool:
    """Predict one training step: time, memory, energy, limits.

    SPEC is a file; options override what it says. Without one, give --model, --cluster and --plan.
    """
    from dovetail.api.simulated import simulated
    from dovetail.cli.answers import show_answer, tell_cluster
    from dovetail.cli.html import check_html
    from dovetail.cli.timeline import tell_timeline, timeline_files, timeline_record, write_step
    from dovetail.cli.verbosity import timed_log

    check_html(html)
    files = timeline_files(perfetto, ranks)
    if perfetto and request.forward_only:
        raise InvalidInput("a timeline is of a training step; leave out --forward-only or --perfetto")
    tell_cluster(request.cluster, request.devices)
    with timed_log("simulated"):
        found = simulated(request, context=_around)
    written = write_step(files, found.outcome)
    fits = show_answer(found, as_json=as_json, html=html, more=timeline_record(files, written))
    if not as_json:
        tell_timeline(files, written)
    return fits


@contextmanager
def _around() -> Iterator["SearchContext"]:
    """For a plan that is to be found; imported where one searches."""
    from dovetail.cli.terminal import TerminalContext

    yield TerminalContext()
