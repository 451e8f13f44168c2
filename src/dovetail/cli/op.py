"""`dovetail op`: one operator on one chip."""

# Annotations are evaluated here: the options in them are the command's.
from dovetail.api.requests.components import OpRequest
from dovetail.cli.options import AsJson, Html, command
from dovetail.errors import InvalidInput


@command(OpRequest)
def op(request: OpRequest, *, html: Html = "", as_json: AsJson = False) -> bool:
    """Cost one operator on one chip, and say what limits it."""
    from dovetail.api.operators import costed, dims_of, operator_kinds
    from dovetail.cli.answers import show_answer
    from dovetail.cli.html import check_html
    from dovetail.cli.screen import show_json, write

    check_html(html)
    if request.kind != "list":
        return show_answer(costed(request), as_json=as_json, html=html)
    if dims_of(request.dims) or request != OpRequest(kind="list") or html:
        raise InvalidInput("op list names the operators, and takes --json alone; leave the rest out")
    if as_json:
        show_json({"kinds": list(operator_kinds())})
    else:
        write("\n".join(operator_kinds()) + "\n")
    return True
