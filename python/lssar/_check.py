"""What arguments lssar.attention and the operators torch.ops.lssar take: one set of rules.

Used by _attention and _op; _launch asks before it takes an address. Sizes may be symbolic.
"""

import math

import torch

MAX_POWER = 64
MAX_HEAD_DIM = 256
KERNEL_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
DEVICES = ("cpu", "cuda", "meta")

try:
    from torch.fx.experimental.symbolic_shapes import guard_or_false as _is_surely
except ImportError:  # before torch 2.7
    _is_surely = bool


def check_scalars(causal, p, offset):
    if not isinstance(causal, bool):
        raise TypeError(f"causal: {causal!r}; must be True or False")
    if not isinstance(p, int) or isinstance(p, bool):
        raise TypeError(f"p: {p!r}; must be an int from 0 to {MAX_POWER}")
    if not 0 <= p <= MAX_POWER:
        raise ValueError(f"p: {p}; must be from 1 to {MAX_POWER}, or 0 for LSSA")
    if not isinstance(offset, (int, float)) or isinstance(offset, bool):
        raise TypeError(f"offset: {offset!r}; must be a number")
    if not 0 <= offset < math.inf:  # a NaN is not
        raise ValueError(f"offset: {offset}; must be finite and not negative")


def _refuse(condition, message):
    """Raises ValueError(message()) where the condition holds. A symbolic one that cannot be decided
    while a graph is traced is decided by the kernels' own check, when the graph runs."""
    if condition is True or condition is not False and _is_surely(condition):
        raise ValueError(message())


def check_device(q):
    if q.device.type not in DEVICES:
        raise ValueError(f"q: on device '{q.device}'; must be on a CUDA device or the CPU")


def _check_like_q(name, x, q):
    if x.dtype != q.dtype:
        raise TypeError(f"{name}: dtype {x.dtype}; must be that of q, {q.dtype}")
    if x.device != q.device:
        raise ValueError(f"{name}: on device '{x.device}'; must be on that of q, '{q.device}'")
    if x.layout != torch.strided:
        raise TypeError(f"{name}: layout {x.layout}; must be torch.strided")
    if x.is_nested:
        raise TypeError(f"{name}: a nested tensor; must be one of [batch, heads, length, dim]")


def check_tensors(q, k, v, dtypes=KERNEL_DTYPES):
    check_device(q)
    if q.dtype not in dtypes:
        names = ", ".join(str(x) for x in dtypes)
        raise TypeError(f"q: dtype {q.dtype}; must be one of {names}")
    for name, x in (("q", q), ("k", k), ("v", v)):
        _check_like_q(name, x, q)
        if x.dim() != 4:
            raise ValueError(
                f"{name}: shape {tuple(x.shape)}; must be [batch, heads, length, dim]"
            )
        dim, batch = x.shape[3], x.shape[0]
        _refuse(
            dim % 8 != 0 or dim < 8 or dim > MAX_HEAD_DIM,
            lambda: f"{name}: dim {dim}; must be a multiple of 8 from 8 to {MAX_HEAD_DIM}",  # noqa: B023
        )
        _refuse(
            batch != q.shape[0],
            lambda: f"{name}: batch {batch}; must be that of q, {q.shape[0]}",  # noqa: B023
        )
    _refuse(
        k.shape[3] != q.shape[3], lambda: f"k: dim {k.shape[3]}; must be that of q, {q.shape[3]}"
    )
    for i in (1, 2):
        _refuse(
            v.shape[i] != k.shape[i],
            lambda: f"v: heads and length {tuple(v.shape[1:3])}; must be those of k, "
            f"{tuple(k.shape[1:3])}",
        )
    heads, kv_heads = q.shape[1], k.shape[1]
    _refuse(
        kv_heads < 1 or heads < 1 or heads % kv_heads != 0,
        lambda: f"k: {kv_heads} heads; must divide the heads of q, {heads}",
    )


def check_operator(q, k, v, causal, p, offset, layout):
    """The arguments of torch.ops.lssar.*, which any code may call."""
    check_scalars(causal, p, offset)
    if not 0 <= layout < 8:
        raise ValueError(f"layout: {layout}; must be from 0 to 7: a bit each for q, k and v")
    check_tensors(q, k, v)


def check_backward(grad_o, q, k, v, saved, saved_shapes):
    """What the backward takes beyond the forward's arguments. `saved_shapes` as `saved`: of
    forward_train's results behind o."""
    _check_like_q("grad_o", grad_o, q)
    dtypes = (torch.float32, torch.float32, q.dtype)
    names = ("grad_o", "saved_o", "saved_stats", "saved_x")
    wanted = ((*q.shape[:3], v.shape[3]), *saved_shapes)
    for name, x, shape in zip(names, (grad_o, *saved), wanted):
        _refuse(
            x.dim() != len(shape) or any(_is_surely(a != b) for a, b in zip(x.shape, shape)),
            lambda: f"{name}: shape {tuple(x.shape)}; must be {tuple(shape)}",  # noqa: B023
        )
    for name, x, dtype in zip(names[1:], saved, dtypes):
        if x.dtype != dtype:
            raise TypeError(f"{name}: dtype {x.dtype}; must be {dtype}")
        if x.device != q.device:
            raise ValueError(f"{name}: on device '{x.device}'; must be on that of q, '{q.device}'")
