"""Expressions of score functions over torch tensors, for the definition in _reference.

Text is what liblssar.so has taken (score/parse.h has the grammar): what is wrong with it is not looked
for again. Values are made of torch's own operations, and so can be differentiated any number of times.
Derivatives at kinks are those of docs/math.md, where torch has others.
"""

import ast
import functools
import math
import re

import torch

_NAMES_AND_NUMBERS = re.compile(r"[A-Za-z_]\w*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_CONSTANTS = {"pi": math.pi, "e": math.e}


@functools.lru_cache(maxsize=256)
def parse(text):
    """Python's syntax tree. The grammars differ in the sign of powers, and in zeros before a number."""

    def as_python(found):
        token = found[0]
        return token if token[0].isalpha() or token[0] == "_" else repr(float(token))

    source = _NAMES_AND_NUMBERS.sub(as_python, text).replace("^", "**")
    return ast.parse(f"({source})", mode="eval").body


def _softplus(x):
    return torch.logaddexp(x, torch.zeros_like(x))


# Of tensors, and of numbers.
_FUNCTIONS = {
    "abs": (torch.abs, abs),
    "exp": (torch.exp, math.exp),
    "log": (torch.log, math.log),
    "log1p": (torch.log1p, math.log1p),
    "sqrt": (torch.sqrt, math.sqrt),
    "tanh": (torch.tanh, math.tanh),
    "erf": (torch.erf, math.erf),
    "sigmoid": (torch.sigmoid, lambda x: 1 / (1 + math.exp(-x))),
    "softplus": (_softplus, lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x)))),
}
_OPERATORS = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
}
_COMPARISONS = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
}


def evaluate(text, x, **names):
    """The expression's value at x, elementwise; `names`: tensors, which are not differentiated."""
    value = _value(parse(text), {**names, "x": x}, True)
    return value.broadcast_to(x.shape) if isinstance(value, torch.Tensor) else torch.full_like(x, value)


def _value(node, names, is_differentiated):
    """A tensor, or a number where no name is in it."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id] if node.id in names else _CONSTANTS[node.id]
    if isinstance(node, ast.UnaryOp):
        value = _value(node.operand, names, is_differentiated)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp):
        return _chain(node, names, is_differentiated)
    if node.func.id in ("min", "max", "relu", "where"):
        return _choice(node.func.id, node.args, names, is_differentiated)
    (operand,) = (_value(argument, names, is_differentiated) for argument in node.args)
    return _FUNCTIONS[node.func.id][not isinstance(operand, torch.Tensor)](operand)


def _chain(node, names, is_differentiated):
    """a + b + c and the like in a loop: there may be hundreds of terms."""
    operations = []
    while isinstance(node, ast.BinOp):
        operations.append(node)
        node = node.left
    value = _value(node, names, is_differentiated)
    for operation in reversed(operations):
        right = _value(operation.right, names, is_differentiated)
        value = _OPERATORS[type(operation.op)](value, right)
    return value


def _choice(name, arguments, names, is_differentiated):
    """min, max and where: one of two values. The other one has no part in the derivative, though its
    own may have no value: each is computed from an x whose gradient is 0 where it is not chosen."""

    def plain(node):
        fixed = {n: x.detach() for n, x in names.items()} if is_differentiated else names
        return _value(node, fixed, False)

    if name == "where":
        condition, *nodes = arguments
        left, right = plain(condition.left), plain(condition.comparators[0])
        is_first = _COMPARISONS[type(condition.ops[0])](left, right)
    else:
        nodes = [*arguments, ast.Constant(0.0)][:2]
        if isinstance(plain(nodes[0]), float):  # a constant counts as the second
            nodes.reverse()
        left, right = plain(nodes[0]), plain(nodes[1])
        is_first = left < right if name == "min" else left > right
    if isinstance(is_first, bool):
        return _value(nodes[0 if is_first else 1], names, is_differentiated)

    x = names["x"]
    values = []
    for node, chosen in zip(nodes, (is_first, ~is_first)):
        here = torch.where(chosen, x, x.detach()) if is_differentiated else x
        value = _value(node, {**names, "x": here}, is_differentiated)
        values.append(value if isinstance(value, torch.Tensor) else torch.full_like(x, value))
    return torch.where((left != left) | (right != right), math.nan, torch.where(is_first, *values))


def exponential(text):
    """(sign of C, lambda) where the expression in x is C exp(lambda x), lambda not 0; else None."""
    form = _form(parse(text))
    if form is None or form[0] != "exponential":
        return None
    _, factor, rate = form
    return (math.copysign(1.0, factor), rate) if factor != 0 and math.isfinite(factor) else None


def _form(node):
    """("linear", a, c) of a x + c, ("exponential", C, lambda) of C exp(lambda x), lambda not 0; None of
    what is neither."""
    if isinstance(node, ast.Constant):
        return "linear", 0.0, node.value
    if isinstance(node, ast.Name):
        return ("linear", 1.0, 0.0) if node.id == "x" else ("linear", 0.0, _CONSTANTS[node.id])
    if isinstance(node, ast.UnaryOp):
        form = _form(node.operand)
        return form if isinstance(node.op, ast.UAdd) else _product(form, ("linear", 0.0, -1.0))
    if isinstance(node, ast.BinOp):
        left, right = _form(node.left), _form(node.right)
        if left is None or right is None:
            return None
        if isinstance(node.op, ast.Pow):
            return _power(left, right)
        if isinstance(node.op, ast.Mult):
            return _product(left, right)
        if isinstance(node.op, ast.Div):
            return _product(left, _power(right, ("linear", 0.0, -1.0)))
        return _sum(left, right, 1 if isinstance(node.op, ast.Add) else -1)
    operands = [None if isinstance(a, ast.Compare) else _form(a) for a in node.args]
    if None in operands:
        return None
    if node.func.id == "sqrt":
        return _power(operands[0], ("linear", 0.0, 0.5))
    if node.func.id == "exp":
        return _power(("linear", 0.0, math.e), operands[0])
    if any(form[0] != "linear" or form[1] != 0 for form in operands):
        return None
    return "linear", 0.0, _value(node, {}, False)


def _sum(left, right, sign):
    for zero, other, factor in ((right, left, 1.0), (left, right, sign)):
        if zero == ("linear", 0.0, 0.0):
            return _product(other, ("linear", 0.0, factor))
    if left[0] == right[0] == "linear":
        return "linear", left[1] + sign * right[1], left[2] + sign * right[2]
    if left[0] != right[0] or left[2] != right[2]:
        return None
    return _exponential(left[1] + sign * right[1], left[2])


def _product(left, right):
    if left is None or right is None:
        return None
    if left[0] == right[0] == "exponential":
        return _exponential(left[1] * right[1], left[2] + right[2])
    if left[0] == "exponential" or left[1] != 0:
        left, right = right, left
    kind, a, c = left
    if kind == "exponential" or a != 0:
        return None
    if right[0] == "linear":
        return "linear", c * right[1], c * right[2]
    return _exponential(c * right[1], right[2])


def _power(base, exponent):
    if base[0] == "linear" and base[1] == 0 and base[2] > 0 and exponent[0] == "linear":
        rate, at_0 = (math.log(base[2]) * y for y in exponent[1:])
        return _exponential(math.exp(at_0) if at_0 < 700 else math.inf, rate)
    if exponent[0] != "linear" or exponent[1] != 0:
        return None
    by = exponent[2]
    if by == 1:
        return base
    if base[0] == "linear":
        if base[1] != 0 or base[2] == 0:
            return None
        return ("linear", 0.0, base[2] ** by) if by == int(by) else None
    if base[1] <= 0 and by != int(by):
        return None
    try:
        return _exponential(base[1] ** by, base[2] * by)
    except OverflowError:
        return None


def _exponential(factor, rate):
    return ("exponential", factor, rate) if rate != 0 and factor != 0 else ("linear", 0.0, factor)
