"""Attention in plain torch operations, from the definition (docs/math.md), for every score function.

lssar.attention takes it for float64 tensors, and the tests compare the kernels with it. It can be
differentiated any number of times, forward and reverse, and needs memory quadratic in the length.
"""

import math

import torch

from . import _expression
from ._score_text import score_fields

DEAD_ROW = 2.0**-16


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


def keys_in_window(len_q, len_k, causal, window, device=None):
    """Which keys the queries see, [len_q, len_k]. `window`: as _rules.window_of says."""
    left, right, sinks, prefix, chunk = window
    key = torch.arange(len_k, device=device)
    position = torch.arange(len_q, device=device)[:, None] + len_k - len_q
    ends_after = torch.ones(len_q, len_k, dtype=torch.bool, device=device)
    begins_before = ends_after  # of the window: before the key, or at it
    if causal:
        ends_after = ends_after & (key <= position)
    if right >= 0:
        ends_after = ends_after & (key <= position + right)
    if left >= 0:
        begins_before = begins_before & (key >= position - left)
    if chunk > 0:
        begin = position.div(chunk, rounding_mode="floor") * chunk
        ends_after, begins_before = ends_after & (key < begin + chunk), begins_before & (key >= begin)
    return (key < prefix) | (ends_after & (begins_before | (key < sinks)))


def attention(
    q, k, v, causal=False, p=15, offset=1.0, score="", sink=None, window=(), alibi_slopes=None
):
    """o of tensors [batch, heads, length, dim], in their dtype. `score`: the library's text; sink,
    alibi_slopes: [heads], where the score function has them."""
    fall = None
    if alibi_slopes is not None:
        rows = torch.arange(q.shape[2], device=q.device)
        fall = alibi(alibi_slopes, rows + k.shape[2] - q.shape[2], k.shape[2])
    k, v = with_all_heads(k, q), with_all_heads(v, q)
    if window:
        sees = keys_in_window(q.shape[2], k.shape[2], causal, window, q.device)
        return weights(q, k, sees.sum(dim=-1), p, offset, score, sink, sees, fall) @ v
    n = visible_keys(q.shape[2], k.shape[2], causal, q.device)
    return weights(q, k, n, p, offset, score, sink, None, fall) @ v


def alibi(slopes, positions, len_k):
    """What is subtracted from scores, [heads, rows, len_k]. positions: of the rows."""
    distance = (positions[:, None] - torch.arange(len_k, device=slopes.device)).abs()
    return slopes[:, None, None] * distance


def with_all_heads(x, q):
    """Keys or values, once for each head of q."""
    return x.repeat_interleave(q.shape[1] // x.shape[1], dim=1)


def weights(q, k, n, p, offset, score, sink, sees=None, fall=None):
    """The weights that o sums values with, [batch, heads, rows, length_k].

    q may be some of the rows. n: how many keys each of these sees, [rows]. sees: which ones, [rows,
    length_k]; None: the first. k has all heads. fall: what ALiBi subtracts from scores.
    """
    fields = score_fields(score or "lssar")
    n = n[:, None]
    if sees is None:
        sees = torch.arange(k.shape[2], device=q.device) < n
    n = n.to(q.dtype)
    s = _score(fields, q, k, n, fall)
    if sink is None:
        prob = _divided(_activation(fields, s, sees), *_normalizer(fields, n))
    else:
        prob = _softmax(s, sees, sink)
    b = torch.where(n <= 3, torch.zeros_like(n), offset)
    if p != 0:
        return _reweighted(torch.relu(n * prob - b), sees, p)
    if fields["psi"] is None:
        return prob
    y = torch.where(sees, _expression.evaluate(fields["psi"], n * prob, b=b, N=n), 0.0)
    return _divided(y, fields["psi_normalizer"], None)


def _score(fields, q, k, n, fall):
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
    score = torch.where(score.isinf(), math.nan, score)
    if fields["soft_cap"] != 0:
        score = fields["soft_cap"] * torch.tanh(score / fields["soft_cap"])
    if fields["alibi"] != "none":
        score = score - fall
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


def _softmax(score, sees, sink):
    """P of phi = exp over a sum with a sink. A row without keys is 0 whatever its sink is."""
    sees_any = sees.any(dim=-1, keepdim=True)
    score = torch.where(sees, score, -math.inf)
    sink = torch.where(sees_any, sink[:, None, None], 0.0).expand(*score.shape[:3], 1)
    prob = torch.softmax(torch.cat([score, sink], dim=-1), dim=-1)[..., :-1]
    return torch.where(sees, prob, 0.0)


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
