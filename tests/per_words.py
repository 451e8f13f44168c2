"""Where "a" stands for "per": "970 tokens/s a device" is to be "970 tokens/s per device"."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

WHOLE = "device|sample|step|stage|second|token|layer|microbatch|rank|chip|workload|iteration|CPU-second|clock"
COUNTED = (
    r"[kMGTP]?FLOP(?:/s)?|[KMGT]?i?B(?:/s)?|[numk]?s|[kM]?[WJ]|tokens?(?:/s)?|samples?(?:/s)?|sequences?|images|bytes|bits"
    r"|chunks?|layers?|microbatch(?:es)?|kernels?|messages?|plans|designs|rows|parameters|elements?|slots?|joules|watts"
    r"|dollars|USD|steps?|norms|nodes|buffers?|calls?|passes|predictions|systems?|operators?|once|twice|numbers|scale"
    r"|million|times"
)
FOR_PER = re.compile(rf"(?<![\w-])(?:{COUNTED}|\d[\d.,]* ?%?) a (?:{WHOLE})(?![\w-]| time)")
SURFACE = (
    "cli",
    "report",
    "api",
    "explorer",
    "accuracy",
    "files",
)  # units of losses in search/metrics are keys of stores


def of_text(text: str) -> list[str]:
    """Every place of a text where "a" stands for "per"."""
    return [" ".join(found.group(0).split()) for found in FOR_PER.finditer(re.sub(r"\s+", " ", text))]


def strings(file: Path) -> Iterator[str]:
    """What a module says: its texts, docstrings of modules and private functions apart, which nobody is shown."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    hidden = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            is_seen = file.parent.name in ("cli", "requests") and isinstance(node, ast.FunctionDef)
            first = node.body[0] if node.body else None
            if not is_seen and isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                hidden.add(id(first.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in hidden:
            yield node.value
