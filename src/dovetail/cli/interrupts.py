"""What an interrupt does while something runs, and as before when that has ended."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]
Meet = Callable[[Handler, int, FrameType | None], Any]  # is handed what met interrupts before


@contextmanager
def at_interrupt(meet: Meet) -> Iterator[None]:
    """Has `meet` called at an interrupt.

    Not where interrupts are ignored, as a shell may have it, nor off the main thread, which alone may say.
    """
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, partial(meet, before))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
