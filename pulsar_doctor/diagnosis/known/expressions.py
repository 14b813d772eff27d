"""Evaluates the conditions of known issues over numbers that may be bounds or unknown.

A condition is written as in Python, and only this of Python: comparisons (also chained, and `in`),
`and`, `or`, `not`, `+ - * / %`, numbers, texts, lists, names of numbers (`sub.replayed`) and four
calls: any(CONDITION) and every(CONDITION) over the consumers, same(NAME) and grew(NAME) over the
samples. The answer is true, false, or None: not reported, or the bounds do not decide.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator
from math import isnan

from pulsar_doctor.diagnosis.known.numbers import Interval, Numbers, Term, Truth
from pulsar_doctor.errors import InputError

CALLS = ("any", "every", "same", "grew")
ORDER: dict[type[ast.cmpop], Callable[[Interval, Interval], Truth]] = {
    ast.Gt: lambda one, other: _surely(one[0] > other[1], one[1] <= other[0]),
    ast.GtE: lambda one, other: _surely(one[0] >= other[1], one[1] < other[0]),
    ast.Lt: lambda one, other: _surely(one[1] < other[0], one[0] >= other[1]),
    ast.LtE: lambda one, other: _surely(one[1] <= other[0], one[0] > other[1]),
}
ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}

ALLOWED: tuple[type[ast.AST], ...] = (
    *(ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.Compare, ast.BinOp),
    *(ast.Name, ast.Attribute, ast.Load, ast.Constant, ast.List, ast.In, ast.NotIn),
    *(ast.Eq, ast.NotEq),
    *ORDER,
    *ARITHMETIC,
)


def parsed(text: str) -> ast.expr:
    """A condition. Raises InputError for what is none."""
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise InputError(f"{text!r} is not a condition: {error}") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else None
            if name not in CALLS or len(node.args) != 1 or node.keywords:
                raise InputError(f"{text!r} calls what is not one of {', '.join(CALLS)}")
        elif not isinstance(node, ALLOWED):
            raise InputError(f"{text!r} has a {type(node).__name__}, which no condition has")
    return tree


def names_in(tree: ast.AST) -> Iterator[str]:
    """The names of numbers in it, as they are written."""
    if isinstance(tree, ast.Attribute):
        yield _name(tree)
        return
    for node in ast.iter_child_nodes(tree):
        yield from names_in(node)


def truth(tree: ast.expr, numbers: Numbers) -> Truth:
    """Whether a condition holds; None where what is reported does not decide."""
    if isinstance(tree, ast.BoolOp):
        parts = (truth(each, numbers) for each in tree.values)
        return _joined(parts, decides=isinstance(tree.op, ast.Or))
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
        return _not(truth(tree.operand, numbers))
    if isinstance(tree, ast.Compare):
        terms = [value(each, numbers) for each in (tree.left, *tree.comparators)]
        steps = zip(tree.ops, terms, terms[1:], strict=False)
        return _joined((_compared(*step) for step in steps), decides=False)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        return _called(tree.func.id, tree.args[0], numbers)
    found = value(tree, numbers)
    return found if isinstance(found, bool) else None


def _joined(truths: Iterable[Truth], *, decides: bool) -> Truth:
    """The value of several conditions: the first of which that is `decides` decides."""
    found: Truth = not decides
    for holds in truths:
        if holds is decides:
            return decides
        found = found if holds is not None else None
    return found


def value(tree: ast.expr, numbers: Numbers) -> Term:
    """The value of a part of a condition."""
    match tree:
        case ast.Constant(value=bool() | str() as plain):
            return plain
        case ast.Constant(value=int() | float() as number):
            return number, number
        case ast.List(elts=parts):
            return [value(part, numbers) for part in parts]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            found = value(inner, numbers)
            return (-found[1], -found[0]) if isinstance(found, tuple) else None
        case ast.BinOp(left=left, op=op, right=right):
            return _computed(type(op), value(left, numbers), value(right, numbers))
        case ast.Attribute():
            return numbers.value(_name(tree))
    return truth(tree, numbers)


def _computed(op: type[ast.operator], one: Term, other: Term) -> Term:
    """Computes with numbers or bounds, except a rest and a division by what may be 0."""
    if not isinstance(one, tuple) or not isinstance(other, tuple):
        return None
    exact = one[0] == one[1] and other[0] == other[1]
    if (op is ast.Mod and not exact) or (op in (ast.Div, ast.Mod) and other[0] <= 0 <= other[1]):
        return None
    ends = [ARITHMETIC[op](this, that) for this in one for that in other]
    return None if any(map(isnan, ends)) else (min(ends), max(ends))  # infinite less infinite


def _compared(op: ast.cmpop, one: Term, other: Term) -> Truth:
    if one is None or other is None:
        return None
    if isinstance(op, ast.In | ast.NotIn) and isinstance(other, list):
        return (one in other) == isinstance(op, ast.In)
    if isinstance(one, tuple) and isinstance(other, tuple):
        if type(op) in ORDER:
            return ORDER[type(op)](one, other)
        exact = one[0] == one[1] and other[0] == other[1]
        apart = one[1] < other[0] or other[1] < one[0]
        equal = _surely(exact and one == other, apart)
        return equal if isinstance(op, ast.Eq) else _not(equal)
    return (one == other) == isinstance(op, ast.Eq)


def _called(name: str, argument: ast.expr, numbers: Numbers) -> Truth:
    if name in ("same", "grew"):
        ask: Callable[[str], Truth] = getattr(numbers, name)
        return ask(_name(argument))
    everybody = numbers.consumers()
    if everybody is None:
        return None
    return _joined((truth(argument, each) for each in everybody), decides=name == "any")


def _not(truth: Truth) -> Truth:
    return None if truth is None else not truth


def _surely(true: bool, false: bool) -> Truth:
    return True if true else False if false else None


def _name(tree: ast.expr) -> str:
    if isinstance(tree, ast.Attribute) and isinstance(tree.value, ast.Name):
        return f"{tree.value.id}.{tree.attr}"
    raise InputError(f"{ast.unparse(tree)} is not the name of a number")
