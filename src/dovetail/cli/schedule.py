"""`dovetail schedule`: the operators of a block on the cores of a chip."""

# Annotations are evaluated here: the options in them are the command's.
from pathlib import Path
from typing import Annotated

from dovetail.api.requests.components import ScheduleRequest
from dovetail.api.requests.option import Option
from dovetail.cli.options import AsJson, Html, command


@command(ScheduleRequest)
def schedule(
    request: ScheduleRequest,
    *,
    perfetto: Annotated[str, Option("Write the timeline to this file, for ui.perfetto.dev.", "FILE")] = "",
    html: Html = "",
    as_json: AsJson = False,
) -> bool:
    """Schedule the operators of a block on the cores of a chip.

    Forward, backward and update of one block, on 1, 2, 4 or all cores each, under the chip's HBM and SRAM bandwidth;
    with a bound that no schedule beats, and the peaks of HBM and SRAM. Ends with 1 where HBM does not hold it.
    """
    from dovetail.api.scheduled import limit_of, scheduled
    from dovetail.cli.answers import show_answer
    from dovetail.cli.html import check_html
    from dovetail.cli.progress import announced
    from dovetail.cli.slow_loops import log_if_slow
    from dovetail.files.perfetto import check_trace_name
    from dovetail.files.written import check_writable

    check_html(html)
    limit = limit_of(request)
    if perfetto:
        check_trace_name(perfetto)
        check_writable(Path(perfetto), is_forced=True)
    log_if_slow()
    words = f"searching for the best schedule, {limit.wall_s:g} s at most" if request.exact else "scheduling"
    with announced(words):
        found = scheduled(request)
    if perfetto:
        found.to_perfetto(perfetto)
    return show_answer(found, as_json=as_json, html=html)
