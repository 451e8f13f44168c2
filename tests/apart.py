"""Coroutines run to their end, also where this thread's loop is running, as it is once a browser was opened."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def ended(work: Coroutine[Any, Any, T]) -> T:
    """What `work` comes to, by a loop of its own in a thread of its own."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, work).result()
