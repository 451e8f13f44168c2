"""Units as names: which names sound like a quantity, which endings say its unit, which literals hide a prefix.

The rules read annotations: only numbers (int, float, arrays, and containers or unions of them) must say a unit. A line
that breaks one of them for a reason says so: `# style: <reason>`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.source_tree import Module

EXEMPT_MODULE = "units"  # the one module that knows a prefix
REASON = re.compile(r"#\s*style:\s*\S")

QUANTITY_WORDS = {
    "time", "latency", "duration", "elapsed", "interval", "period", "delay", "bandwidth", "throughput", "rate",
    "speed", "capacity", "size", "memory", "energy", "power", "area", "frequency", "clock", "cost", "price",
    "voltage",
}  # fmt: skip
PLURALS = {word + "s" for word in QUANTITY_WORDS} | {word[:-1] + "ies" for word in QUANTITY_WORDS}
# Sizes that count things every reader knows; bytes never hide behind these.
COUNT_SIZES = re.compile(r"(\w+_)?(batch|microbatch|vocab|hidden|head|group|world|tile|stage|axis|dim)_sizes?")
UNITS = {
    "s", "hz", "byte", "bytes", "flop", "j", "w", "mm2", "m", "v", "usd", "frac", "ratio", "factor", "exponent",
    "cycles", "ticks", "elements",
}  # fmt: skip
# What is counted per something: tokens_per_s, samples_per_j.
COUNTED = {
    "tokens", "samples", "sequences", "steps", "ops", "operators", "elements", "cycles", "messages", "chunks",
    "devices", "events", "tasks", "evaluations", "designs", "plans", "lanes", "lines",
}  # fmt: skip
PLACES = {"index", "id", "rank", "level", "order", "axis", "dim"}  # an int that points at a quantity is not one
PREFIXED = {
    "ms", "us", "ns", "ps", "msec", "usec", "nsec", "sec", "secs", "seconds", "minutes", "hours", "hour",
    "days", "khz", "mhz", "ghz", "kb", "mb", "gb", "tb", "pb", "kib", "mib", "gib", "tib", "bit", "bits",
    "kbit", "mbit", "gbit", "bps", "kbps", "mbps", "gbps", "tbps", "flops", "mflop", "gflop", "tflop", "pflop",
    "mflops", "gflops", "tflops", "pflops", "tops", "kw", "mw", "kj", "mj", "nj", "pj", "nm", "um", "percent",
    "pct", "permille",
}  # fmt: skip
SAY = "end it in its base unit (_s _hz _bytes _bytes_per_s _flop _flop_per_s _j _w _mm2 _frac); counts begin num_"


@dataclass(frozen=True)
class Named:
    """A name the rules look at: what it is, and what its annotation says (None where nothing does)."""

    node: ast.AST
    what: str
    name: str
    annotation: ast.expr | None


def sounds_like_quantity(name: str) -> bool:
    return any(word in QUANTITY_WORDS or word in PLURALS for word in name.lower().split("_"))


def is_count(name: str) -> bool:
    return "num" in name.lower().split("_")[:2] or COUNT_SIZES.fullmatch(name.lower()) is not None


def says_its_unit(name: str) -> bool:
    """Whether the name ends in a unit: `hbm_bytes`, `link_bytes_per_s`, `latency_s_per_hop`, `tokens_per_s`."""
    amount, *per = name.lower().split("_per_")
    last_word = amount.rpartition("_")[2]
    if any(part in PREFIXED or part.rpartition("_")[2] in PREFIXED for part in per):
        return False
    return last_word in UNITS or bool(per and last_word in COUNTED)


def hides_a_prefix(name: str) -> bool:
    """Whether the name ends in a prefixed or ambiguous unit: `step_ms`, `hbm_gib`, `gb_per_s`, or any *flops*."""
    if is_count(name):
        return False
    words = name.lower().split("_")
    amount, *per = name.lower().split("_per_")
    ends = [part.rpartition("_")[2] for part in (amount, *per)]
    prefixed = any(end in PREFIXED for end in ends) and len(words) > 1
    return prefixed or any(word.endswith("flops") for word in words)


def is_number(annotation: ast.expr) -> bool:
    """Whether an annotation is a number, an array, or a container or union with one in it; not bool, not a callable."""
    if isinstance(annotation, ast.Constant):
        if not isinstance(annotation.value, str):
            return False
        try:
            return is_number(ast.parse(annotation.value, mode="eval").body)
        except SyntaxError:
            return False
    if isinstance(annotation, ast.Name | ast.Attribute):
        name = annotation.id if isinstance(annotation, ast.Name) else annotation.attr
        return name in {"int", "float", "number", "ndarray", "floating", "integer", "Decimal", "Fraction"} or bool(
            re.fullmatch(r"\w*Array|(float|int|uint)\d+", name)
        )
    if isinstance(annotation, ast.BinOp):
        return is_number(annotation.left) or is_number(annotation.right)
    if isinstance(annotation, ast.Subscript):
        outer = ast.unparse(annotation.value).rpartition(".")[2]
        if outer in {"Callable", "Literal", "type", "Type", "Iterator", "Generator"}:
            return False
        if outer == "NDArray":
            return "bool" not in ast.unparse(annotation.slice)
        return is_number(annotation.value) or is_number(annotation.slice)
    if isinstance(annotation, ast.Tuple | ast.List):
        return any(is_number(element) for element in annotation.elts)
    return False


def declared_names(module: Module) -> Iterator[Named]:
    """Fields, constants, parameters and functions by what they return: everything that carries an annotation."""
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Named(node, "function", node.name, node.returns)
            arguments = node.args
            for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                yield Named(argument, "parameter", argument.arg, argument.annotation)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name | ast.Attribute):
            name = node.target.id if isinstance(node.target, ast.Name) else node.target.attr
            yield Named(node, "field", name, node.annotation)


def assigned_names(module: Module) -> Iterator[Named]:
    """Variables bound without an annotation."""
    annotated = {id(node.target) for node in module.nodes if isinstance(node, ast.AnnAssign)}
    for node in module.nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in annotated:
            yield Named(node, "variable", node.id, None)


def unit_name_violations(modules: Iterable[Module]) -> list[str]:
    """Numbers that sound like a quantity and do not say their unit, and names that say a prefixed one."""
    found: dict[str, None] = {}
    for module in modules:
        if module.layer == EXEMPT_MODULE:
            continue
        for named in (*declared_names(module), *assigned_names(module)):
            if (problem := _name_problem(module, named)) and not _excused(module, named.node):
                found[f"{module.at(named.node)}: {named.what} {named.name!r} {problem}"] = None
    return list(found)


def _name_problem(module: Module, named: Named) -> str:
    annotation, name = named.annotation, named.name
    if annotation is None and named.what == "function":
        return ""
    if annotation is not None and not is_number(annotation):
        return ""
    if hides_a_prefix(name):
        return f"hides a prefix or is ambiguous; {SAY}"
    words = name.lower().split("_")
    if "cycles" in words[-1:] and module.layer != "cost":
        return "counts cycles outside cost/; divide by clock_hz before it leaves"
    if "ticks" in words[-1:] and "astra" not in module.name:
        return "counts ASTRA-sim's ticks outside what speaks with it; multiply by TICK_S before it leaves"
    if annotation is None or is_count(name) or not sounds_like_quantity(name) or says_its_unit(name):
        return ""
    if words[-1] in PLACES and "int" in ast.unparse(annotation):
        return ""
    return f"sounds like a quantity and does not state its unit; {SAY}"


SCIENTIFIC = re.compile(r"[\d._]+[eE]([+-]?\d+)")
TOLERANCE_WORDS = {"tol", "tolerance", "eps", "epsilon", "atol", "rtol"}
POWERS = {10: {3, 6, 9, 12, 15, 18}, 2: {10, 20, 30, 40, 50}}
WHOLE_PREFIXES = {base**power for base, powers in POWERS.items() for power in powers}
PLAIN_COUNTS = {
    1000,
    1024,
}  # also honest counts and dims, so these offend only where they scale something or 1024 is bytes
PREFIX_SAY = "units.py alone knows a prefix; write it as in 80 * GIGA, or name a tolerance as one"


def prefix_literal_violations(modules: Iterable[Module]) -> list[str]:
    """Numbers such as 1e9, 3.35e12, 1e-6, 2**30, 10**9 or `* 1024` anywhere but in units.py."""
    found: dict[str, None] = {}
    for module in modules:
        if module.layer == EXEMPT_MODULE:
            continue
        parents = {child: node for node in module.nodes for child in ast.iter_child_nodes(node)}
        for node in module.nodes:
            if not isinstance(node, ast.Constant | ast.BinOp) or _excused(module, node):
                continue
            if _is_prefix(module, node, parents):
                text = module.segment(node)
                found[f"{module.at(node)}: {text} is a prefix in disguise; {PREFIX_SAY}"] = None
    return list(found)


def _is_prefix(module: Module, node: ast.Constant | ast.BinOp, parents: dict[ast.AST, ast.AST]) -> bool:
    receiver = _receiver(node, parents)
    if is_count(receiver) or TOLERANCE_WORDS & set(receiver.lower().split("_")):
        return False
    if isinstance(node, ast.BinOp):
        return _is_power(node)
    value = node.value
    if isinstance(value, bool) or not isinstance(value, int | float) or value == 0:
        return False
    text = module.segment(node)
    if written := SCIENTIFIC.fullmatch(text):
        return abs(int(written[1])) >= 3
    if value in PLAIN_COUNTS:
        parent = parents.get(node)
        scales = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult | ast.Div | ast.FloorDiv | ast.Pow)
        return scales or (value == 1024 and "bytes" in receiver.split("_"))
    return value in WHOLE_PREFIXES or 1 / value in WHOLE_PREFIXES


def _is_power(node: ast.BinOp) -> bool:
    left, right = node.left, node.right
    if isinstance(right, ast.UnaryOp):
        right = right.operand
    if not (isinstance(left, ast.Constant) and isinstance(right, ast.Constant)):
        return False
    if isinstance(node.op, ast.LShift):
        return left.value == 1 and right.value in POWERS[2]
    return isinstance(node.op, ast.Pow) and any(
        left.value == base and right.value in powers for base, powers in POWERS.items()
    )


def _receiver(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> str:
    """The name a literal is given to: a keyword, a variable, a field or a parameter's default; empty for none."""
    parent = parents.get(node)
    if isinstance(parent, ast.UnaryOp):
        return _receiver(parent, parents)
    if isinstance(parent, ast.keyword):
        return parent.arg or ""
    if isinstance(parent, ast.Assign | ast.AnnAssign):
        target = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
        return target.id if isinstance(target, ast.Name) else getattr(target, "attr", "")
    if isinstance(parent, ast.arguments):
        positional = [*parent.posonlyargs, *parent.args]
        defaulted = positional[len(positional) - len(parent.defaults) :] if parent.defaults else []
        pairs = [
            *zip(defaulted, parent.defaults, strict=True),
            *zip(parent.kwonlyargs, parent.kw_defaults, strict=True),
        ]
        return next(argument.arg for argument, default in pairs if default is node)
    return ""


def _excused(module: Module, node: ast.AST) -> bool:
    line: int = getattr(node, "lineno", 1)
    return bool(REASON.search(module.lines[line - 1]))
