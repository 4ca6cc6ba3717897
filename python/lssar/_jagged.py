"""lssar.attention of nested tensors with the layout torch.jagged. Used by _attention.

Such a tensor is rows of all entries, one after another, with the places where entries begin: what
lssar.varlen_attention takes. Nothing is copied but these places, from int64 to int32.
"""

import torch

from . import _rules

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def has_any(*tensors):
    """Whether one is a jagged tensor: torch's other kind of nested tensors is refused elsewhere."""
    return any(type(x) not in _PLAIN and _is_jagged(x) for x in tensors)


def _is_jagged(x):
    return isinstance(x, torch.Tensor) and x.is_nested and x.layout is torch.jagged


def _check(q, k, v):
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not _is_jagged(x):
            is_tensor = isinstance(x, torch.Tensor)
            kind = f"a tensor of layout {x.layout}" if is_tensor else type(x).__name__
            raise TypeError(
                f"{name}: {kind}; q, k and v must all be nested tensors with the layout torch.jagged, or "
                "none of them"
            )
        if x.dim() != 4 or x._ragged_idx != 2:
            raise ValueError(
                f"{name}: shape {tuple(x.shape)}; must be [batch, heads, j, dim], or with "
                'layout="blhd" [batch, j, heads, dim], j the lengths of the entries'
            )
    for name, x in (("k", k), ("v", v)):
        if x.shape[0] != q.shape[0]:
            raise ValueError(f"{name}: batch {x.shape[0]}; must be that of q, {q.shape[0]}")
    if k.shape[2] != v.shape[2] and not _have_same_lengths(k, v):
        raise ValueError(
            "v: entries begin or end at other rows than those of k; must have the offsets and "
            "lengths of k"
        )


def _have_same_lengths(k, v):
    """Whether tensors that were made one by one have equal offsets and lengths."""
    pairs = ((k.offsets(), v.offsets()), (k.lengths(), v.lengths()))
    return all(
        x is y or (x is not None and y is not None and torch.equal(x, y)) for x, y in pairs
    )


def _int32(x):
    return None if x is None else x.to(torch.int32)


def attention(
    q, k, v, causal, p, offset, score, sink, window=(), invariant=False, rotary=None, slopes=None
):
    """[batch, heads, j, dim], with the offsets of q. `window`: as _rules.window_of says. `rotary`:
    None, or the tables and whether pairs are neighbours. `slopes`: of ALiBi, or None."""
    from ._varlen import varlen_attention  # which needs _attention

    _check(q, k, v)
    rows = [x.transpose(1, 2).values() for x in (q, k, v)]
    starts_q = _int32(q.offsets())
    starts_k = starts_q if k.offsets() is q.offsets() else _int32(k.offsets())
    # The longest entry is not looked up: all rows are a bound that costs nothing.
    most = (rows[0].shape[0], rows[1].shape[0])
    cos, sin, interleaved = rotary or (None, None, False)
    if isinstance(cos, torch.Tensor) and cos.dim() == 2:  # entries that have positions
        most = (most[0], min(most[1], cos.shape[0]))
    used = {"seqused_q": _int32(q.lengths()), "seqused_k": _int32(k.lengths())}
    options = {"causal": causal, "p": p, "offset": offset, "score": score or None, "sink": sink}
    options |= {"invariant": invariant, **_rules.window_options(window)}
    options |= {"rotary_cos": cos, "rotary_sin": sin, "rotary_interleaved": interleaved}
    options["alibi_slopes"] = slopes
    o = varlen_attention(*rows, starts_q, starts_k, *most, **options, **used)
    nested = torch.nested.nested_tensor_from_jagged(o, offsets=q.offsets(), lengths=q.lengths())
    return nested.transpose(1, 2)
