"""lssar.attention_with_kv_cache: queries against caches of keys and values, as FlashAttention's
flash_attn_with_kvcache takes them.
"""

from typing import Optional, Tuple, Union

import torch

from . import _op, _rotary, _rules
from ._check import check_is_tensor
from ._score_text import score_fields
from ._varlen import check_lengths, check_tensors
from ._varlen_op import Lengths, Options, attend, attend_with_caches, plain_rows


@torch.no_grad()
def attention_with_kv_cache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: Optional[torch.Tensor] = None,
    v: Optional[torch.Tensor] = None,
    cache_seqlens: "Union[int, torch.Tensor, None]" = None,
    causal: bool = False,
    p: Optional[int] = None,
    offset: float = 1.0,
    score: "Union[str, _rules.Score, None]" = None,
    sink: Optional[torch.Tensor] = None,
    window_size: Tuple[int, int] = (-1, -1),
    window_sinks: int = 0,
    prefix: int = 0,
    chunk: int = 0,
    invariant: bool = False,
    rotary_cos: Optional[torch.Tensor] = None,
    rotary_sin: Optional[torch.Tensor] = None,
    rotary_interleaved: bool = False,
    alibi_slopes: Optional[torch.Tensor] = None,
    key_norms: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """lssar.attention of new queries against caches of keys and values; not differentiable.

    Args:
        q: [batch, length, heads, d].
        k_cache, v_cache: [batch, room, kv_heads, d] and [batch, room, kv_heads, dv].
        k, v: [batch, new, kv_heads, d] and [batch, new, kv_heads, dv]: written into the caches behind
            the keys they hold, before the attention, by the same call. None: nothing is added.
        cache_seqlens: how many keys each batch entry has in its cache, those of k not counted:
            [batch], int32, or one number for all. None: `room`, or 0 if k is given. A tensor on a
            GPU is not checked here, because the look would wait: with a bad length o is all 0, and
            the caches stay as they are.
        causal: the last query sees all keys of its entry, and each query before it one less.
        p, offset, score, sink, window_size, window_sinks, prefix, chunk, invariant: as for
            lssar.attention.
        rotary_cos, rotary_sin, rotary_interleaved: as for lssar.attention. q and k are turned here, by
            torch operations; the keys that a cache holds have been turned when they were added. The
            last query of an entry stands at the position of its last key. There are at least as many
            positions as `room` and as queries.
        alibi_slopes: as for lssar.attention. Query i of n stands at position keys - n + i of its entry,
            new keys counted, and key j at j.
        key_norms: float32 [batch, kv_heads, room], contiguous, kept beside k_cache, for scores that
            take norms of keys. The call writes the reciprocal norms of k. Those of the other keys must
            be what earlier calls wrote: a GPU may read them instead of the keys, which spares time
            with more than 16 queries. To fill it at first, bring all keys as k.

    Returns [batch, length, heads, dv]. Keys beyond an entry's length are not read.

    Raises TypeError or ValueError, which name the argument, and LssarError.
    """
    score, p = _rules.score_of(score, p)
    window = _rules.window_of(window_size, window_sinks, prefix, chunk)
    options = Options(causal, p, offset, score, window, _rules.flag("invariant", invariant))
    names = _rules.NAMES_OF_CACHES
    check_tensors(q, k_cache, v_cache, 4, options, sink, alibi_slopes, names)
    batch, room = k_cache.shape[:2]
    used = _cache_lengths(q, k, v, k_cache, v_cache, cache_seqlens)
    if key_norms is not None:
        _check_key_norms(key_norms, k_cache, score)
    if rotary_cos is not None or rotary_sin is not None or rotary_interleaved is not False:
        rotary = (rotary_cos, rotary_sin, rotary_interleaved)
        _rotary.check(*rotary, q)
        _rules.check_rotary_room(rotary_cos.shape[0], max(room, q.shape[1]))
        q, k = _rotated(q, k, used, rotary)
    if batch == 0:
        return q.new_empty((*q.shape[:-1], v_cache.shape[-1]))
    options = options._replace(offset=float(offset))
    q = plain_rows(q)
    is_plain = _is_plain(q, k_cache, v_cache, k, v, sink, alibi_slopes, key_norms)
    if k is not None and not is_plain:
        _append(k_cache, v_cache, k, v, used)
        if key_norms is not None:
            _append_norms(key_norms, k, used)
    after = used if k is None else used + k.shape[1]
    lengths = Lengths(batch, q.shape[1], room, None, None, None, after, alibi_slopes=alibi_slopes)
    if is_plain and (k is not None or key_norms is not None):
        new = () if k is None else (k, v)
        return attend_with_caches(q, k_cache, v_cache, new, lengths, options, sink, key_norms)
    return attend(q, k_cache, v_cache, lengths, options, sink, "attention_with_kv_cache")


def _is_plain(q, k_cache, v_cache, k, v, sink, alibi_slopes, key_norms):
    """Whether the library's call may write the caches. torch.compile and the like see operators."""
    calls = ((q, k_cache, v_cache, sink), (q, k, v, alibi_slopes), (q, q, q, key_norms))
    return all(_op.is_plain_call(*tensors) for tensors in calls)


def _rotated(q, k, used, rotary):
    """q and k, or None, at the positions behind the `used` keys of each entry."""
    new = 0 if k is None else k.shape[1]
    used = used.long()[:, None]
    if k is not None:
        k = _rotary.rotated_at(k, used + torch.arange(new, device=k.device), *rotary)
    rows = torch.arange(q.shape[1], device=q.device) + new - q.shape[1]
    return _rotary.rotated_at(q, used + rows, *rotary), k


def _cache_lengths(q, k, v, k_cache, v_cache, cache_seqlens):
    """cache_seqlens as int32 [batch]. Checks it, the caches, and k and v."""
    batch, room = k_cache.shape[:2]
    for name, x in (("k_cache", k_cache), ("v_cache", v_cache)):
        if x.stride(-1) != 1:
            raise ValueError(f"{name}: strides {x.stride()}; the last must be 1")
    if (k is None) != (v is None):
        raise TypeError("k and v: one is None; must be both, or neither")
    new = 0
    for name, x in (("k", k), ("v", v)):
        check_is_tensor(name, x)
    if k is not None:
        new = k.shape[1] if k.dim() == 4 else 0
        for name, x, cache in (("k", k, k_cache), ("v", v, v_cache)):
            wanted = (batch, new, *cache.shape[2:])
            if x.shape != wanted or x.dtype != cache.dtype or x.device != cache.device:
                raise ValueError(
                    f"{name}: {x.dtype} {tuple(x.shape)} on '{x.device}'; must be {cache.dtype} "
                    f"{wanted} on '{cache.device}', as the cache"
                )
    if cache_seqlens is None:
        cache_seqlens = 0 if k is not None else room
    if isinstance(cache_seqlens, int) and not isinstance(cache_seqlens, bool):
        _rules.check_cache_lengths(cache_seqlens, cache_seqlens, room, new)
        used = torch.full((batch,), cache_seqlens, dtype=torch.int32, device=q.device)
    else:
        check_lengths("cache_seqlens", cache_seqlens, batch, q)
        used = cache_seqlens
    if batch and q.device.type == "cpu":
        _rules.check_cache_lengths(int(used.min()), int(used.max()), room, new)
    return used


def _append(k_cache, v_cache, k, v, used):
    rows = used.long()[:, None] + torch.arange(k.shape[1], device=k.device)
    entries = torch.arange(k.shape[0], device=k.device)[:, None]
    k_cache[entries, rows] = k
    v_cache[entries, rows] = v


def _append_norms(key_norms, k, used):
    """As the library's call writes them, up to rounding."""
    rows = used.long()[:, None] + torch.arange(k.shape[1], device=k.device)
    entries = torch.arange(k.shape[0], device=k.device)[:, None]
    square = k.float().square().sum(-1)
    norms = torch.where(square <= 1e-24, 0.0, square.rsqrt())
    norms = torch.where(square < float("inf"), norms, float("nan"))
    key_norms.transpose(1, 2)[entries, rows] = norms


def _check_key_norms(key_norms, k_cache, score):
    check_is_tensor("key_norms", key_norms)
    if key_norms.is_nested:
        raise TypeError("key_norms: a nested tensor; must be a plain one")
    if score and not score_fields(score)["qk_norm"]:
        raise ValueError(f"key_norms: must be None with score {score!r}, which takes no norms of keys")
    batch, room, kv_heads = k_cache.shape[:3]
    wanted = (batch, kv_heads, room)
    if key_norms.dtype != torch.float32 or key_norms.shape != wanted or not key_norms.is_contiguous():
        raise ValueError(
            f"key_norms: {key_norms.dtype} {tuple(key_norms.shape)} with strides {key_norms.stride()}; "
            f"must be torch.float32 {wanted}, contiguous"
        )
    if key_norms.device != k_cache.device:
        raise ValueError(f"key_norms: on '{key_norms.device}'; must be on '{k_cache.device}', as q")
