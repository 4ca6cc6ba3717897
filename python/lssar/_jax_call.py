"""Handlers of calls for XLA: what jax, _jax_varlen and _jax_kv_cache share. Needs JAX, and not torch.

Handlers are Python functions that XLA calls on threads of its own; on a GPU they enqueue kernels on
XLA's stream and do not wait for them.
"""

import ctypes

import jax
import jax.numpy as jnp
import numpy as np

from . import _plans, _rules, _structs, _xla
from ._library import library

DTYPES = {
    "float16": _structs.DTYPE_FP16,
    "bfloat16": _structs.DTYPE_BF16,
    "float32": _structs.DTYPE_FP32,
}
_OF_XLA = {10: _structs.DTYPE_FP16, 16: _structs.DTYPE_BF16, 11: _structs.DTYPE_FP32}
_FAST_ALIGNMENT = 16


def and_sink(tensors, sink):
    """The sink is the last operand, where there is one."""
    return tensors if sink is None else (*tensors, sink)


def check_dtypes(q, k, v, names=_rules.NAMES):
    if q.dtype.name not in DTYPES:
        raise TypeError(f"q: dtype {q.dtype}; must be float16, bfloat16 or float32")
    for name, x in zip(names[1:], (k, v)):
        if x.dtype != q.dtype:
            raise TypeError(f"{name}: dtype {x.dtype}; must be that of q, {q.dtype}")


def _checked_per_head(name, field, x, is_due, heads):
    x = None if x is None else jnp.asarray(x)
    _rules.check_is_due(name, field, None if x is None else x.shape, is_due, heads, "float32")
    if x is not None:
        if x.dtype.name != "float32":
            raise TypeError(f"{name}: dtype {x.dtype}; must be float32")
        _rules.check_per_head(name, x.shape, heads)
    return x


def checked_sink(sink, heads, score, p, offset):
    return _checked_per_head("sink", "sink", sink, _plans.has_sink(score, p, offset), heads)


def checked_slopes(slopes, heads, score):
    """The slopes of ALiBi, whose gradient is 0, or None."""
    is_due = _plans.has_alibi(score)
    slopes = _checked_per_head("alibi_slopes", "alibi", slopes, is_due, heads)
    return None if slopes is None else jax.lax.stop_gradient(slopes)


def checked_rotary(cos, sin, interleaved, head_dim):
    """The tables, whose gradient is 0, or None."""
    _rules.flag("rotary_interleaved", interleaved)
    if cos is None and sin is None and not interleaved:
        return None
    for name, x in (("rotary_cos", cos), ("rotary_sin", sin)):
        if x is None:
            raise TypeError(
                f"{name}: None; must be an array, as the other table is, or rotary_interleaved is, given"
            )
    cos, sin = jnp.asarray(cos), jnp.asarray(sin)
    for name, x in (("rotary_cos", cos), ("rotary_sin", sin)):
        if x.dtype.name != "float32":
            raise TypeError(f"{name}: dtype {x.dtype}; must be float32")
    _rules.check_rotary_shapes(cos.shape, sin.shape, head_dim)
    return jax.lax.stop_gradient((cos, sin))


def later_attributes(window, invariant, rotary_interleaved=None):
    """What a call says of its window, whether it is invariant, and of its rotary positions (None:
    none). Programs that were exported by versions without them say nothing, and so do calls without
    them."""
    attributes = {"window": ",".join(str(number) for number in window)} if window else {}
    if rotary_interleaved is not None:
        attributes["rotary_interleaved"] = np.int32(rotary_interleaved)
    return attributes | ({"invariant": np.int32(1)} if invariant else {})


def set_rotary(call, cos, sin):
    """From the buffers of both tables."""
    call.rotary_cos, call.rotary_sin, call.rotary_positions = cos[0], sin[0], cos[2][0]


def plan_of(frame, is_training, device_type, tensors, sizes, varlen=False, rotary_dim=0):
    """The prepared plan of a call. `tensors`: buffers by their names in lssar_call. `varlen`: whether
    it is a call of sequences."""
    _, dtype, (*_, head_dim) = tensors["q"]
    head_dim_v = tensors["v"][2][-1]
    causal, p = (bool(frame.scalar(b"causal", ctypes.c_int32)), frame.scalar(b"p", ctypes.c_int32))
    offset, score = frame.scalar(b"offset", ctypes.c_double), frame.string(b"score")
    window = tuple(int(number) for number in frame.string(b"window").split(",") if number)
    invariant = bool(frame.scalar(b"invariant", ctypes.c_int32, 0))
    bits = 0
    for address, _, _ in tensors.values():
        bits |= address
    alignment = 0 if bits % _FAST_ALIGNMENT else _FAST_ALIGNMENT
    dims = (head_dim, head_dim_v, sizes.heads, sizes.kv_heads)
    problem = (_OF_XLA[dtype], *dims, causal, p, offset, score)
    ordinal = frame.device_ordinal() if device_type == "cuda" else 0
    key = (is_training, *problem, alignment)
    if varlen or window or invariant or rotary_dim:
        key += (varlen, window, invariant)
    if rotary_dim:
        key += (rotary_dim, bool(frame.scalar(b"rotary_interleaved", ctypes.c_int32)))
    has_few_kernels = not is_training and not invariant
    few = _plans.few_queries(sizes.seq_q, sizes.seq_k) if has_few_kernels else 0
    plan = _plans.plan(device_type, ordinal, key, few)
    plan.prepare()
    return plan


def set_saved(call, at, saved):
    """`saved`: bytes of its parts, which lie one behind the other from the address `at` on."""
    call.saved_o, call.saved_stats, call.saved_x = at, at + saved[0], at + saved[0] + saved[1]


def execute(frame, name, device_type, plan, call, workspace, check):
    """Runs the pass `name`. `workspace`: its bytes; `check`: of the call's status."""
    call.workspace_bytes = workspace
    function = getattr(library(), f"execute_{name}")
    if device_type == "cpu":
        memory = np.empty(workspace + _FAST_ALIGNMENT, np.uint8)
        call.workspace = memory.ctypes.data + -memory.ctypes.data % _FAST_ALIGNMENT
        check(function(plan.handle, ctypes.byref(call)))
        return
    call.stream = frame.stream()
    call.workspace = frame.allocate(workspace) if workspace else None
    try:
        check(function(plan.handle, ctypes.byref(call)))
    finally:
        if workspace:
            frame.free(call.workspace, workspace)


def _handler(act, name, device_type):
    @_xla.Handler
    def handle(address):
        frame = _xla.Frame(address)
        try:
            if not frame.answer_metadata() and frame.is_execution:
                act(frame, name, device_type)
        except Exception as error:  # noqa: BLE001: nothing may leave a function that C calls
            return frame.error(f"lssar: {error}")
        return None

    return handle


_handlers = []  # as long as the process lives


def register(prefix, names, act):
    """Makes act(frame, name, device_type) what XLA calls as prefix + name, for each of the names."""
    for name in names:
        for device_type, platform in (("cpu", "cpu"), ("cuda", "CUDA")):
            handler = _handler(act, name, device_type)
            _handlers.append(handler)
            address = ctypes.cast(handler, ctypes.c_void_p).value
            jax.ffi.register_ffi_target(prefix + name, jax.ffi.pycapsule(address), platform)
