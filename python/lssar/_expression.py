"""Expressions of score functions over torch tensors, for the definition in _reference.

liblssar.so has accepted the text (score/parse.h has the grammar), so errors are not checked again.
Values are made of torch's own operations, so they can be differentiated any number of times.
Derivatives at kinks follow docs/math.md, because those of torch differ.
"""

import ast
import functools
import math
import re

import torch

from ._rules import at_compile_time

_NAMES_AND_NUMBERS = re.compile(r"[A-Za-z_]\w*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_CONSTANTS = {"pi": math.pi, "e": math.e}
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "^"}
_COMPARISON_SIGNS = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="
}  # fmt: skip


@at_compile_time
def parse(text):
    """The expression as numbers, names and tuples: ("+", a, b), ("negative", a), ("exp", a),
    ("where", "<", left, right, value, other)."""
    return _parsed(text)


@functools.lru_cache(maxsize=256)
def _parsed(text):
    """Uses Python's parser. The grammars differ only in the sign of powers and in leading zeros."""

    def as_python(found):
        token = found[0]
        return token if token[0].isalpha() or token[0] == "_" else repr(float(token))

    source = _NAMES_AND_NUMBERS.sub(as_python, text).replace("^", "**")
    return _tuples(ast.parse(f"({source})", mode="eval").body)


def _tuples(node):
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.UnaryOp):
        operand = _tuples(node.operand)
        return ("negative", operand) if isinstance(node.op, ast.USub) else operand
    if isinstance(node, ast.BinOp):
        chain = []  # a + b + c: there may be hundreds of terms
        while isinstance(node, ast.BinOp):
            chain.append((_SIGNS[type(node.op)], _tuples(node.right)))
            node = node.left
        result = _tuples(node)
        for sign, right in reversed(chain):
            result = (sign, result, right)
        return result
    operands = []
    for argument in node.args:
        if isinstance(argument, ast.Compare):
            operands.append(_COMPARISON_SIGNS[type(argument.ops[0])])
            operands += [_tuples(argument.left), _tuples(argument.comparators[0])]
        else:
            operands.append(_tuples(argument))
    return (node.func.id, *operands)


def _softplus(x):
    return torch.logaddexp(x, torch.zeros_like(x))


# Each name's function of tensors, and of numbers.
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
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "^": lambda a, b: a**b,
}
_COMPARISONS = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def evaluate(text, x, **names):
    """The expression's value at x, elementwise. `names` are tensors that are not differentiated."""
    value = _value(parse(text), {**names, "x": x}, True)
    return value.broadcast_to(x.shape) if isinstance(value, torch.Tensor) else torch.full_like(x, value)


def _value(node, names, is_differentiated):
    """A tensor, or a number if the expression contains no name."""
    if isinstance(node, float):
        return node
    if isinstance(node, str):
        return names[node] if node in names else _CONSTANTS[node]
    name = node[0]
    if name in _OPERATORS:
        return _chain(node, names, is_differentiated)
    if name in ("min", "max", "relu", "where"):
        return _choice(name, node[1:], names, is_differentiated)
    operand = _value(node[1], names, is_differentiated)
    if name == "negative":
        return -operand
    of_tensors, of_numbers = _FUNCTIONS[name]
    return of_tensors(operand) if isinstance(operand, torch.Tensor) else of_numbers(operand)


def _chain(node, names, is_differentiated):
    """Evaluates a + b + c and the like in a loop, as _tuples does."""
    operations = []
    while isinstance(node, tuple) and node[0] in _OPERATORS:
        operations.append(node)
        node = node[1]
    value = _value(node, names, is_differentiated)
    for sign, _, right in reversed(operations):
        value = _OPERATORS[sign](value, _value(right, names, is_differentiated))
    return value


def _choice(name, arguments, names, is_differentiated):
    """min, max and where: one of two values. The other one must not affect the derivative, even if its
    own has no value. So each is computed from an x that has gradient 0 where it is not chosen."""

    def plain(node):
        fixed = {n: x.detach() for n, x in names.items()} if is_differentiated else names
        return _value(node, fixed, False)

    if name == "where":
        sign, left, right, *nodes = arguments
        left, right = plain(left), plain(right)
        is_first = _COMPARISONS[sign](left, right)
    else:
        nodes = [*arguments, 0.0][:2]
        if isinstance(plain(nodes[0]), float):  # a constant counts as the second
            nodes = nodes[::-1]
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


@at_compile_time
def exponential(text):
    """(sign of C, lambda) if the expression in x is C exp(lambda x) with lambda not 0; else None."""
    form = _form(_parsed(text))
    if form is None or form[0] != "exponential":
        return None
    _, factor, rate = form
    return (math.copysign(1.0, factor), rate) if factor != 0 and math.isfinite(factor) else None


def _form(node):
    """("linear", a, c) for a x + c, ("exponential", C, lambda) for C exp(lambda x) with lambda not 0;
    None for other expressions."""
    if isinstance(node, float):
        return "linear", 0.0, node
    if isinstance(node, str):
        return ("linear", 1.0, 0.0) if node == "x" else ("linear", 0.0, _CONSTANTS[node])
    name, *operands = node
    if name == "where":
        return None
    operands = [_form(operand) for operand in operands]
    if None in operands:
        return None
    left, right = operands[0], operands[-1]
    if name in "+-":
        return _sum(left, right, 1 if name == "+" else -1)
    if name == "*":
        return _product(left, right)
    if name == "/":
        return _product(left, _power(right, ("linear", 0.0, -1.0)))
    if name == "^":
        return _power(left, right)
    if name == "negative":
        return _product(left, ("linear", 0.0, -1.0))
    if name == "sqrt":
        return _power(left, ("linear", 0.0, 0.5))
    if name == "exp":
        return _power(("linear", 0.0, math.e), left)
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
