"""What was typed on the command line: counts read, and the arguments that commands share."""

from __future__ import annotations

from dovetail.api.arguments import count
from dovetail.api.asked import Asked
from dovetail.errors import InvalidInput
from dovetail.units import count_of

__all__ = ["asked_of", "count", "num_tokens"]


def num_tokens(option: str, text: str) -> float:
    """The many tokens that `option` was given, as in 15T; 0 where it was not."""
    if not text:
        return 0.0
    try:
        return count_of(text)
    except InvalidInput as error:
        raise InvalidInput(error.message, option) from None


def asked_of(
    *,
    spec: str,
    model: str,
    cluster: str,
    devices: str | None,
    global_batch: str | None,
    seq: str | None,
    compute: str | None,
    plan: str = "",
) -> Asked:
    """The arguments that commands share, as Typer has them."""
    return Asked(
        spec=spec,
        model=model,
        cluster=cluster,
        plan=plan,
        devices=count("--devices", devices),
        global_batch=count("--global-batch", global_batch),
        seq=count("--seq", seq),
        compute=compute or "",
    )
