"""Without PyTorch everything else works, and a capture says what to install."""

from __future__ import annotations

import builtins
import re
import subprocess
import sys

import pytest

from dovetail.errors import InvalidInput
from dovetail.importers.torch_library import torch_library
from dovetail.importers.torch_model import captured_module


def test_without_pytorch_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **named):
        if name.partition(".")[0] == "torch":
            raise ImportError(name)
        return real(name, *rest, **named)

    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    for asked in (torch_library, lambda: captured_module(object(), ())):
        with pytest.raises(InvalidInput, match=re.escape("pip install 'dovetail-codesign[torch]'")):
            asked()


def test_what_plugins_need_to_add_an_operator_does_not_import_pytorch():
    code = (
        "import sys, dovetail.importers.torch_model; "
        "from dovetail.importers.torch_operators import torch_operators; "
        "assert 'aten::mm' in torch_operators; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
