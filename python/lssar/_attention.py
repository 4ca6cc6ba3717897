"""lssar.attention: checks its arguments, follows autocast, and calls the operator.

Arguments like those of an earlier call, which were right, are not checked again.
"""

import math

import torch

from . import _launch, _op

MAX_POWER = 64
MAX_HEAD_DIM = 256
_DTYPES = tuple(_launch.DTYPES)


def attention(q, k, v, causal=True, p=15, offset=1.0):
    """LSSAR attention (p = 0: LSSA), differentiable once.

        A_ij = softplus(log(d) log(N_i) cos(q_i, k_j))      N_i: the number of keys row i sees
        P_ij = A_ij / sum_j A_ij
        o_i  = sum_j W_ij v_j / sum_j W_ij                  W_ij = max(N_i P_ij - offset, 0)^p

    Args:
        q: [batch, heads, length_q, d], d a multiple of 8 from 8 to 256; float16, bfloat16 or
            float32; on a CUDA device, or on the CPU (the virtual device: exact and slow).
        k: [batch, kv_heads, length_k, d]; kv_heads divides heads, and query head h reads kv head
            h // (heads // kv_heads).
        v: [batch, kv_heads, length_k, dv], dv as d.
        causal: row i sees keys j < i + 1 + length_k - length_q; else all keys.
        p: the power, 1 to 64; 0 for LSSA.
        offset: of the re-weighting, finite and not negative; taken as 0 in rows with N_i <= 3.

    Returns [batch, heads, length_q, dv] in the dtype of q, laid out in memory as q is: as
    [batch, length, heads, dim] where q is a view of that, else contiguous. Gradients likewise.

    Strides may be anything as long as those of the last dimension are 1; other tensors are copied
    once. Under torch.autocast tensors that are not in the autocast dtype are cast to it.

    Raises TypeError or ValueError, which name the argument, and LssarError.
    """
    if _op.is_plain_call(q, k, v):
        signature = _launch.known_signature(q, k, v, causal, p, offset)
        if signature is not None:
            cast_to = _autocast_dtype(signature.device_type)
            if cast_to is None or cast_to is signature.dtype:
                return _op.attention_by_function(signature, q, k, v)
    return _checked_attention(q, k, v, causal, p, offset)


def _checked_attention(q, k, v, causal, p, offset):
    _check_types(q, k, v, causal, p, offset)
    q, k, v = _follow_autocast(q, k, v)
    _check_tensors(q, k, v)
    # Here, where autograd sees it: the backward then has the copy too.
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    if _op.HAS_OPERATORS and not _op.is_plain_call(q, k, v):
        return _op.attention_by_operator(q, k, v, causal, p, float(offset))
    return _op.attention_by_function(_launch.signature_of(q, k, v, causal, p, offset), q, k, v)


def _check_types(q, k, v, causal, p, offset):
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name}: {type(x).__name__}; must be a torch.Tensor")
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


_NAMES_DEVICE = hasattr(torch, "get_autocast_dtype")  # torch 2.4


def _autocast_dtype(device_type):
    """The dtype that torch.autocast asks for on this kind of device, or None."""
    if _NAMES_DEVICE:
        if torch.is_autocast_enabled(device_type):
            return torch.get_autocast_dtype(device_type)
    elif device_type == "cuda" and torch.is_autocast_enabled():
        return torch.get_autocast_gpu_dtype()
    elif device_type == "cpu" and torch.is_autocast_cpu_enabled():
        return torch.get_autocast_cpu_dtype()
    return None


def _follow_autocast(q, k, v):
    if q.device.type not in ("cpu", "cuda"):
        raise ValueError(f"q: on device '{q.device}'; must be on a CUDA device or the CPU")
    dtype = _autocast_dtype(q.device.type)
    if dtype is None:
        return q, k, v
    return tuple(x.to(dtype) if x.dtype in _DTYPES else x for x in (q, k, v))


def _check_tensors(q, k, v):
    if q.dtype not in _DTYPES:
        raise TypeError(f"q: dtype {q.dtype}; must be torch.float16, bfloat16 or float32")
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dtype != q.dtype:
            raise TypeError(f"{name}: dtype {x.dtype}; must be that of q, {q.dtype}")
        if x.device != q.device:
            raise ValueError(f"{name}: on device '{x.device}'; must be on that of q, '{q.device}'")
        if x.layout != torch.strided:
            raise TypeError(f"{name}: layout {x.layout}; must be torch.strided")
        if x.dim() != 4:
            raise ValueError(
                f"{name}: shape {tuple(x.shape)}; must be [batch, heads, length, dim]"
            )
        dim = x.shape[3]
        if dim % 8 != 0 or not 8 <= dim <= MAX_HEAD_DIM:
            raise ValueError(
                f"{name}: dim {dim}; must be a multiple of 8 from 8 to {MAX_HEAD_DIM}"
            )
        if x.shape[0] != q.shape[0]:
            raise ValueError(f"{name}: batch {x.shape[0]}; must be that of q, {q.shape[0]}")
    if k.shape[3] != q.shape[3]:
        raise ValueError(f"k: dim {k.shape[3]}; must be that of q, {q.shape[3]}")
    if v.shape[1:3] != k.shape[1:3]:
        raise ValueError(
            f"v: heads and length {tuple(v.shape[1:3])}; must be those of k, {tuple(k.shape[1:3])}"
        )
    if k.shape[1] < 1 or q.shape[1] < 1 or q.shape[1] % k.shape[1] != 0:
        raise ValueError(f"k: {k.shape[1]} heads; must divide the heads of q, {q.shape[1]}")
