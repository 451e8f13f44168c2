"""`dovetail mine`: the best chip for a model on the screen, with a store to go on from."""

# Annotations are evaluated here: the options in them are the command's.
from dovetail.api.requests.searches import MineRequest
from dovetail.cli.options import AsJson, Html, command


@command(MineRequest, before={"html": "top"})
def mine(request: MineRequest, *, html: Html = "", as_json: AsJson = False) -> bool:
    """Find the best chip to train a model, or several, and prove it.

    Tensor and vector cores of any number and size within an area and a power, around the memory and links of a template
    chip. Every design is scheduled, operator by operator, or shown to be no better by a bound.
    """
    from dovetail.api.mine_search import named
    from dovetail.api.mined import mined_for
    from dovetail.cli.answers import show_answer
    from dovetail.cli.engines import engine_choice
    from dovetail.cli.html import check_html
    from dovetail.cli.slow_loops import log_if_slow
    from dovetail.cli.terminal import TerminalContext

    terminal = TerminalContext(choice=engine_choice(request.workers, request.dask), file=request.store)
    named(request)
    check_html(html)
    log_if_slow()
    return show_answer(mined_for(request, terminal), as_json=as_json, html=html)
