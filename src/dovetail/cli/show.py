"""`dovetail show`: one entry of any catalogue, or a file, with everything known of it."""

# Annotations are evaluated here: the options in them are the command's.
from dovetail.api.requests.entries import ShowRequest
from dovetail.cli.options import AsJson, command


@command(ShowRequest)
def show(request: ShowRequest, *, as_json: AsJson = False) -> None:
    """Show one model, chip, cluster or plan, with its sources.

    A file works too: a Hugging Face config.json, or a YAML file with a model, chip, cluster or whole spec in it.
    """
    from dovetail.api.shown import shown
    from dovetail.cli.screen import show_json, show_tables

    found = shown(request)
    show_json(found.record) if as_json else show_tables(found.tables)
