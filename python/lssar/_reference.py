"""Attention in plain torch operations, from the definition (docs/math.md), for every score function.

lssar.attention takes it for float64 tensors, and the tests compare the kernels with it. It can be
differentiated any number of times, forward and reverse, and needs memory quadratic in the length.
"""

import functools
import json
import math

import torch

from . import _expression
from ._rules import at_compile_time

DEAD_ROW = 2.0**-16
_SOFTMAX = {"scale": "inv_sqrt_dim", "qk_norm": False, "phi": "exp"}
_SCORES = {
    "lssar": {},
    "softmax": _SOFTMAX,
    "sigmoid": {**_SOFTMAX, "bias": "neg_log_length", "phi": "sigmoid", "normalizer": "none"},
}
_DEFAULTS = {
    "scale": "log_dim_log_length",
    "bias": "none",
    "qk_norm": True,
    "phi": "softplus",
    "normalizer": "sum",
    "normalizer_gain": 1.0,
    "psi": None,
    "psi_normalizer": "none",
}
_ACTIVATIONS = {
    "softplus": "softplus(x)",
    "exp": "exp(x)",
    "identity": "x",
    "relu": "relu(x)",
    "relu_squared": "relu(x)^2",
    "relu6": "min(relu(x), 6)",
    "gelu": "0.5 * x * (1 + erf(x / sqrt(2)))",
    "sigmoid": "sigmoid(x)",
    "mish": "x * tanh(softplus(x))",
}


@at_compile_time
def score_fields(text):
    """The fields of a score function's text, which liblssar.so has accepted (score/score_text.h)."""
    return _fields(text)


@functools.lru_cache(maxsize=256)
def _fields(text):
    if text.strip(" ").startswith("{"):
        given = json.loads(text)
    else:
        given = {}
        for part in _parts(text):
            name, is_field, value = (x.strip(" ") for x in part.partition("="))
            given.update({name: _value_of(name, value)} if is_field else _SCORES[name])
    if "activation" in given:
        given["phi"] = given.pop("activation")
    if given.pop("sink", "none") != "none":
        raise NotImplementedError(f"score: {text!r}; the Python package gives calls no sink")
    unread = given.keys() - _DEFAULTS.keys()
    if unread:
        raise NotImplementedError(f"score: {text!r}; float64 does not know the field {min(unread)}")
    fields = {**_DEFAULTS, **given}
    fields["phi"] = _ACTIVATIONS.get(fields["phi"], fields["phi"])
    return fields


def _parts(text):
    """The parts between commas outside of brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part for part in parts if part]


def _value_of(name, text):
    if name in ("phi", "psi", "activation"):
        return text
    if text in ("true", "false"):
        return text == "true"
    try:
        return float.fromhex(text) if "x" in text.lower() else float(text)
    except ValueError:
        return text


def _direction(x):
    """x / |x|, and 0 for zero vectors, whose derivatives are 0 too. NaN stays."""
    square = (x * x).sum(dim=-1, keepdim=True)
    is_zero = square <= 1e-24
    return torch.where(is_zero, 0.0, x * torch.where(is_zero, 1.0, square).rsqrt())


def visible_keys(len_q, len_k, causal, device=None):
    """N_i of the queries, [len_q]."""
    if not causal:
        return torch.full((len_q,), len_k, device=device)
    return (torch.arange(len_q, device=device) + 1 + len_k - len_q).clamp(0, len_k)


def attention(q, k, v, causal=False, p=15, offset=1.0, score=""):
    """o of tensors [batch, heads, length, dim], in their dtype. `score`: the library's text."""
    fields = score_fields(score or "lssar")
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    len_q, len_k = q.shape[2], k.shape[2]
    n = visible_keys(len_q, len_k, causal, q.device)[:, None]
    sees = torch.arange(len_k, device=q.device) < n
    n = n.to(q.dtype)
    prob = _divided(
        _activation(fields, _score(fields, q, k, n), sees), *_normalizer(fields, n)
    )
    b = torch.where(n <= 3, torch.zeros_like(n), offset)
    if p != 0:
        return _reweighted(torch.relu(n * prob - b), sees, p) @ v
    if fields["psi"] is None:
        return prob @ v
    y = torch.where(sees, _expression.evaluate(fields["psi"], n * prob, b=b, N=n), 0.0)
    return _divided(y, fields["psi_normalizer"], None) @ v


def _score(fields, q, k, n):
    """The scores s of all keys; NaN where they are infinite."""
    if fields["qk_norm"]:
        q, k = _direction(q), _direction(k)
    dim, log_n = q.shape[-1], torch.log(n.clamp(min=1))
    scales = {
        "log_dim_log_length": math.log(dim) * log_n,
        "inv_sqrt_dim": 1 / math.sqrt(dim),
        "log_length_inv_sqrt_dim": log_n / math.sqrt(dim),
    }
    scale, bias = fields["scale"], fields["bias"]
    score = scales.get(scale, scale) * (q @ k.transpose(-1, -2))
    score = score + {"none": 0.0, "neg_log_length": -log_n}.get(bias, bias)
    return torch.where(score.isinf(), math.nan, score)


def _activation(fields, score, sees):
    """a, 0 for keys that a row does not see."""
    score = torch.where(sees, score, 0.0)
    taken_out = None
    if fields["normalizer"] in ("sum", "sum_abs"):
        taken_out = _expression.exponential(fields["phi"])
    if taken_out is None:
        return torch.where(sees, _expression.evaluate(fields["phi"], score), 0.0)
    sign, rate = taken_out
    # What is taken out cancels: no derivative goes through it.
    hidden = torch.where(sees, rate * score.detach(), -math.inf)
    largest = torch.nn.functional.pad(hidden, (0, 1), value=-1e300).amax(dim=-1, keepdim=True)
    return sign * torch.where(sees, torch.exp(rate * score - largest), 0.0)


def _normalizer(fields, n):
    """The normalizer's name, and its value if it is not a sum."""
    values = {"length": n, "sqrt_length": fields["normalizer_gain"] * torch.sqrt(n / 2)}
    return fields["normalizer"], values.get(fields["normalizer"])


def _divided(x, normalizer, value):
    """Rows of x divided by their normalizer. If that is 0, the row and its derivatives are 0."""
    if normalizer == "none":
        return x
    if value is None:
        value = (x if normalizer == "sum" else x.abs()).sum(dim=-1, keepdim=True)
    is_dead = value == 0
    return torch.where(is_dead, 0.0, x / torch.where(is_dead, 1.0, value))


def _reweighted(excess, sees, p):
    """Weights max(N P - b, 0)^p over their sum."""
    excess = torch.where(sees, excess, 0.0)
    # The weights do not depend on what they are divided by: no derivative goes through it.
    with_zero = torch.nn.functional.pad(excess.detach(), (0, 1))  # there may be no keys
    largest = with_zero.amax(dim=-1, keepdim=True)
    is_dead = largest <= DEAD_ROW
    weight = (excess / torch.where(is_dead, 1.0, largest)) ** p
    total = weight.sum(dim=-1, keepdim=True)
    return torch.where(is_dead, 0.0, weight / torch.where(is_dead, 1.0, total))
