"""LSSAR attention in plain torch operations, from the definition (docs/math.md).

lssar.attention takes it for float64 tensors, and the tests compare the kernels with it. It can be
differentiated any number of times, forward and reverse, and needs memory quadratic in the length.
"""

import math

import torch

DEAD_ROW = 2.0**-16


def _direction(x):
    """x / |x|, and 0 for zero vectors, whose derivatives are 0 too."""
    square = (x * x).sum(dim=-1, keepdim=True)
    is_vector = square > 1e-24
    return torch.where(is_vector, x * torch.where(is_vector, square, 1.0).rsqrt(), 0.0)


def visible_keys(len_q, len_k, causal, device=None):
    """N_i of the queries, [len_q]."""
    if not causal:
        return torch.full((len_q,), len_k, device=device)
    return (torch.arange(len_q, device=device) + 1 + len_k - len_q).clamp(0, len_k)


def attention(q, k, v, causal=False, p=15, offset=1.0):
    """o of tensors [batch, heads, length, dim], in their dtype."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    len_q, len_k = q.shape[2], k.shape[2]
    n = visible_keys(len_q, len_k, causal, q.device)[:, None]
    sees = torch.arange(len_k, device=q.device) < n
    n = n.to(q.dtype)
    scale = math.log(q.shape[-1]) * torch.log(n.clamp(min=1))
    score = scale * (_direction(q) @ _direction(k).transpose(-1, -2))
    activation = torch.where(sees, torch.logaddexp(score, torch.zeros_like(score)), 0.0)
    prob = activation / activation.sum(dim=-1, keepdim=True).clamp(min=1e-300)
    if p == 0:
        return prob @ v
    excess = torch.relu(n * prob - torch.where(n <= 3, torch.zeros_like(n), offset))
    excess = torch.where(sees, excess, 0.0)
    # The weights do not depend on what they are divided by: no derivative goes through it.
    with_zero = torch.nn.functional.pad(excess.detach(), (0, 1))  # there may be no keys
    largest = with_zero.amax(dim=-1, keepdim=True)
    alive = largest > DEAD_ROW
    weight = (excess / torch.where(alive, largest, 1.0)) ** p
    total = weight.sum(dim=-1, keepdim=True)
    weight = torch.where(alive, weight / torch.where(alive, total, 1.0), 0.0)
    return weight @ v
