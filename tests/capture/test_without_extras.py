"""The base install answers without PyTorch, transformers and onnx, and a capture says which is missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCKED = (
    "import sys\nfor name in ('torch', 'transformers', 'onnx'): sys.modules[name] = None\n"
    "from dovetail.cli import main\nsys.exit(main(sys.argv[1:]))"
)


def without_extras(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCKED, *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        **more,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("models",),
        ("simulate", str(ROOT / "examples" / "llama3-70b-512xh100.yaml")),
        ("show", str(ROOT / "examples" / "capture" / "decoder.json")),
        ("simulate", str(ROOT / "examples" / "capture" / "decoder-64xh100.yaml")),
    ],
    ids=["models", "simulate", "show a captured model", "simulate a captured model"],
)
def test_the_base_install_needs_none_of_the_extras(arguments):
    done = without_extras(*arguments)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("target", "extra"), [("nets:net", "torch"), ("config.json", "torch"), ("empty.onnx", "onnx")])
def test_without_its_extra_a_capture_says_what_to_install(tmp_path, target, extra):
    (tmp_path / "nets.py").write_text("from torch import nn\n\ndef net():\n    return nn.Linear(2, 2)\n")
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    (tmp_path / "empty.onnx").write_bytes(b"")
    done = without_extras("capture", target, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch(rf"dovetail: .*pip install 'dovetail-codesign\[{extra}\]'.*\n", done.stderr), done.stderr


def test_nothing_else_imports_the_extras():
    code = (
        "import sys, dovetail as dv\ndv.simulate(model='llama3-8b', cluster='h100x8', plan='zero3')\n"
        f"dv.show({str(ROOT / 'examples' / 'capture' / 'decoder.json')!r})\n"
        "print([name for name in ('torch', 'transformers', 'onnx') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout.strip() == "[]"
