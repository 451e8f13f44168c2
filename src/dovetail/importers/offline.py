"""While a model is captured nothing is fetched from Hugging Face, also by code of the user's that would."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from dovetail.errors import InvalidInput

LOCAL = (None, "", "localhost", "127.0.0.1", "::1", socket.gethostname())
MAX_HOST = 100  # characters of a name in a message
OFFLINE = "HF_HUB_OFFLINE"
HUB = "huggingface_hub.constants"  # which reads the variable once, when it is imported


@contextmanager
def no_network() -> Iterator[None]:
    """Code that connects to another machine is refused by name; files on this one can be read."""
    before = socket.socket.connect, socket.getaddrinfo

    def refuse(address: Any) -> None:
        host = str(address[0] if isinstance(address, tuple) else address)
        raise InvalidInput(
            f"the code connects to {host[:MAX_HOST]}, and nothing is fetched while it is recorded; give it data from a "
            "file of this machine, or random numbers"
        )

    def connect(one: socket.socket, address: Any) -> None:
        if one.family in (socket.AF_INET, socket.AF_INET6):
            refuse(address)
        before[0](one, address)

    def look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host not in LOCAL:
            refuse((host,))
        return before[1](host, *args, **kwargs)

    with (
        mock.patch.object(socket.socket, "connect", connect),
        mock.patch.object(socket, "getaddrinfo", look_up),
    ):
        yield


@contextmanager
def offline() -> Iterator[None]:
    """Afterwards everything is as it was."""
    before, was_offline = os.environ.get(OFFLINE), getattr(_hub(), OFFLINE, None)
    os.environ[OFFLINE] = "1"
    _put(is_offline=True)
    try:
        yield
    finally:
        os.environ.pop(OFFLINE, None)
        if before is not None:
            os.environ[OFFLINE] = before
        _put(is_offline=bool(was_offline) or (was_offline is None and before == "1"))


def _hub() -> Any:
    return sys.modules.get(HUB)


def _put(*, is_offline: bool) -> None:
    if _hub() is not None:
        setattr(_hub(), OFFLINE, is_offline)
