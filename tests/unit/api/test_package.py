from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import dovetail as dv
from dovetail import api

SOURCE = Path(dv.__file__).parent
LAYERS = ("capture", "network", "plan", "schedule")  # which are also names of answers
CALLED = tuple(f"dv.{name}" for name in LAYERS)


def ran(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def checked_imports(file: Path) -> set[str]:
    """The names that type checkers see a module take in."""
    [block] = [node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.If)]
    return {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}


def test_importing_dovetail_imports_neither_numpy_nor_any_layer():
    code = "import sys, dovetail; print([m for m in sys.modules if m.startswith(('numpy', 'dovetail.', 'pydantic'))])"
    assert ran(code) == "[]"


def test_looking_at_the_api_without_using_it_imports_nothing_either():
    assert ran("import sys, dovetail as dv; dir(dv); import dovetail.api; print('numpy' in sys.modules)") == "False"


def test_the_package_offers_what_the_api_has_and_type_checkers_see_the_same():
    assert set(dv.__all__) - {"__version__"} == set(api.__all__) == set(api.HOMES)
    assert checked_imports(SOURCE / "api" / "__init__.py") == set(api.HOMES)
    assert checked_imports(SOURCE / "__init__.py") == {"*"}
    assert ran("from dovetail import *; print(simulate.__name__, plan.__name__)") == "simulate plan"


@pytest.mark.parametrize("name", sorted(api.HOMES))
def test_every_name_is_found_where_it_is_said_to_be(name):
    home = importlib.import_module(api.HOMES[name])
    assert getattr(api, name) is getattr(home, name)
    assert callable(getattr(dv, name))
    assert name in dir(dv)
    assert getattr(home, name).__doc__


@pytest.mark.parametrize("package", [dv, api])
def test_a_name_that_is_not_there_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match="has no attribute 'simualte'"):
        _ = package.simualte


def test_no_package_has_the_name_of_a_call():
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert not packages & set(api.HOMES), "dv.NAME would be a package in one place and a call in another"


def test_the_words_of_a_layer_cost_nothing_until_they_are_asked_for():
    assert ran("import sys, dovetail as dv; dv.plan; print('numpy' in sys.modules)") == "False"
