"""Attention written plainly from the definition (docs/math.md), in torch.

`lssar` is both what is timed as PyTorch's own LSSAR, in the inputs' dtype with float32 in between,
and, in float64, what all results are compared with. Lq = Lk, as many kv heads as heads.
"""

import math

import torch

DEAD_ROW = 2.0**-16
ZERO_NORM = 1e-12


def directions(x, wide):
    """x / |x|; the zero vector where the norm is (almost) 0."""
    x = x.to(wide)
    norm = x.norm(dim=-1, keepdim=True)
    return torch.where(norm > ZERO_NORM, x / norm.clamp(min=ZERO_NORM), 0.0)


def visible_keys(num_queries, num_keys, first_row, causal, device):
    """N_i of rows first_row..., and which keys they see (None: all)."""
    rows = torch.arange(first_row, first_row + num_queries, device=device)
    if not causal:
        return torch.full_like(rows, num_keys), None
    return rows + 1, torch.arange(num_keys, device=device) <= rows[:, None]


def lssar(q, k, v, causal, p, offset, first_row=0, wide=torch.float32):
    """o of the rows first_row... of q. Products in q's dtype, the rest in `wide`."""
    num_visible, mask = visible_keys(q.shape[-2], k.shape[-2], first_row, causal, q.device)
    n = num_visible.to(wide)[:, None]
    scale = math.log(q.shape[-1]) * torch.log(n)
    cosine = directions(q, wide).to(q.dtype) @ directions(k, wide).to(k.dtype).transpose(-1, -2)
    activation = torch.nn.functional.softplus(scale * cosine.to(wide), threshold=1000.0)
    if mask is not None:
        activation = torch.where(mask, activation, 0.0)
    prob = activation / activation.sum(dim=-1, keepdim=True)
    if p == 0:
        return prob.to(v.dtype) @ v
    excess = torch.relu(n * prob - torch.where(n <= 3, 0.0, offset))
    # U^p leaves float32 at U = 370 (p = 15). A factor per row changes nothing in W / sum W.
    largest = excess.detach().amax(dim=-1, keepdim=True)
    alive = ~(largest <= DEAD_ROW)
    weight = (excess / torch.where(alive, largest, 1.0)) ** p
    weight = weight / torch.where(alive, weight.sum(dim=-1, keepdim=True), 1.0)
    return torch.where(alive, weight, 0.0).to(v.dtype) @ v


def softmax(q, k, v, causal, first_row=0):
    """Rows first_row... of softmax attention, in the inputs' dtype."""
    _, mask = visible_keys(q.shape[-2], k.shape[-2], first_row, causal, q.device)
    score = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if mask is not None:
        score = torch.where(mask, score, -math.inf)
    return torch.softmax(score, dim=-1) @ v


def in_float64(attention, inputs, batch, head, rows_at_a_time):
    """o, dq, dk and dv of one head, each [length, dim] in float64.

    `attention(q, k, v, first_row)` computes rows; `inputs` has q, k, v and grad_o. A block of rows
    at a time: what autograd keeps of one block is all that is quadratic.
    """
    q, k, v, grad_o = (inputs[name][batch, head].double() for name in ("q", "k", "v", "grad_o"))
    k.requires_grad_()
    v.requires_grad_()
    o, dq = torch.empty_like(q), torch.empty_like(q)
    dk, dv = torch.zeros_like(k), torch.zeros_like(v)
    for first in range(0, q.shape[0], rows_at_a_time):
        rows = slice(first, min(first + rows_at_a_time, q.shape[0]))
        block = q[rows].detach().requires_grad_()
        o_block = attention(block, k, v, first)
        grads = torch.autograd.grad(o_block, (block, k, v), grad_o[rows])
        o[rows] = o_block.detach()
        dq[rows] = grads[0]
        dk += grads[1]
        dv += grads[2]
    return {"o": o, "dq": dq, "dk": dk, "dv": dv}


def relative_error(value, reference):
    """|value - reference| / |reference| in L2 norms. 0 where both are 0; NaN stays NaN."""
    error = (value.double() - reference).norm().item()
    norm = reference.norm().item()
    if error == 0.0:
        return 0.0
    return error / norm if norm != 0.0 else math.inf


def make_inputs(kind, shape, dtype, causal, seed, device, num_queries=None, kv_heads=None):
    """q, k, v, grad_o of `shape` [batch, heads, length, dim]. `num_queries`: the length of q and
    grad_o, where it is another. `kv_heads`: the heads of k and v, likewise, of Gaussian inputs.

    "gauss": all Gaussian. "peaky": every query points at a key that its row sees, with a tenth of
    noise, so that few keys have weight.
    """
    generator = torch.Generator(device=device).manual_seed(seed)

    def gauss(heads):
        own = (shape[0], heads, *shape[2:])
        return torch.randn(own, generator=generator, device=device)

    q, k, v, grad_o = (gauss(n or shape[1]) for n in (None, kv_heads, kv_heads, None))
    if kind == "peaky":
        length = shape[2]
        uniform = torch.rand(shape[:3], generator=generator, device=device)
        seen = torch.arange(1, length + 1, device=device) if causal else length
        picked = (uniform * seen).long().clamp(max=length - 1)
        q = 3.0 * (k.gather(2, picked[..., None].expand(shape)) + 0.1 * q)
    elif kind != "gauss":
        raise ValueError(f"data '{kind}': gauss or peaky")
    if num_queries:
        q, grad_o = (x[:, :, :num_queries].contiguous() for x in (q, grad_o))
    named = {"q": q, "k": k, "v": v, "grad_o": grad_o}
    return {name: tensor.to(dtype) for name, tensor in named.items()}
