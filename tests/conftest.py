from __future__ import annotations

import pytest
from hypothesis import settings

# The same examples every time: a failure in CI is the failure you get at home. No deadline: CI machines stall.
settings.register_profile("dovetail", derandomize=True, deadline=None)
settings.load_profile("dovetail")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless", action="store_true", help="rewrite golden files and recorded outputs instead of comparing with them"
    )


@pytest.fixture(scope="session")
def bless(request: pytest.FixtureRequest) -> bool:
    """Whether to rewrite what is recorded instead of comparing with it."""
    return bool(request.config.getoption("--bless"))
