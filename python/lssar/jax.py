"""LSSAR attention for JAX, through jax.ffi; nothing is compiled against jaxlib.

    import lssar.jax
    o = lssar.jax.attention(q, k, v, causal=True, p=15)

Needs JAX 0.10 or later, and not torch. README.md says what has been tried.
"""

import ctypes
import functools
import math
from typing import Optional, Tuple, Union

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from . import _jax_call, _jax_kv_cache, _jax_varlen, _plans, _rules, _structs
from ._jax_kv_cache import attention_with_kv_cache
from ._jax_varlen import varlen_attention
from ._library import library

__all__ = ["EXPORT_CHECKS", "attention", "attention_with_kv_cache", "varlen_attention"]

# Operands and results of each call, in their order. The sink and its gradient come last, because
# most calls leave them out. Behind them are the slopes of ALiBi, where the call has the attribute
# alibi, and the tables of rotary positions, where it has rotary_interleaved. The buffer _SAVED goes
# from the forward to the backward.
_SAVED = "saved"
_INPUTS = {
    "forward": ("q", "k", "v", "sink"),
    "forward_train": ("q", "k", "v", "sink"),
    "backward": ("grad_o", "q", "k", "v", "o", _SAVED, "sink"),
}
_OUTPUTS = {
    "forward": ("o",),
    "forward_train": ("o", _SAVED),
    "backward": ("grad_q", "grad_k", "grad_v", "grad_sink"),
}


# jax.export.export(f, disabled_checks=lssar.jax.EXPORT_CHECKS): JAX promises to keep its own custom
# calls working in programs that were exported, and asks whoever has others to say that they will do
# so themselves. We do: what these take stays as it is within a major version. What runs such a
# program imports lssar.jax first.
EXPORT_CHECKS = tuple(
    jax.export.DisabledSafetyCheck.custom_call(prefix + name)
    for prefix, names in (
        ("lssar_", _INPUTS),
        (_jax_varlen.PREFIX, _jax_varlen.INPUTS),
        (_jax_kv_cache.PREFIX, _jax_kv_cache.INPUTS),
    )
    for name in names
)


def attention(
    q: "jax.typing.ArrayLike",
    k: "jax.typing.ArrayLike",
    v: "jax.typing.ArrayLike",
    causal: bool = False,
    p: Optional[int] = None,
    offset: float = 1.0,
    layout: str = "bhld",
    scale: Optional[float] = None,
    score: "Union[str, _rules.Score, None]" = None,
    sink: "Optional[jax.typing.ArrayLike]" = None,
    window_size: Tuple[int, int] = (-1, -1),
    window_sinks: int = 0,
    prefix: int = 0,
    chunk: int = 0,
    invariant: bool = False,
    rotary_cos: "Optional[jax.typing.ArrayLike]" = None,
    rotary_sin: "Optional[jax.typing.ArrayLike]" = None,
    rotary_interleaved: bool = False,
    alibi_slopes: "Optional[jax.typing.ArrayLike]" = None,
) -> jax.Array:
    """LSSAR attention (p = 0: LSSA), or that of another score function, differentiable once in
    reverse mode.

    As lssar.attention of the package: q [batch, heads, length_q, d], k [batch, kv_heads, length_k,
    d], v [batch, kv_heads, length_k, dv], all float16, bfloat16 or float32; returns [batch, heads,
    length_q, dv]; with layout="blhd" all are [batch, length, heads, dim], and are transposed. causal,
    p, offset, score, window_size, window_sinks, prefix, chunk and invariant are Python values; scale
    is None. sink is float32 [heads] for a score with sink=per_head, and None for others. rotary_cos
    and rotary_sin are float32 [positions, rotary_dim / 2], with a row for each key or more, and may be
    traced. They are not differentiated: as behind jax.lax.stop_gradient. rotary_interleaved is a Python
    value. alibi_slopes is float32 [heads] for a score with alibi=per_head, and None for others; it may
    be traced, and is not differentiated. Under jax.vmap entries go one by one.

    Raises TypeError or ValueError, which name the argument, and LssarError for a score function that is
    wrong; other failures of the library come as XLA's errors when the computation runs.
    """
    score, p = _rules.score_of(score, p)
    q, k, v = (jnp.asarray(x) for x in (q, k, v))
    _rules.check_layout(layout, scale, {"q": q.shape, "k": k.shape, "v": v.shape}, score)
    if layout == "blhd":
        q, k, v = (jnp.swapaxes(x, 1, 2) for x in (q, k, v))
    _check(q, k, v, causal, p, offset)
    window = _rules.window_of(window_size, window_sinks, prefix, chunk)
    sink = _jax_call.checked_sink(sink, q.shape[1], score, p, float(offset))
    slopes = _jax_call.checked_slopes(alibi_slopes, q.shape[1], score)
    invariant = _rules.flag("invariant", invariant)
    rotary = _jax_call.checked_rotary(rotary_cos, rotary_sin, rotary_interleaved, q.shape[3])
    if rotary is not None:
        sizes = (rotary[0].shape[0], q.shape[2], k.shape[2])
        if all(isinstance(size, int) for size in sizes):  # else the call checks them
            _rules.check_rotary_lengths(*sizes)
    interleaved = rotary_interleaved if rotary is not None else None
    options = (causal, p, float(offset), score, window, invariant, interleaved)
    o = _attention(q, k, v, sink, (slopes, rotary), options)
    return jnp.swapaxes(o, 1, 2) if layout == "blhd" else o


def _check(q, k, v, causal, p, offset):
    _rules.check_scalars(causal, p, offset)
    _jax_call.check_dtypes(q, k, v)
    _rules.check_shapes(q.shape, k.shape, v.shape)


# ---- The function and its gradient


# `fixed`: what has no gradient: the slopes of ALiBi and the tables of rotary positions, or None.


def _call(name, results, inputs, sink, fixed, options):
    causal, p, offset, score, window, invariant, interleaved = options
    slopes, rotary = fixed
    call = jax.ffi.ffi_call(f"lssar_{name}", results, vmap_method="sequential")
    # Programs that were exported by versions without score functions have no score.
    others = {"score": score} if score else {}
    others |= _jax_call.later_attributes(window, invariant, interleaved)
    others |= {} if slopes is None else {"alibi": np.int32(1)}
    operands = [*_jax_call.and_sink(inputs, sink)]
    operands += [] if slopes is None else [slopes]
    operands += rotary or ()
    return call(
        *operands, causal=np.int32(causal), p=np.int32(p), offset=np.float64(offset), **others
    )


def _like_o(q, v):
    return jax.ShapeDtypeStruct((*q.shape[:3], v.shape[3]), q.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def _attention(q, k, v, sink, fixed, options):
    return _call("forward", _like_o(q, v), (q, k, v), sink, fixed, options)


def _forward(q, k, v, sink, fixed, options):
    _, p, offset, *_ = options
    per_row = _plans.saved_words_per_row(q.dtype == jnp.float32, v.shape[3], p, offset)
    saved = jax.ShapeDtypeStruct((math.prod(q.shape[:3]) * per_row,), jnp.float32)
    results = (_like_o(q, v), saved)
    o, saved = _call("forward_train", results, (q, k, v), sink, fixed, options)
    return o, (q, k, v, o, saved, sink, fixed)


def _backward(options, kept, grad_o):
    q, k, v, o, saved, sink, fixed = kept
    tensors = _jax_call.and_sink((q, k, v), sink)
    results = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in tensors)
    grads = _call("backward", results, (grad_o, q, k, v, o, saved), sink, fixed, options)
    return (*grads[:3], None if sink is None else grads[3], None)


_attention.defvjp(_forward, _backward)


# ---- Handlers: what XLA calls when the computation runs


def _tensor(buffer):
    address, _, (_, heads, length, dim) = buffer
    return _structs.Tensor(address, (heads * length * dim, length * dim, dim))


def _execute(frame, name, device_type):
    operands, rotary = frame.arguments(), ()
    if frame.scalar(b"rotary_interleaved", ctypes.c_int32, -1) >= 0:
        *operands, cos, sin = operands
        rotary = (cos, sin)
    slopes = None
    if frame.scalar(b"alibi", ctypes.c_int32, 0):
        *operands, (slopes, _, _) = operands
    tensors = dict(zip(_INPUTS[name], operands))
    tensors |= dict(zip(_OUTPUTS[name], frame.results()))
    vectors = {n: tensors.pop(n)[0] for n in (_SAVED, "sink", "grad_sink") if n in tensors}
    batch, heads, seq_q, _ = tensors["q"][2]
    _, kv_heads, seq_k, _ = tensors["k"][2]
    sizes = _structs.Sizes(batch, heads, kv_heads, seq_q, seq_k)
    rotary_dim = 2 * rotary[0][2][1] if rotary else 0
    plan = _jax_call.plan_of(
        frame, name != "forward", device_type, tensors, sizes, rotary_dim=rotary_dim
    )
    call = _structs.sized(_structs.Call, sizes=sizes)
    if rotary:
        _jax_call.set_rotary(call, *rotary)
    for field, buffer in tensors.items():
        setattr(call, field, _tensor(buffer))
    call.sink, call.grad_sink = vectors.get("sink"), vectors.get("grad_sink")
    call.alibi_slopes = slopes
    *saved, workspace = plan.needs((batch, heads, kv_heads, seq_q, seq_k))
    if _SAVED in vectors:
        _jax_call.set_saved(call, vectors[_SAVED], saved)
    _jax_call.execute(frame, name, device_type, plan, call, workspace, library().check)


# Now: programs that were exported name the handlers without calling attention.
_jax_call.register("lssar_", _INPUTS, _execute)
