"""`dovetail models`, `chips`, `clusters`, `plans` and `methods`: what can be named."""

# Annotations are evaluated here: the options in them are the command's.
from typing import TYPE_CHECKING

from dovetail.cli.options import AsJson, command

if TYPE_CHECKING:
    from dovetail.api.catalogue import Catalogue


@command()
def models(*, as_json: AsJson = False) -> None:
    """List the models that can be named."""
    from dovetail.api.catalogue import models as listed

    _show(listed(), as_json=as_json)


@command()
def chips(*, as_json: AsJson = False) -> None:
    """List the chips that can be named."""
    from dovetail.api.catalogue import chips as listed

    _show(listed(), as_json=as_json)


@command()
def clusters(*, as_json: AsJson = False) -> None:
    """List the clusters that can be named."""
    from dovetail.api.catalogue import clusters as listed

    _show(listed(), as_json=as_json)


@command()
def plans(*, as_json: AsJson = False) -> None:
    """List the plans that can be named."""
    from dovetail.api.catalogue import plans as listed

    _show(listed(), as_json=as_json)


@command()
def methods(*, as_json: AsJson = False) -> None:
    """List schedules, collectives, optimizers and kernel sets."""
    from dovetail.api.catalogue import methods as listed

    _show(listed(), as_json=as_json)


def _show(found: "Catalogue", *, as_json: bool) -> None:
    from dovetail.cli.screen import show_json, show_tables

    show_json(found.record) if as_json else show_tables((found.table,))
