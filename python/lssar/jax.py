"""LSSAR attention for JAX, through jax.ffi; nothing is compiled against jaxlib.

    import lssar.jax
    o = lssar.jax.attention(q, k, v, causal=True, p=15)

Needs JAX 0.10 or later, and not torch. README.md says what has been tried. The handlers below are
Python functions that XLA calls on threads of its own; on a GPU they enqueue kernels on XLA's stream
and do not wait for them.
"""

import ctypes
import functools
import math
from typing import Optional, Union

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from . import _plans, _rules, _structs, _xla
from ._library import library

__all__ = ["EXPORT_CHECKS", "attention"]

_DTYPES = {
    "float16": _structs.DTYPE_FP16,
    "bfloat16": _structs.DTYPE_BF16,
    "float32": _structs.DTYPE_FP32,
}
_OF_XLA = {10: _structs.DTYPE_FP16, 16: _structs.DTYPE_BF16, 11: _structs.DTYPE_FP32}
_FAST_ALIGNMENT = 16
# Operands and results of each call, in their order. The sink and its gradient come last, because
# most calls leave them out. The buffer _SAVED goes from the forward to the backward.
_SAVED = "saved"
_INPUTS = {
    "forward": ("q", "k", "v", "sink"),
    "forward_train": ("q", "k", "v", "sink"),
    "backward": ("grad_o", "q", "k", "v", _SAVED, "sink"),
}
_OUTPUTS = {
    "forward": ("o",),
    "forward_train": ("o", _SAVED),
    "backward": ("grad_q", "grad_k", "grad_v", "grad_sink"),
}


# jax.export.export(f, disabled_checks=lssar.jax.EXPORT_CHECKS): JAX promises to keep its own custom
# calls working in programs that were exported, and asks whoever has others to say that they will do
# so themselves. We do: what these three take stays as it is within a major version. What runs such a
# program imports lssar.jax first.
EXPORT_CHECKS = tuple(
    jax.export.DisabledSafetyCheck.custom_call(f"lssar_{name}") for name in _INPUTS
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
) -> jax.Array:
    """LSSAR attention (p = 0: LSSA), or that of another score function, differentiable once in
    reverse mode.

    As lssar.attention of the package: q [batch, heads, length_q, d], k [batch, kv_heads, length_k,
    d], v [batch, kv_heads, length_k, dv], all float16, bfloat16 or float32; returns [batch, heads,
    length_q, dv]; with layout="blhd" all are [batch, length, heads, dim], and are transposed. causal,
    p, offset and score are Python values; scale is None. sink is float32 [heads] for a score with
    sink=per_head, and None for others. Under jax.vmap entries go one by one.

    Raises TypeError or ValueError, which name the argument, and LssarError for a score function that is
    wrong; other failures of the library come as XLA's errors when the computation runs.
    """
    score, p = _rules.score_of(score, p)
    q, k, v = (jnp.asarray(x) for x in (q, k, v))
    _rules.check_layout(layout, scale, {"q": q.shape, "k": k.shape, "v": v.shape}, score)
    if layout == "blhd":
        q, k, v = (jnp.swapaxes(x, 1, 2) for x in (q, k, v))
    _check(q, k, v, causal, p, offset)
    sink = _checked_sink(sink, q, score, p, float(offset))
    o = _attention(q, k, v, sink, causal, p, float(offset), score)
    return jnp.swapaxes(o, 1, 2) if layout == "blhd" else o


def _check(q, k, v, causal, p, offset):
    _rules.check_scalars(causal, p, offset)
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dtype.name not in _DTYPES or x.dtype != q.dtype:
            raise TypeError(
                f"{name}: dtype {x.dtype}; must be float16, bfloat16 or float32, and that of q"
            )
    _rules.check_shapes(q.shape, k.shape, v.shape)


def _checked_sink(sink, q, score, p, offset):
    heads, has_sink = q.shape[1], _plans.has_sink(score, p, offset)
    sink = None if sink is None else jnp.asarray(sink)
    _rules.check_sink_is_due(None if sink is None else sink.shape, has_sink, heads, "float32")
    if sink is not None:
        if sink.dtype.name != "float32":
            raise TypeError(f"sink: dtype {sink.dtype}; must be float32")
        _rules.check_sink_shape(sink.shape, heads)
    return sink


# ---- The function and its gradient. The sink is the last operand, where there is one.


def _call(name, results, inputs, causal, p, offset, score):
    call = jax.ffi.ffi_call(f"lssar_{name}", results, vmap_method="sequential")
    # Programs that were exported by versions without score functions have no score.
    others = {"score": score} if score else {}
    return call(
        *inputs, causal=np.int32(causal), p=np.int32(p), offset=np.float64(offset), **others
    )


def _like_o(q, v):
    return jax.ShapeDtypeStruct((*q.shape[:3], v.shape[3]), q.dtype)


def _and(tensors, sink):
    return tensors if sink is None else (*tensors, sink)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5, 6, 7))
def _attention(q, k, v, sink, causal, p, offset, score):
    return _call("forward", _like_o(q, v), _and((q, k, v), sink), causal, p, offset, score)


def _forward(q, k, v, sink, causal, p, offset, score):
    per_row = _plans.saved_floats_per_row(q.dtype == jnp.float32, v.shape[3], p, offset)
    saved = jax.ShapeDtypeStruct((math.prod(q.shape[:3]) * per_row,), jnp.float32)
    results = (_like_o(q, v), saved)
    inputs = _and((q, k, v), sink)
    o, saved = _call("forward_train", results, inputs, causal, p, offset, score)
    return o, (q, k, v, saved, sink)


def _backward(causal, p, offset, score, kept, grad_o):
    q, k, v, saved, sink = kept
    results = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in _and((q, k, v), sink))
    inputs = _and((grad_o, q, k, v, saved), sink)
    grads = _call("backward", results, inputs, causal, p, offset, score)
    return (*grads[:3], None if sink is None else grads[3])


_attention.defvjp(_forward, _backward)


# ---- Handlers: what XLA calls when the computation runs


def _tensor(buffer):
    address, _, (_, heads, length, dim) = buffer
    return _structs.Tensor(address, (heads * length * dim, length * dim, dim))


def _plan(frame, name, device_type, tensors, sizes):
    """The prepared plan of a call. `tensors`: buffers by their names in lssar_call."""
    _, dtype, (*_, head_dim) = tensors["q"]
    head_dim_v = tensors["v"][2][3]
    causal, p = (bool(frame.scalar(b"causal", ctypes.c_int32)), frame.scalar(b"p", ctypes.c_int32))
    offset, score = frame.scalar(b"offset", ctypes.c_double), frame.string(b"score")
    bits = 0
    for address, _, _ in tensors.values():
        bits |= address
    alignment = 0 if bits % _FAST_ALIGNMENT else _FAST_ALIGNMENT
    dims = (head_dim, head_dim_v, sizes.heads, sizes.kv_heads)
    problem = (_OF_XLA[dtype], *dims, causal, p, offset, score)
    ordinal = frame.device_ordinal() if device_type == "cuda" else 0
    plan = _plans.plan(device_type, ordinal, (name != "forward", *problem, alignment))
    plan.prepare()
    return plan


def _execute(frame, name, device_type):
    tensors = dict(zip(_INPUTS[name], frame.arguments()))
    tensors |= dict(zip(_OUTPUTS[name], frame.results()))
    vectors = {n: tensors.pop(n)[0] for n in (_SAVED, "sink", "grad_sink") if n in tensors}
    batch, heads, seq_q, _ = tensors["q"][2]
    _, kv_heads, seq_k, _ = tensors["k"][2]
    sizes = _structs.Sizes(batch, heads, kv_heads, seq_q, seq_k)
    plan = _plan(frame, name, device_type, tensors, sizes)
    call = _structs.sized(_structs.Call, sizes=sizes)
    for field, buffer in tensors.items():
        setattr(call, field, _tensor(buffer))
    call.sink, call.grad_sink = vectors.get("sink"), vectors.get("grad_sink")
    *saved, workspace = plan.needs((batch, heads, kv_heads, seq_q, seq_k))
    if _SAVED in vectors:
        at = vectors[_SAVED]
        call.saved_o, call.saved_stats, call.saved_x = at, at + saved[0], at + saved[0] + saved[1]
    call.workspace_bytes = workspace
    execute = getattr(library(), f"execute_{name}")
    if device_type == "cpu":
        memory = np.empty(workspace + _FAST_ALIGNMENT, np.uint8)
        call.workspace = memory.ctypes.data + -memory.ctypes.data % _FAST_ALIGNMENT
        library().check(execute(plan.handle, ctypes.byref(call)))
        return
    call.stream = frame.stream()
    call.workspace = frame.allocate(workspace) if workspace else None
    try:
        library().check(execute(plan.handle, ctypes.byref(call)))
    finally:
        if workspace:
            frame.free(call.workspace, workspace)


def _handler(name, device_type):
    @_xla.Handler
    def handle(address):
        frame = _xla.Frame(address)
        try:
            if not frame.answer_metadata() and frame.is_execution:
                _execute(frame, name, device_type)
        except Exception as error:  # noqa: BLE001: nothing may leave a function that C calls
            return frame.error(f"lssar: {error}")
        return None

    return handle


_handlers = []  # as long as the process lives


def _register():
    for name in _INPUTS:
        for device_type, platform in (("cpu", "cpu"), ("cuda", "CUDA")):
            handler = _handler(name, device_type)
            _handlers.append(handler)
            address = ctypes.cast(handler, ctypes.c_void_p).value
            jax.ffi.register_ffi_target(f"lssar_{name}", jax.ffi.pycapsule(address), platform)


_register()  # now: programs that were exported name the handlers without calling attention
