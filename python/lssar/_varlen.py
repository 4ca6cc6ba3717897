"""lssar.varlen_attention, and what arguments it and lssar.attention_with_kv_cache take. Names and
layouts are those of FlashAttention's functions.
"""

from typing import Optional, Tuple, Union

import torch

from . import _attention, _check, _rotary, _rules
from ._varlen_op import Lengths, Options, attend, plain_rows

_RANKS = {3: "[total, heads, dim]", 4: "[batch, length, heads, dim]"}


def check_lengths(name, x, count, q):
    if x is None:
        return
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name}: {type(x).__name__}; must be a torch.Tensor")
    if x.dtype != torch.int32:
        raise TypeError(f"{name}: dtype {x.dtype}; must be torch.int32")
    if x.shape != (count,) or not x.is_contiguous():
        raise ValueError(
            f"{name}: shape {tuple(x.shape)}, strides {x.stride()}; must be contiguous {(count,)}"
        )
    if x.device != q.device:
        raise ValueError(f"{name}: on device '{x.device}'; must be on that of q, '{q.device}'")


def check_tensors(q, k, v, rank, options, sink, slopes, names=_rules.NAMES):
    _rules.check_scalars(*options[:3])
    for name, x in zip(names, (q, k, v)):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name}: {type(x).__name__}; must be a torch.Tensor")
        if x.dim() != rank:
            raise ValueError(f"{name}: shape {tuple(x.shape)}; must be {_RANKS[rank]}")
    if rank == 3:
        q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
    else:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    _check.check_tensors(q, k, v, names=names)
    _check.check_sink(sink, q, options.score, options.p, options.offset, slopes)


def _longest(name, given, cu):
    if given is None:
        return max(int((cu[1:] - cu[:-1]).max()), 0) if cu.shape[0] > 1 else 0
    return _rules.longest(name, given, 0)


def varlen_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: Optional[int] = None,
    max_seqlen_k: Optional[int] = None,
    causal: bool = False,
    p: Optional[int] = None,
    offset: float = 1.0,
    score: "Union[str, _rules.Score, None]" = None,
    sink: Optional[torch.Tensor] = None,
    seqused_q: Optional[torch.Tensor] = None,
    seqused_k: Optional[torch.Tensor] = None,
    window_size: Tuple[int, int] = (-1, -1),
    window_sinks: int = 0,
    prefix: int = 0,
    chunk: int = 0,
    invariant: bool = False,
    rotary_cos: Optional[torch.Tensor] = None,
    rotary_sin: Optional[torch.Tensor] = None,
    rotary_interleaved: bool = False,
    alibi_slopes: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """lssar.attention over sequences that are packed one after another, differentiable once.

    Args:
        q: [total_q, heads, d]; k: [total_k, kv_heads, d]; v: [total_k, kv_heads, dv]; as for
            lssar.attention.
        cu_seqlens_q: [sequences + 1], int32: rows cu_seqlens_q[b] to cu_seqlens_q[b + 1] of q are
            sequence b. Numbers never decrease, and are at most total_q. On a GPU nobody can check
            this without waiting: if a length is bad, all rows of o, and all gradients, are 0.
        cu_seqlens_k: the same for k and v.
        max_seqlen_q, max_seqlen_k: at least the length of the longest sequence, to save a look at
            cu_seqlens. None: that length; on a GPU the look waits for the device.
        causal: the last query of a sequence sees all of its keys, and each query before it one less.
        p, offset, score, sink: as for lssar.attention. N_i counts keys of the row's own sequence.
        seqused_q, seqused_k: [sequences], int32: how many rows of each sequence are used, from its
            first on. None: all.
        window_size, window_sinks, prefix, chunk: as for lssar.attention, in the row's own sequence.
        invariant: as for lssar.attention.
        rotary_cos, rotary_sin, rotary_interleaved: as for lssar.attention, with positions in the row's
            own sequence: key j stands at j, and the last query where the last key does. There are at
            least max_seqlen_k positions. A sequence with more queries than keys is a bad length.
        alibi_slopes: as for lssar.attention, with positions in the row's own sequence.

    Returns [total_q, heads, dv] in the dtype of q. Rows that are in no sequence are 0, and so are
    gradients of such rows.

    Raises TypeError or ValueError, which name the argument, and LssarError.
    """
    score, p = _rules.score_of(score, p)
    if all(isinstance(x, torch.Tensor) for x in (q, k, v)):
        q, k, v = _attention.follow_autocast(q, k, v)
    window = _rules.window_of(window_size, window_sinks, prefix, chunk)
    options = Options(causal, p, offset, score, window, _rules.flag("invariant", invariant))
    check_tensors(q, k, v, 3, options, sink, alibi_slopes)
    has_rotary = rotary_cos is not None or rotary_sin is not None or rotary_interleaved is not False
    if has_rotary:
        _rotary.check(rotary_cos, rotary_sin, rotary_interleaved, q)
    if not isinstance(cu_seqlens_q, torch.Tensor) or cu_seqlens_q.dim() != 1:
        raise TypeError(f"cu_seqlens_q: {cu_seqlens_q!r}; must be a torch.Tensor [sequences + 1]")
    batch = cu_seqlens_q.shape[0] - 1
    if batch < 0:
        raise ValueError("cu_seqlens_q: shape (0,); must have an entry, 0, even for no sequences")
    for name, x, count in (
        ("cu_seqlens_q", cu_seqlens_q, batch + 1),
        ("cu_seqlens_k", cu_seqlens_k, batch + 1),
        ("seqused_q", seqused_q, batch),
        ("seqused_k", seqused_k, batch),
    ):
        check_lengths(name, x, count, q)
    if cu_seqlens_k is None:
        raise TypeError("cu_seqlens_k: None; must be a torch.Tensor [sequences + 1]")
    max_q = _longest("max_seqlen_q", max_seqlen_q, cu_seqlens_q)
    max_k = _longest("max_seqlen_k", max_seqlen_k, cu_seqlens_k)
    if has_rotary:
        _rules.check_rotary_sequences(rotary_cos.shape[0], max_k)
    sequences = (cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k)
    lengths = Lengths(batch, max_q, max_k, *sequences, rotary_cos, rotary_sin, alibi_slopes)
    options = options._replace(offset=float(offset), rotary_interleaved=rotary_interleaved)
    rows = (plain_rows(x) for x in (q, k, v))
    return attend(*rows, lengths, options, sink, "varlen_attention")
