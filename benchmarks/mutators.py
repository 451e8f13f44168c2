"""The operators of systematic mutation: what each kind of expression or statement may be broken into.

Each operator takes a node of a syntax tree and gives the nodes that could stand in its place. The set is the usual one
of mutation testing: arithmetic, comparisons and their boundaries, constants, extremes and rounding, logic, signs, and
statements left out. Swaps that fail on types alone (a sum of texts or of lists made a difference) are not made.
Source: DeMillo, Lipton & Sayward, IEEE Computer 1978; Offutt et al., ACM TOSEM 1996, for a set that is enough.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TypeVar

Made = Iterator[ast.AST]
Operator = Callable[[ast.AST], Made]
Node = TypeVar("Node", bound=ast.AST)

_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Div,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_BOUNDARY: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_PAIRS = (
    ("min", "max"),
    ("minimum", "maximum"),
    ("argmin", "argmax"),
    ("ceil", "floor"),
    ("any", "all"),
    ("zeros", "ones"),
    ("zeros_like", "ones_like"),
    ("logical_and", "logical_or"),
)
_CALLS = {a: b for one, other in _PAIRS for a, b in ((one, other), (other, one))} | {"sum": "max"}
_WITHOUT = ("abs", "round")  # calls of one argument that may be left out
_SIGNED = ("float", "int", "Amount", "FloatArray", "IntArray", "Floats", "Ints")  # what a function may return negated


def arithmetic(node: ast.AST) -> Made:
    """`a + b` becomes `a - b`, `a * b` becomes `a / b`, and so on; the same for `a += b`."""
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC and not _joins(node):
        yield _with(node, op=_ARITHMETIC[type(node.op)]())
    if isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC and not _is_row(node.value):
        yield _with(node, op=_ARITHMETIC[type(node.op)]())


def comparison(node: ast.AST) -> Made:
    """`a < b` becomes `a >= b`, `a == b` becomes `a != b`, `a in b` becomes `a not in b`."""
    yield from _compared(node, _OPPOSITE)


def boundary(node: ast.AST) -> Made:
    """`a < b` becomes `a <= b`: wrong where both are equal, and nowhere else."""
    yield from _compared(node, _BOUNDARY)


def constant(node: ast.AST) -> Made:
    """0 becomes 1 and 1 becomes 0, other whole numbers one more; 0.0 becomes 1.0, other numbers twice; True False."""
    if not isinstance(node, ast.Constant):
        return
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(1 - value if value in (0, 1) else value + 1)
    elif isinstance(value, float):
        yield ast.Constant(2 * value if value else 1.0)


def call(node: ast.AST) -> Made:
    """`min` becomes `max`, `np.ceil` becomes `np.floor`, `sum` becomes `max`; `abs(a)` becomes `a`."""
    if not isinstance(node, ast.Call):
        return
    match node.func:
        case ast.Name(id=name) if name in _CALLS:
            yield _with(node, func=ast.Name(_CALLS[name], ast.Load()))
        case ast.Attribute(attr=name) if name in _CALLS:
            yield _with(node, func=_with(node.func, attr=_CALLS[name]))
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in _WITHOUT and len(node.args) == 1:
            yield node.args[0]
        case _:
            return


def logic(node: ast.AST) -> Made:
    """`a and b` becomes `a or b`, `not a` and `~a` become `a`, and a bare condition its opposite."""
    if isinstance(node, ast.BoolOp):
        yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.Invert)):
        yield node.operand
    if isinstance(node, (ast.If, ast.While, ast.IfExp)) and _is_bare(node.test):
        yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))


def sign(node: ast.AST) -> Made:
    """`-a` becomes `a`."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node.operand


def returned(node: ast.AST) -> Made:
    """`return a` becomes `return -a`; only asked where the function says that it returns numbers."""
    if isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield ast.Return(ast.UnaryOp(ast.USub(), node.value))


def deletion(node: ast.AST) -> Made:
    """A statement that changes what was there is left out: a call, `a += b`, `a[i] = b`, `continue` or `break`.

    A plain `a = b` stays: without it the next use of `a` fails by itself, which proves nothing.
    """
    match node:
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Continue() | ast.Break():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            yield ast.Pass()
        case _:
            return


OPERATORS: tuple[Operator, ...] = (
    arithmetic,
    comparison,
    boundary,
    constant,
    call,
    logic,
    sign,
    returned,
    deletion,
)


def returns_numbers(function: ast.AST | None) -> bool:
    return isinstance(function, ast.FunctionDef) and (
        isinstance(function.returns, ast.Name) and function.returns.id in _SIGNED
    )


def _compared(node: ast.AST, swaps: dict[type[ast.cmpop], type[ast.cmpop]]) -> Made:
    if not isinstance(node, ast.Compare):
        return
    for place, kind in enumerate(map(type, node.ops)):
        if kind in swaps:
            yield _with(node, ops=[*node.ops[:place], swaps[kind](), *node.ops[place + 1 :]])


def _is_bare(test: ast.expr) -> bool:
    """Whether no other operator turns the condition round."""
    is_not = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    return not (is_not or isinstance(test, (ast.Compare, ast.BoolOp, ast.NamedExpr)))


def _joins(node: ast.BinOp) -> bool:
    return isinstance(node.op, (ast.Add, ast.Mult, ast.Mod)) and (_is_row(node.left) or _is_row(node.right))


def _is_row(node: ast.expr) -> bool:
    """Text, a list or a tuple, as far as the expression itself shows."""
    match node:
        case ast.Constant(value=str() | bytes()) | ast.JoinedStr() | ast.List() | ast.Tuple() | ast.ListComp():
            return True
        case ast.Call(func=ast.Name(id="tuple" | "list" | "str")):
            return True
        case ast.BinOp():
            return _joins(node)
        case _:
            return False


def _with(node: Node, **fields: object) -> Node:
    """`node` with some fields of its own; what lies below is shared."""
    kept = {name: getattr(node, name, None) for name in node._fields}
    return ast.copy_location(type(node)(**{**kept, **fields}), node)
