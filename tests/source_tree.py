"""A Python source tree as values: what every architecture rule is a function of."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

PACKAGE = "dovetail"
SOURCE_DIR = Path(__file__).resolve().parent.parent / "src"


@dataclass(frozen=True)
class Module:
    """One source file: its dotted name, its path as shown to people, its text."""

    name: str
    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=self.path)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All of the tree, as `ast.walk` gives them: every rule looks at them."""
        return list(ast.walk(self.tree))

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def segment(self, node: ast.Constant | ast.BinOp) -> str:
        """How a node is written; as `ast.get_source_segment` says, which splits the whole text each time."""
        if node.lineno != node.end_lineno:
            return ast.get_source_segment(self.text, node) or ""
        line = self.lines[node.lineno - 1]
        if not line.isascii():  # offsets are of bytes
            return line.encode()[node.col_offset : node.end_col_offset].decode()
        return line[node.col_offset : node.end_col_offset]

    @property
    def layer(self) -> str:
        """The top-level package or module it belongs to; empty for the package's own `__init__`."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else ""

    @property
    def package(self) -> str:
        """What a relative import in this file starts from."""
        return self.name if self.path.endswith("__init__.py") else self.name.rpartition(".")[0]

    @cached_property
    def imported_names(self) -> dict[str, str]:
        """Local name -> the dotted thing it stands for, over every import in the file, lazy ones included."""
        names: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.name if alias.asname else alias.name.partition(".")[0]
                    names[alias.asname or name] = name
            elif isinstance(node, ast.ImportFrom):
                base = self.import_base(node)
                for alias in node.names:
                    names[alias.asname or alias.name] = f"{base}.{alias.name}"
        return names

    def import_base(self, node: ast.ImportFrom) -> str:
        """The absolute package a `from ... import` names, relative dots resolved."""
        if node.level == 0:
            return node.module or ""
        parts = self.package.split(".")
        parts = parts[: len(parts) - (node.level - 1)]
        return ".".join([*parts, node.module] if node.module else parts)

    def dotted(self, node: ast.expr) -> str:
        """The dotted thing an expression such as `np.random.rand` stands for, or '' when it is not an imported name."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.imported_names:
            return ""
        return ".".join([self.imported_names[node.id], *reversed(parts)])

    def at(self, node: ast.AST) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 1)}"


def source_modules(source_dir: Path = SOURCE_DIR) -> tuple[Module, ...]:
    """Every module of the package under `source_dir`, in path order; our own are read and parsed once a process."""
    return _own_modules() if source_dir == SOURCE_DIR else _read_modules(source_dir)


@cache
def _own_modules() -> tuple[Module, ...]:
    return _read_modules(SOURCE_DIR)


def _read_modules(source_dir: Path) -> tuple[Module, ...]:
    modules = []
    for file in sorted((source_dir / PACKAGE).rglob("*.py")):
        relative = file.relative_to(source_dir)
        parts = relative.with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules.append(Module(name=name, path=relative.as_posix(), text=file.read_text(encoding="utf-8")))
    return tuple(modules)
