"""`dovetail network`: one collective on one network, or a sweep of them."""

# Annotations are evaluated here: the options in them are the command's.
from functools import partial
from pathlib import Path
from typing import Annotated

from dovetail.api.requests.components import NetworkRequest
from dovetail.api.requests.option import FLAG, Option
from dovetail.cli.options import AsJson, Html, command
from dovetail.errors import InvalidInput


@command(NetworkRequest)
def network(
    request: NetworkRequest,
    *,
    plot: Annotated[str, Option("Draw time over size, of a sweep or of one point, as .svg.", "FILE")] = "",
    perfetto: Annotated[str, Option("Write a timeline of links and streams for ui.perfetto.dev.", "FILE")] = "",
    csv: Annotated[
        str,
        Option(
            "Write results as FILE.csv; one answer's links and critical path as FILE.links.csv and FILE.critical.csv.",
            "FILE",
        ),
    ] = "",
    ranks: Annotated[str, Option("Whose timeline and links to write: 0-7 or 0,2. Otherwise all.", "RANKS")] = "",
    astra_sim: Annotated[
        str,
        Option(
            "Write the same as ASTRA-sim's files: PREFIX.0.et and on, PREFIX.network.yml, PREFIX.system.json.",
            "PREFIX",
        ),
    ] = "",
    force: Annotated[bool, Option("Overwrite existing --astra-sim files.", kind=FLAG)] = False,
    html: Html = "",
    as_json: AsJson = False,
) -> None:
    """Time one collective on one network, chunk by chunk.

    A kind of dimension is ring (both ways round), uniring, torus:4x4x4, mesh, switch, fully-connected, fat-tree
    (oversubscription=2; leaf=8,spines=4 for its own switches), dragonfly:9x4x2 or twisted-torus:4x4x8. Bandwidth is
    what one device can send into the dimension, in one direction, all its ports together.
    """
    from dovetail.api.networks import asks_of, networked
    from dovetail.cli.answers import show_answer
    from dovetail.cli.html import check_html
    from dovetail.cli.network_files import write_astra, write_network
    from dovetail.cli.pictures import picture_file
    from dovetail.cli.progress import through
    from dovetail.cli.results import result_files
    from dovetail.cli.screen import remark
    from dovetail.cli.usage import check_needed
    from dovetail.files.text import one_line
    from dovetail.files.written import check_writable, write_file
    from dovetail.report.curves import curves_svg
    from dovetail.report.network import sweep_panels

    check_html(html)
    picture, files = picture_file(plot), result_files(perfetto, csv, ranks)
    num_answers = len(asks_of(request))
    if ranks and (num_answers > 1 or request.engine == "closed"):
        raise InvalidInput("--ranks is of the links and timeline of one answer by events; leave it out")
    for option, name in (("--perfetto", perfetto), ("--astra-sim", astra_sim)):
        if name and num_answers > 1:
            raise InvalidInput(f"it takes one size, network and memory; this sweep has {num_answers}", option)
    if astra_sim:
        check_writable(Path(f"{astra_sim}.0.et"), is_forced=force)
    check_needed("--force", {"--astra-sim": bool(astra_sim)}, is_given=force)
    found = networked(request, files.watches, through=partial(through, f"following {one_line(request.collective)}"))
    write_network(files, found.outcome)
    written = write_astra(astra_sim, found.outcome[0].job, is_forced=force) if astra_sim else ""
    if picture is not None:
        title = one_line(f"{request.collective} on {request.topology}")
        write_file(picture, curves_svg(title, sweep_panels(found.outcome)))
    show_answer(found, as_json=as_json, html=html)
    if not as_json:
        remark(written)
