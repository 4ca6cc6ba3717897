"""lssar.jax.attention_with_kv_cache. Used by jax."""

import ctypes
from typing import NamedTuple, Optional, Sequence, Tuple, Union

import jax
import jax.numpy as jnp
import numpy as np

from . import _jax_call, _plans, _rules, _structs
from ._library import library

PREFIX = "lssar_kv_cache_"
# The first operands of the call. Behind them come those that it names in `present`, and zeros for o,
# which a bad length on a GPU leaves as they are.
INPUTS = {"forward": ("q", "k", "v")}
_VECTORS = ("seqused_k", "sink", "alibi_slopes")


class _Options(NamedTuple):
    causal: bool
    p: int
    offset: float
    score: str
    window: Sequence[int]  # as _rules.window_of says
    invariant: bool


def attention_with_kv_cache(
    q: "jax.typing.ArrayLike",
    k_cache: "jax.typing.ArrayLike",
    v_cache: "jax.typing.ArrayLike",
    k: "Optional[jax.typing.ArrayLike]" = None,
    v: "Optional[jax.typing.ArrayLike]" = None,
    cache_seqlens: "Union[int, jax.typing.ArrayLike, None]" = None,
    causal: bool = False,
    p: Optional[int] = None,
    offset: float = 1.0,
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
) -> Tuple[jax.Array, jax.Array, jax.Array]:
    """lssar.jax.attention of new queries against caches of keys and values; not differentiable.

    As lssar.attention_with_kv_cache of the package, but arrays are values: returns o, and the caches
    with the new keys and values. q is [batch, length, heads, d], k_cache [batch, room, kv_heads, d],
    v_cache [batch, room, kv_heads, dv], k and v [batch, new, kv_heads, d and dv], or None: nothing is
    added; o is [batch, length, heads, dv]. cache_seqlens, int32 [batch] or an int for all, says how
    many keys the caches hold, those of k not counted; it may be traced. None: `room`, or 0 if k is
    given. With jax.jit(..., donate_argnums=...) of the caches they are written in place; else each
    call copies them. With rotary_* q and k are turned here, and the caches hold turned keys.
    alibi_slopes is as for lssar.jax.attention, with positions in each entry. Under jax.vmap entries go
    one by one.

    Raises TypeError or ValueError, which name the argument, and LssarError for a score function that
    is wrong. Wrong lengths come as XLA's errors when the computation runs; on a GPU they make o 0 and
    leave the caches as they are.
    """
    score, p = _rules.score_of(score, p)
    q, k_cache, v_cache = (jnp.asarray(x) for x in (q, k_cache, v_cache))
    _rules.check_scalars(causal, p, offset)
    _check(q, k_cache, v_cache)
    k, v = _checked_new(k, v, k_cache, v_cache)
    new = 0 if k is None else k.shape[1]
    used = _checked_lengths(cache_seqlens, k_cache, k)
    sink = _jax_call.checked_sink(sink, q.shape[2], score, p, float(offset))
    slopes = _jax_call.checked_slopes(alibi_slopes, q.shape[2], score)
    rotary = _jax_call.checked_rotary(rotary_cos, rotary_sin, rotary_interleaved, q.shape[3])
    window = _rules.window_of(window_size, window_sinks, prefix, chunk)
    options = _Options(causal, p, float(offset), score, window, _rules.flag("invariant", invariant))
    if rotary is not None:
        _rules.check_rotary_room(rotary[0].shape[0], max(k_cache.shape[1], q.shape[1]))
        tables = (*rotary, rotary_interleaved)
        q = _rotated(q, used + (new - q.shape[1]), *tables)
        k = None if k is None else _rotated(k, used, *tables)
    return _call(q, k_cache, v_cache, k, v, used + new, sink, slopes, options)


def _check(q, k_cache, v_cache):
    names, tensors = _rules.NAMES_OF_CACHES, (q, k_cache, v_cache)
    _jax_call.check_dtypes(*tensors, names)
    for name, x in zip(names, tensors):
        if x.ndim != 4:
            raise ValueError(f"{name}: shape {x.shape}; must be [batch, length, heads, dim]")
    shapes = ((x.shape[0], *x.shape[2:0:-1], x.shape[3]) for x in tensors)
    _rules.check_shapes(*shapes, names=names)


def _checked_new(k, v, k_cache, v_cache):
    if (k is None) != (v is None):
        raise TypeError("k and v: one is None; must be both, or neither")
    if k is None:
        return None, None
    k, v = jnp.asarray(k), jnp.asarray(v)
    new = k.shape[1] if k.ndim == 4 else 0
    for name, x, cache in (("k", k, k_cache), ("v", v, v_cache)):
        wanted = (cache.shape[0], new, *cache.shape[2:])
        if x.shape != wanted or x.dtype != cache.dtype:
            raise ValueError(
                f"{name}: {x.dtype} {x.shape}; must be {cache.dtype} {wanted}, as the cache"
            )
    return k, v


def _checked_lengths(given, k_cache, k):
    """cache_seqlens as int32 [batch]."""
    batch, room = k_cache.shape[:2]
    new = 0 if k is None else k.shape[1]
    if given is None:
        given = 0 if k is not None else room
    if isinstance(given, int) and not isinstance(given, bool):
        _rules.check_cache_lengths(given, given, room, new)
        return jnp.full((batch,), given, jnp.int32)
    given = jnp.asarray(given)
    if given.dtype.name != "int32":
        raise TypeError(f"cache_seqlens: dtype {given.dtype}; must be int32")
    if given.shape != (batch,):
        raise ValueError(f"cache_seqlens: shape {given.shape}; must be {(batch,)}")
    return given


def _rotated(x, first, cos, sin, interleaved):
    """x, [batch, rows, heads, dim], whose row i stands at position first + i of its entry. One below 0
    is turned the other way; one beyond the tables, which only a wrong length gives, by something."""
    positions = first[:, None] + jnp.arange(x.shape[1], dtype=jnp.int32)
    at = jnp.clip(jnp.abs(positions), 0, max(cos.shape[0] - 1, 0))
    cos = cos[at][:, :, None]
    sin = (sin[at] * jnp.where(positions < 0, -1.0, 1.0)[..., None])[:, :, None]
    pairs = cos.shape[-1]
    turned, rest = x[..., : 2 * pairs].astype(jnp.float32), x[..., 2 * pairs :]
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
        turned = jnp.stack((a * cos - b * sin, b * cos + a * sin), -1).reshape(turned.shape)
    else:
        a, b = turned[..., :pairs], turned[..., pairs:]
        turned = jnp.concatenate((a * cos - b * sin, b * cos + a * sin), -1)
    return jnp.concatenate((turned.astype(x.dtype), rest), -1)


def _call(q, k_cache, v_cache, k, v, used, sink, slopes, options):
    """o and the caches. `used`: how many keys there are, with the new ones."""
    named = {"seqused_k": used, "k_new": k, "v_new": v, "sink": sink, "alibi_slopes": slopes}
    more = {name: x for name, x in named.items() if x is not None}
    operands = [q, k_cache, v_cache, *more.values()]
    results = [jax.ShapeDtypeStruct((*q.shape[:3], v_cache.shape[3]), q.dtype)]
    aliases = {len(operands): 0}
    if k is not None:  # the call writes into the caches, which XLA copies if somebody else has them
        results += [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (k_cache, v_cache)]
        aliases |= {1: 1, 2: 2}
    operands.append(jnp.zeros(results[0].shape, q.dtype))
    call = jax.ffi.ffi_call(
        PREFIX + "forward", results, vmap_method="sequential", input_output_aliases=aliases
    )
    o, *caches = call(
        *operands,
        present=",".join(more),
        causal=np.int32(options.causal),
        p=np.int32(options.p),
        offset=np.float64(options.offset),
        score=options.score,
        **_jax_call.later_attributes(options.window, options.invariant),
    )
    return (o, *(caches or (k_cache, v_cache)))


# ---- The handler


def _tensor(buffer):
    address, _, (_, length, heads, dim) = buffer
    return _structs.Tensor(address, (length * heads * dim, dim, heads * dim))


def _keys_in_use(plan, device_type, at_used, batch, room, new):
    """What the workspace must have room for. Checks the lengths where they can be looked at, on a CPU;
    on a GPU the call finds wrong ones."""
    if device_type != "cpu" or not batch:
        return batch * room
    used = np.ctypeslib.as_array((ctypes.c_int32 * batch).from_address(at_used)).astype(np.int64)
    _rules.check_cache_lengths(int(used.min()) - new, int(used.max()) - new, room, new)
    return int(used.sum()) if plan.is_for_cpu_device else batch * room


def _execute(frame, name, device_type):
    present = frame.string(b"present").split(",")
    buffers = dict(zip((*INPUTS[name], *present), frame.arguments()))
    buffers["o"], *caches = frame.results()
    buffers |= zip(("k", "v"), caches)  # XLA has put there what the operands hold
    vectors = {n: buffers.pop(n)[0] for n in _VECTORS if n in buffers}
    batch, seq_q, heads, _ = buffers["q"][2]
    _, room, kv_heads, _ = buffers["k"][2]
    sizes = (batch, heads, kv_heads, seq_q, room)
    plan = _jax_call.plan_of(frame, False, device_type, buffers, _structs.Sizes(*sizes), True)
    call = _structs.sized(_structs.Call, sizes=_structs.Sizes(*sizes))
    for field, buffer in buffers.items():
        setattr(call, field, _tensor(buffer))
    for field, address in vectors.items():
        setattr(call, field, address)
    call.seq_new = buffers["k_new"][2][1] if "k_new" in buffers else 0
    total_k = _keys_in_use(plan, device_type, vectors["seqused_k"], batch, room, call.seq_new)
    *_, workspace = plan.varlen_needs(sizes, batch * seq_q, total_k)
    _jax_call.execute(frame, name, device_type, plan, call, workspace, library().check)


_jax_call.register(PREFIX, INPUTS, _execute)
