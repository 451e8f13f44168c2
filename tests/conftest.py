from __future__ import annotations

import signal
import threading

import pytest
from hypothesis import settings

# The same examples every time: a failure in CI is the failure you get at home. No deadline: CI machines stall.
settings.register_profile("dovetail", derandomize=True, deadline=None)
settings.load_profile("dovetail")

LONG_FIRST = ("validation", "e2e", "property", "capture")  # folders of the longest tests


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless", action="store_true", help="rewrite golden files and recorded outputs instead of comparing with them"
    )


def pytest_configure() -> None:
    """Lets commands be interrupted where a shell that runs tests in the background had interrupts ignored."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests first: short ones fill what is left at the end, where a long one would keep the others waiting."""
    folders = [config.rootpath / "tests" / name for name in LONG_FIRST]
    items.sort(key=lambda item: [folder not in item.path.parents for folder in folders])


@pytest.fixture(scope="session")
def bless(request: pytest.FixtureRequest) -> bool:
    """Whether to rewrite what is recorded instead of comparing with it."""
    return bool(request.config.getoption("--bless"))
