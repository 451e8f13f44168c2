"""The architecture as functions: modules in, one line per broken rule out.

Each rule takes modules rather than reading the repository, so that a test can hand it a tiny offending tree and show
that it fails.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tests.source_tree import PACKAGE, Module

# Top to bottom. A module imports from its own package and from the rows above it.
ROWS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("base", ("errors", "registry", "units", "plugins", "stable_names", "columns")),
    ("facts", ("workload", "hardware")),
    ("decision", ("parallel",)),
    ("physics", ("cost", "comm")),
    ("time", ("step", "opsched")),
    ("answer", ("evaluate", "accuracy")),
    ("choice", ("search",)),
    ("studies", ("papers",)),
    ("words", ("report",)),
    ("edges", ("files", "store", "engine", "importers", "measuring", "api", "explorer", "cli")),
    ("start", ("__main__",)),
)
# Within a row, only these.
NEIGHBOURS = {
    "registry": {"errors"},
    "plugins": {"errors", "registry"},
    "units": {"errors"},
    "accuracy": {"evaluate"},
    "engine": {"store"},
    "importers": {"files"},
    "measuring": {"files", "importers"},
    "api": {"files", "store", "engine", "importers", "measuring"},
    "explorer": {"files", "store", "engine", "api"},
    "cli": {"files", "store", "engine", "importers", "api", "explorer"},
}
ROW_OF = {layer: row for row, layers in ROWS for layer in layers}
RANK_OF = {layer: rank for rank, (_, layers) in enumerate(ROWS) for layer in layers}
EDGES = {"files", "store", "engine", "importers", "measuring", "api", "explorer", "cli", "__main__"}
EDGE_LIBRARIES = {
    "pydantic", "pydantic_core", "yaml", "typer", "click", "rich",
    "sqlite3", "pebble", "distributed", "dask", "fastapi", "starlette", "uvicorn", "nicegui", "httpx", "requests",
}  # fmt: skip
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "core", "manager", "managers", "misc"}


def imports(module: Module) -> Iterator[tuple[ast.AST, str]]:
    """Every (node, dotted target) the file imports: at the top, inside functions, under TYPE_CHECKING, by string."""
    for node in module.nodes:
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = module.import_base(node)
            # `from dovetail import parallel` names a layer; `from dovetail.parallel import Plan` already has.
            yield from ((node, f"{base}.{alias.name}" if base == PACKAGE else base) for alias in node.names)
        elif isinstance(node, ast.Call) and _is_dynamic_import(module, node) and node.args:
            target = node.args[0]
            yield node, str(target.value) if isinstance(target, ast.Constant) else "?"


def _is_dynamic_import(module: Module, call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name) and call.func.id == "__import__":
        return True
    return module.dotted(call.func) == "importlib.import_module"


def import_violations(modules: Iterable[Module]) -> list[str]:
    """Imports that go against the flow, between strangers, or by a name nobody can check."""
    found = dict.fromkeys(
        f"{module.at(node)}: {problem}"
        for module in modules
        for node, target in imports(module)
        if (problem := _import_problem(module, target))
    )
    return list(found)


def _import_problem(module: Module, target: str) -> str:
    layer = module.layer
    if target == "?":
        if layer in ("", "registry") or layer in EDGES:
            return ""
        return "imports a module by a computed name, which cannot be checked; only registry may"
    if target != PACKAGE and not target.startswith(PACKAGE + "."):
        return ""
    parts = target.split(".")
    target_layer = parts[1] if len(parts) > 1 else ""
    if layer == "":
        if target_layer == "api":  # when it is first used; a test sees that importing the package imports nothing
            return ""
        return f"{PACKAGE}/__init__.py imports {target}; it imports nothing but api, so that every command starts fast"
    if target_layer not in RANK_OF:
        if target_layer.startswith("__") or layer in EDGES:
            return ""
        return f"{layer} imports {target}, which is no layer; name the module it needs"
    if layer not in RANK_OF or target_layer == layer or target_layer in NEIGHBOURS.get(layer, ()):
        return ""
    if RANK_OF[target_layer] < RANK_OF[layer]:
        return ""
    if RANK_OF[target_layer] == RANK_OF[layer]:
        return f"{layer} imports {target_layer}: both are {ROW_OF[layer]} and strangers; hand it a value or a function"
    return (
        f"{layer} ({ROW_OF[layer]}) imports {target_layer} ({ROW_OF[target_layer]}), which lies below it; "
        "hand it a value or a function"
    )


MODEL_ROWS = ("facts", "decision", "physics", "time", "answer", "choice", "studies")


def computing_violations(modules: Iterable[Module]) -> list[str]:
    """Imports by which the command line would compute something itself: it calls `api`, and shows what that returns.

    Names for annotations alone, under `TYPE_CHECKING`, compute nothing.
    """
    return [
        f"{module.at(node)}: cli imports {target}, which computes; call a function of api"
        for module in modules
        if module.layer == "cli"
        for node, target in imports(module)
        if node not in _for_annotations(module) and ROW_OF.get((*target.split("."), "")[1]) in MODEL_ROWS
    ]


def _for_annotations(module: Module) -> set[ast.AST]:
    """Everything under `if TYPE_CHECKING:`."""
    return {
        inner
        for node in module.nodes
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for child in node.body
        for inner in ast.walk(child)
    }


# Modules that hand on names of others, and why: everything else is imported from where it is defined.
HANDED_ON = {
    f"{PACKAGE}.api": "what Python programs import",
    f"{PACKAGE}.cli": "what the installed command calls",
    f"{PACKAGE}.store": "names taken when they are first used, so that --version reads no database",
    f"{PACKAGE}.workload.operators": "it fills the tables that it hands on; without it they are empty",
}


def second_hand_violations(modules: Iterable[Module]) -> list[str]:
    """Names imported from a module that only imported them itself: two ways to one thing, and a detour for a reader."""
    by_name = {module.name: module for module in modules}
    own = {name: _defined(module) for name, module in by_name.items()}
    return [
        f"{module.at(node)}: takes {alias.name} from {base}, which has it from {home}"
        for module in by_name.values()
        for node in module.nodes
        if isinstance(node, ast.ImportFrom) and (base := module.import_base(node)) in own and base not in HANDED_ON
        for alias in node.names
        if f"{base}.{alias.name}" not in by_name and alias.name not in own[base]
        if (home := by_name[base].imported_names.get(alias.name))
    ]


def _defined(module: Module) -> set[str]:
    """What a module itself gives a name to, at its top level."""
    found = set()
    for node in module.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.If | ast.Try):
            found |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return found


def unknown_layer_violations(modules: Iterable[Module]) -> list[str]:
    """Top-level modules that stand in no row, and names that say nothing about the problem."""
    problems = []
    for module in modules:
        if module.layer and module.layer not in RANK_OF:
            problems.append(f"{module.path}: {module.layer!r} is in no row; put it in a layer or add it to ROWS")
        for part in module.name.split(".")[1:]:
            if part in VAGUE_NAMES:
                problems.append(f"{module.path}: {part!r} is not a noun of the problem; name what is in it")
    return problems


def edge_library_violations(modules: Iterable[Module]) -> list[str]:
    """Libraries for disk, terminal and web imported above the edges."""
    return [
        f"{module.at(node)}: {module.layer or PACKAGE} imports {target}; only {', '.join(sorted(EDGES))} may"
        for module in modules
        if module.layer not in EDGES
        for node, target in imports(module)
        if target.partition(".")[0] in EDGE_LIBRARIES
    ]


# Extras that most installs do without: which modules may import them, by the beginning of their path in the package.
EXTRAS = {
    "torch": ("importers/torch_", "measuring/torch_"),
    "transformers": ("importers/torch_",),
    "onnx": ("importers/onnx_",),
}


def _globs(homes: tuple[str, ...]) -> str:
    return " and ".join(f"{PACKAGE}/{home}*.py" for home in homes)


def extra_violations(modules: Iterable[Module]) -> list[str]:
    """Libraries of an extra imported elsewhere than where they are asked for with a clear message."""
    return [
        f"{module.at(node)}: imports {target}; only {_globs(homes)} may, as it is an extra"
        for module in modules
        for node, target in imports(module)
        if (homes := EXTRAS.get(target.partition(".")[0]))
        and not module.path.removeprefix(f"{PACKAGE}/").startswith(homes)
    ]


# What the middle may not touch: dotted prefixes, and the few members of them that are pure.
IMPURE = {
    "asyncio": "the event loop", "builtins.open": "files", "ctypes": "the machine", "fileinput": "files",
    "ftplib": "the network", "getpass": "the terminal", "glob": "files", "http": "the network",
    "importlib.resources": "files", "io.open": "files", "logging": "the terminal", "mmap": "files",
    "numpy.fromfile": "files", "numpy.genfromtxt": "files", "numpy.load": "files", "numpy.loadtxt": "files",
    "numpy.memmap": "files", "numpy.random": "shared randomness; take an rng", "numpy.save": "files",
    "numpy.savetxt": "files", "numpy.savez": "files", "numpy.savez_compressed": "files",
    "os": "the environment", "platform": "the machine", "random": "shared randomness; take an rng",
    "secrets": "fresh randomness; take an rng", "shutil": "files", "signal": "the process",
    "socket": "the network", "ssl": "the network", "subprocess": "other processes",
    "sys.argv": "the command line", "sys.exit": "the process", "sys.stderr": "the terminal",
    "sys.stdin": "the terminal", "sys.stdout": "the terminal", "tempfile": "files",
    "time": "the clock; take the time as an argument", "datetime.date.today": "the clock",
    "datetime.datetime.now": "the clock", "datetime.datetime.today": "the clock",
    "datetime.datetime.utcnow": "the clock", "urllib.request": "the network", "uuid.uuid1": "the clock",
    "uuid.uuid4": "fresh randomness",
}  # fmt: skip
PURE = {"os.PathLike", "os.fspath", "random.Random", "numpy.random.Generator", "numpy.random.SeedSequence"}
IMPURE_BUILTINS = {"open": "files", "print": "the terminal", "input": "the terminal", "breakpoint": "the terminal"}
# Methods that read or write a path. The second set are words a cost model may use too, so they count only where
# pathlib is imported.
PATH_METHODS = {"read_text", "write_text", "iterdir", "rglob"}
PATHLIB_METHODS = PATH_METHODS | {
    "read_bytes", "write_bytes", "open", "mkdir", "rmdir", "unlink", "touch", "exists", "is_file", "is_dir", "glob",
    "stat", "resolve", "cwd", "home", "rename",
}  # fmt: skip


def purity_violations(modules: Iterable[Module]) -> list[str]:
    """Files, clock, terminal, environment, network or shared randomness touched above the edges."""
    return [
        f"{module.at(node)}: {module.layer} {problem}; that belongs to the edges"
        for module in modules
        if module.layer and module.layer not in EDGES
        for node, problem in _impurities(module)
    ]


def _impurities(module: Module) -> Iterator[tuple[ast.AST, str]]:
    imports_pathlib = any(target.partition(".")[0] == "pathlib" for target in module.imported_names.values())
    path_methods = PATHLIB_METHODS if imports_pathlib else PATH_METHODS
    inner: set[ast.AST] = set()  # the tails of attribute chains already reported
    for node in module.nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if not any(pure.startswith(alias.name + ".") for pure in PURE)]
            yield from ((node, f"imports {name} ({why})") for name in names if (why := _impure_reason(name)))
        elif isinstance(node, ast.ImportFrom):
            names = [f"{module.import_base(node)}.{alias.name}" for alias in node.names]
            yield from ((node, f"imports {name} ({why})") for name in names if (why := _impure_reason(name)))
        elif isinstance(node, ast.Global):
            yield node, f"changes global state ({', '.join(node.names)})"
        elif isinstance(node, ast.Call) and module.dotted(node.func) == "random.Random" and not node.args:
            yield node, "calls random.Random() without a seed (fresh randomness; take an rng)"
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in path_methods
            and not module.dotted(node.func)
        ):
            yield node, f"calls .{node.func.attr}() (files)"
        elif isinstance(node, ast.Name) and node.id in IMPURE_BUILTINS and isinstance(node.ctx, ast.Load):
            if node.id not in module.imported_names:
                yield node, f"uses {node.id} ({IMPURE_BUILTINS[node.id]})"
        elif isinstance(node, ast.Attribute) and node not in inner:
            link = node.value
            while isinstance(link, ast.Attribute):
                inner.add(link)
                link = link.value
            if why := _impure_reason(module.dotted(node)):
                yield node, f"uses {module.dotted(node)} ({why})"


def _impure_reason(dotted: str) -> str:
    """Why the middle may not touch `dotted`; empty when it may, or when it only names a module on the way."""
    if any(dotted == name or dotted.startswith(name + ".") for name in PURE):
        return ""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        prefix = ".".join(parts[:end])
        if prefix in IMPURE:
            # `numpy.random` alone is the way to numpy.random.Generator.
            return "" if prefix == dotted and prefix == "numpy.random" else IMPURE[prefix]
    return ""
