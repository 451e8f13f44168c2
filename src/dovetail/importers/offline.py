"""While a model is captured nothing is fetched from Hugging Face, also by code of the user's that would."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

OFFLINE = "HF_HUB_OFFLINE"
HUB = "huggingface_hub.constants"  # which reads the variable once, when it is imported


@contextmanager
def offline() -> Iterator[None]:
    """Afterwards everything is as it was."""
    said, was_offline = os.environ.get(OFFLINE), getattr(_hub(), OFFLINE, None)
    os.environ[OFFLINE] = "1"
    _put(is_offline=True)
    try:
        yield
    finally:
        os.environ.pop(OFFLINE, None)
        if said is not None:
            os.environ[OFFLINE] = said
        _put(is_offline=bool(was_offline) or (was_offline is None and said == "1"))


def _hub() -> Any:
    return sys.modules.get(HUB)


def _put(*, is_offline: bool) -> None:
    if _hub() is not None:
        setattr(_hub(), OFFLINE, is_offline)
