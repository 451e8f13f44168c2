from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from dovetail.errors import InvalidInput
from dovetail.importers.torch_library import torch_library

with suppress(InvalidInput):  # tests that need PyTorch say so themselves
    torch_library()  # first, so that torchvision of another build does not stop what tests import of transformers


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where captures are kept: a folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "dovetail" / "captures"
