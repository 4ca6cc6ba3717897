"""lssar.jax.varlen_attention. Used by jax."""

import ctypes
import functools
from typing import NamedTuple, Optional, Sequence, Tuple, Union

import jax
import jax.numpy as jnp
import numpy as np

from . import _jax_call, _plans, _rules, _structs

PREFIX = "lssar_varlen_"
_SAVED = "saved"
# Operands and results of each call, in their order. Behind these operands come the arrays of lengths
# that the call has, then a sink, slopes of ALiBi and tables of rotary positions if there are any, then
# zeros for results: rows that are in no sequence keep them.
INPUTS = {
    "forward": ("q", "k", "v"),
    "forward_train": ("q", "k", "v"),
    "backward": ("grad_o", "q", "k", "v", "o", _SAVED),
}
_OUTPUTS = {
    "forward": ("o",),
    "forward_train": ("o", _SAVED),
    "backward": ("grad_q", "grad_k", "grad_v", "grad_sink"),
}


class _Lengths(NamedTuple):
    """int32 arrays, or None. The names are those of lssar_call."""

    cu_seqlens_q: jax.Array
    cu_seqlens_k: jax.Array
    seqused_q: Optional[jax.Array]
    seqused_k: Optional[jax.Array]


class _Options(NamedTuple):
    max_q: int
    max_k: int
    causal: bool
    p: int
    offset: float
    score: str
    window: Sequence[int]  # as _rules.window_of says
    invariant: bool
    rotary_interleaved: Optional[bool]  # None: no rotary positions


def varlen_attention(
    q: "jax.typing.ArrayLike",
    k: "jax.typing.ArrayLike",
    v: "jax.typing.ArrayLike",
    cu_seqlens_q: "jax.typing.ArrayLike",
    cu_seqlens_k: "jax.typing.ArrayLike",
    max_seqlen_q: Optional[int] = None,
    max_seqlen_k: Optional[int] = None,
    causal: bool = False,
    p: Optional[int] = None,
    offset: float = 1.0,
    score: "Union[str, _rules.Score, None]" = None,
    sink: "Optional[jax.typing.ArrayLike]" = None,
    seqused_q: "Optional[jax.typing.ArrayLike]" = None,
    seqused_k: "Optional[jax.typing.ArrayLike]" = None,
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
    """lssar.jax.attention over sequences that are packed one after another, differentiable once in
    reverse mode.

    As lssar.varlen_attention of the package: q [total_q, heads, d], k [total_k, kv_heads, d], v
    [total_k, kv_heads, dv], of one dtype; returns [total_q, heads, dv]. cu_seqlens_* [sequences + 1]
    and seqused_* [sequences] are int32 arrays, and may be traced. max_seqlen_* are Python ints: at
    least the length of the longest sequence; None, for any length, costs next to nothing. rotary_* are
    as for lssar.jax.attention, with positions in each sequence; there are as many as max_seqlen_k, or
    as the longest sequence has keys. alibi_slopes is as for lssar.jax.attention, with positions in the
    row's own sequence. Rows that are in no sequence, and their gradients, are 0.

    Raises TypeError or ValueError, which name the argument, and LssarError for a score function that
    is wrong. Wrong lengths come as XLA's errors when the computation runs; on a GPU they give 0.
    """
    score, p = _rules.score_of(score, p)
    q, k, v = (jnp.asarray(x) for x in (q, k, v))
    _rules.check_scalars(causal, p, offset)
    _check(q, k, v)
    lengths = _checked_lengths(cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k)
    sink = _jax_call.checked_sink(sink, q.shape[1], score, p, float(offset))
    slopes = _jax_call.checked_slopes(alibi_slopes, q.shape[1], score)
    rotary = _jax_call.checked_rotary(rotary_cos, rotary_sin, rotary_interleaved, q.shape[2])
    most = [
        _rules.longest(name, given, x.shape[0])
        for name, given, x in (("max_seqlen_q", max_seqlen_q, q), ("max_seqlen_k", max_seqlen_k, k))
    ]
    window = _rules.window_of(window_size, window_sinks, prefix, chunk)
    invariant = _rules.flag("invariant", invariant)
    if rotary is not None and max_seqlen_k is None:
        most[1] = min(most[1], rotary[0].shape[0])  # sequences that have positions
    elif rotary is not None:
        _rules.check_rotary_sequences(rotary[0].shape[0], most[1])
    interleaved = rotary_interleaved if rotary is not None else None
    options = _Options(*most, causal, p, float(offset), score, window, invariant, interleaved)
    return _attention(q, k, v, sink, (slopes, rotary), lengths, options)


def _check(q, k, v):
    _jax_call.check_dtypes(q, k, v)
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 3:
            raise ValueError(f"{name}: shape {x.shape}; must be [total, heads, dim]")
    _rules.check_shapes(*((1, x.shape[1], x.shape[0], x.shape[2]) for x in (q, k, v)))


def _checked_lengths(*arrays):
    given = _Lengths(*(None if x is None else jnp.asarray(x) for x in arrays))
    for name, x in zip(_Lengths._fields[:2], given):
        if x is None or x.ndim != 1 or x.shape[0] == 0:
            what = "None" if x is None else f"shape {x.shape}"
            raise ValueError(f"{name}: {what}; must be int32 [sequences + 1]")
    count = given.cu_seqlens_q.shape[0]
    for name, x, size in zip(_Lengths._fields, given, (count, count, count - 1, count - 1)):
        if x is not None and x.dtype.name != "int32":
            raise TypeError(f"{name}: dtype {x.dtype}; must be int32")
        if x is not None and x.shape != (size,):
            raise ValueError(f"{name}: shape {x.shape}; must be {(size,)}")
    return given


# ---- The function and its gradient


def _call(name, results, inputs, lengths, sink, fixed, options, zeros):
    """`fixed`: what has no gradient: the slopes of ALiBi and the tables of rotary positions, or None.
    `zeros`: how many of the first results begin as zeros."""
    slopes, rotary = fixed
    cos, sin = rotary or (None, None)
    named = {**lengths._asdict(), "sink": sink, "alibi_slopes": slopes}
    named |= {"rotary_cos": cos, "rotary_sin": sin}
    more = {n: x for n, x in named.items() if x is not None}
    operands = [*inputs, *more.values()]
    aliases = {len(operands) + i: i for i in range(zeros)}
    operands += [jnp.zeros(x.shape, x.dtype) for x in results[:zeros]]
    call = jax.ffi.ffi_call(
        PREFIX + name, results, vmap_method="sequential", input_output_aliases=aliases
    )
    return call(
        *operands,
        present=",".join(more),
        max_q=np.int64(options.max_q),
        max_k=np.int64(options.max_k),
        causal=np.int32(options.causal),
        p=np.int32(options.p),
        offset=np.float64(options.offset),
        score=options.score,
        **_jax_call.later_attributes(*options[-3:]),
    )


def _like_o(q, v):
    return jax.ShapeDtypeStruct((*q.shape[:2], v.shape[2]), q.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(6,))
def _attention(q, k, v, sink, fixed, lengths, options):
    more = (lengths, sink, fixed, options)
    return _call("forward", (_like_o(q, v),), (q, k, v), *more, zeros=1)[0]


def _forward(q, k, v, sink, fixed, lengths, options):
    is_float32 = q.dtype == jnp.float32
    per_row = _plans.saved_words_per_row(is_float32, v.shape[2], options.p, options.offset)
    saved = jax.ShapeDtypeStruct((q.shape[0] * q.shape[1] * per_row,), jnp.float32)
    results = (_like_o(q, v), saved)
    more = (lengths, sink, fixed, options)
    o, saved = _call("forward_train", results, (q, k, v), *more, zeros=1)
    return o, (q, k, v, o, saved, sink, fixed, lengths)


def _backward(options, kept, grad_o):
    q, k, v, o, saved, sink, fixed, lengths = kept
    tensors = _jax_call.and_sink((q, k, v), sink)
    results = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in tensors)
    inputs = (grad_o, q, k, v, o, saved)
    grads = _call("backward", results, inputs, lengths, sink, fixed, options, zeros=3)
    return (*grads[:3], None if sink is None else grads[3], None, None)


_attention.defvjp(_forward, _backward)


# ---- The handlers


def _tensor(buffer):
    address, _, (_, heads, dim) = buffer
    return _structs.Tensor(address, (0, dim, heads * dim))


def _execute(frame, name, device_type):
    present = frame.string(b"present").split(",")
    operands = dict(zip((*INPUTS[name], *present), frame.arguments()))
    operands |= dict(zip(_OUTPUTS[name], frame.results()))
    tables = [operands.pop(n) for n in ("rotary_cos", "rotary_sin") if n in operands]
    vectors = {n: operands.pop(n)[0] for n in (*present, _SAVED, "grad_sink") if n in operands}
    batch = frame.arguments()[len(INPUTS[name])][2][0] - 1  # of cu_seqlens_q, which every call has
    total_q, heads, _ = operands["q"][2]
    total_k, kv_heads, _ = operands["k"][2]
    most = (frame.scalar(b"max_q", ctypes.c_int64), frame.scalar(b"max_k", ctypes.c_int64))
    sizes = _structs.Sizes(batch, heads, kv_heads, *most)
    rotary_dim = 2 * tables[0][2][1] if tables else 0
    plan = _jax_call.plan_of(
        frame, name != "forward", device_type, operands, sizes, True, rotary_dim
    )
    call = _structs.sized(_structs.Call, sizes=sizes, total_q=total_q, total_k=total_k)
    if tables:
        _jax_call.set_rotary(call, *tables)
    for field, buffer in operands.items():
        setattr(call, field, _tensor(buffer))
    *saved, workspace = plan.varlen_needs((batch, heads, kv_heads, *most), total_q, total_k)
    if _SAVED in vectors:
        _jax_call.set_saved(call, vectors.pop(_SAVED), saved)
    for field, address in vectors.items():
        setattr(call, field, address)
    _jax_call.execute(frame, name, device_type, plan, call, workspace, _plans.check_sequences)


_jax_call.register(PREFIX, INPUTS, _execute)
