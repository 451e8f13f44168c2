"""docs/reference/api.md says what signatures and docstrings say today."""

from __future__ import annotations

import importlib.util

from tests.e2e.conftest import ROOT
from tests.e2e.recorded import check_recorded

SCRIPT = ROOT / "docs" / "reference" / "api_md.py"


def test_the_reference_of_the_python_api_is_what_its_docstrings_say(bless):
    spec = importlib.util.spec_from_file_location("api_md", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    check_recorded(ROOT / "docs" / "reference" / "api.md", script.page(), bless)
