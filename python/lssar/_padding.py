"""Masks of Hugging Face transformers as lengths of sequences: padding, and documents that are packed
in a batch. Used by _transformers.

A model makes one mask for all of its layers, and hands it to them, or to itself once more, as a
tensor of four dimensions. Ours is int32 [batch, 1, rows, n]. The last of its rows says which keys a
batch entry sees. With two rows the attention is causal, and the first says which queries there are;
with one row all queries see these keys. A row is either

    first, count            where what is visible lies together, as with padding on one side
    count, order[length]    else: the visible ones first, then the others

The first form reads keys and values where they are. The second copies them into its order. The mask
of packed documents is [1, 1, 3, documents + 1]: three times their cu_seqlens in the rows of the whole
batch.
"""

from typing import NamedTuple

import torch

from ._documents import cu_seqlens_of_documents
from ._varlen import varlen_attention

_MAX_ROWS = 2**31 - 1  # of cu_seqlens


class Places(NamedTuple):
    """Where the queries and keys of a call are: positions, counted from the first token."""

    q_length: int
    q_first: "int | torch.Tensor"
    kv_length: int
    kv_first: int


# ---- Making it


def mask_of(places, causal, padding, batch, device):
    """The mask of these queries and keys, or None if causal attention, bottom-right aligned, or
    attention to everything is right without one. `padding`: [batch, positions], true for tokens, or
    None.

    Waits for the device once, as other masks of transformers do.
    """
    if padding is None and not (causal and _may_hide_keys(places)):
        return None
    seen = _seen_keys(places, causal, padding, batch, device)
    rows = [seen]
    fits = torch.ones((), dtype=torch.bool, device=device)
    if causal:
        own = torch.arange(places.q_length, device=device) + (places.q_first - places.kv_first)
        fits = ((own >= 0) & (own < places.kv_length)).all()
        rows.insert(0, seen[:, own.clamp(0, max(places.kv_length - 1, 0))])
    together = torch.stack([_is_together(x) for x in rows]).all()
    sees_all, together, fits = torch.stack([seen.all(), together, fits]).tolist()
    if not fits:
        raise ValueError(
            f"cache: {places.kv_length} keys from position {int(places.kv_first)} on, for queries "
            f"{int(places.q_first)} to {int(places.q_first) + places.q_length}; must have a key for "
            "each query"
        )
    if sees_all:
        return None
    encode = _range_of if together else _order_of
    return torch.stack([encode(x, places.kv_length) for x in rows], dim=1)[:, None].contiguous()


def mask_of_documents(ids):
    """The mask of causal attention within runs of equal ids, [batch, length]."""
    return cu_seqlens_of_documents(ids).expand(1, 1, 3, -1).contiguous()


def _may_hide_keys(places):
    """False if the last query is beside the last key, as far as that is known without a look."""
    if isinstance(places.q_first, torch.Tensor):
        return True
    return places.q_first + places.q_length != places.kv_first + places.kv_length


def _seen_keys(places, causal, padding, batch, device):
    """[batch, kv_length]: keys that a query sees, or would see if it were the last one."""
    first, length = int(places.kv_first), places.kv_length
    if padding is None:
        seen = torch.ones((batch, length), dtype=torch.bool, device=device)
    else:
        seen = padding.bool()[:, first : first + length]
        seen = torch.nn.functional.pad(seen, (0, length - seen.shape[1])).expand(batch, length)
    if causal:
        position = torch.arange(first, first + length, device=device)
        seen = seen & (position < places.q_first + places.q_length)
    return seen


def _first_and_count(seen):
    """int32 [batch] each. Where nothing is seen, first is 0."""
    first = seen.int().argmax(1) if seen.shape[1] else seen.sum(1)
    return first.int(), seen.sum(1).int()


def _is_together(seen):
    first, count = _first_and_count(seen)
    at = torch.arange(seen.shape[1], device=seen.device)
    return ((at >= first[:, None]) & (at < (first + count)[:, None])).eq(seen).all()


def _range_of(seen, _):
    return torch.stack(_first_and_count(seen), dim=1)


def _order_of(seen, length):
    """Padded to `length` numbers behind the count, because there may be fewer queries than keys."""
    order = (~seen).to(torch.uint8).argsort(dim=1, stable=True).int()
    row = torch.cat([seen.sum(1, dtype=torch.int32)[:, None], order], dim=1)
    return torch.nn.functional.pad(row, (0, length - order.shape[1]))


# ---- Using it


def is_mask(mask, q, k):
    """Whether it was made here, for queries and keys of these lengths."""
    if not isinstance(mask, torch.Tensor) or mask.dtype != torch.int32 or mask.dim() != 4:
        return False
    batch, heads, rows, n = mask.shape
    if (batch, heads, rows) == (1, 1, 3):
        return q.shape[2] == k.shape[2] and n <= 1 + k.shape[0] * k.shape[2]
    return batch == q.shape[0] and heads == 1 and rows in (1, 2) and n in (2, 1 + k.shape[2])


def is_causal(mask):
    """Whether a mask that was made here is of causal attention."""
    return mask.shape[2] > 1


def attention(q, k, v, mask, **options):
    """lssar.attention of q, k, v, [batch, heads, length, dim], under a mask. Returns [batch, length,
    heads, dim]; queries that are padding get 0."""
    if mask.shape[2] == 3:
        return _of_documents(q, k, v, mask[0, 0, 0], **options)
    causal = is_causal(mask)
    of_q, of_k = mask[:, 0, 0], mask[:, 0, -1]
    if mask.shape[3] == 2:
        ranges = (of_q.unbind(1) if causal else None, of_k.unbind(1))
        return _of_ranges(q, k, v, *ranges, causal=causal, **options)
    order_k = of_k[:, 1:]
    k, v = _in_order(k, order_k), _in_order(v, order_k)
    keys = (torch.zeros_like(of_k[:, 0]), of_k[:, 0])
    if not causal:
        return _of_ranges(q, k, v, None, keys, causal=False, **options)
    order_q = of_q[:, 1 : 1 + q.shape[2]]
    queries = (keys[0], of_q[:, 0])
    o = _of_ranges(_in_order(q, order_q), k, v, queries, keys, causal=True, **options)
    places = order_q.long()[:, :, None, None].expand_as(o)
    return torch.zeros_like(o).scatter(1, places, o)


def _of_documents(q, k, v, cu_seqlens, **options):
    batch, _, length, _ = q.shape
    packed = (_packed(x, length)[0] for x in (q, k, v))
    o = varlen_attention(*packed, cu_seqlens, cu_seqlens, length, length, causal=True, **options)
    return o.unflatten(0, (batch, length))


def _in_order(x, order):
    return x.take_along_dim(order.long()[:, None, :, None], dim=2)


def _of_ranges(q, k, v, queries, keys, **options):
    """`queries`, `keys`: the first of each entry, and how many. queries None: all."""
    batch, _, length, _ = q.shape
    step = _common_step(k, v)
    (packed_q, max_q), (packed_k, max_k), (packed_v, _) = (
        _packed(q, length), _packed(k, step), _packed(v, step)
    )  # fmt: skip
    if queries is None:
        first_q, count_q = keys[0] * 0, None
    else:
        first_q, count_q = queries
    o = varlen_attention(
        packed_q,
        packed_k,
        packed_v,
        _cumulative(first_q, length, packed_q.shape[0]),
        _cumulative(keys[0], step, packed_k.shape[0]),
        max_q,
        max_k,
        seqused_q=None if count_q is None else count_q.contiguous(),
        seqused_k=keys[1].contiguous(),
        **options,
    )
    return o.unflatten(0, (batch, length))


def _common_step(*tensors):
    """Rows from one batch entry to the next, in memory where every tensor can be read as rows that
    lie one after another. Where memory does not allow it, the length: then _packed copies."""
    steps = {_step_of(x) for x in tensors}
    batch, _, length, _ = tensors[0].shape
    step = steps.pop()
    return length if steps or step is None or batch * step > _MAX_ROWS else step


def _step_of(x):
    """For a cache [batch, heads, length, dim] heads * length: a row is that of its first head."""
    batch, _, length, _ = x.shape
    if batch < 2 or length < 2 or x.requires_grad or x.stride(3) != 1:
        return None
    entry, row = x.stride(0), x.stride(2)
    return entry // row if row > 0 and entry % row == 0 and entry >= row * length else None


def _packed(x, step):
    """[rows, heads, dim], and the most rows from one sequence to the end of the next."""
    batch, heads, length, dim = x.shape
    if step == length:
        return x.transpose(1, 2).reshape(batch * length, heads, dim), 2 * length
    rows = (batch - 1) * step + length
    return x.as_strided((rows, heads, dim), (x.stride(2), x.stride(1), 1)), step + length


def _cumulative(first, step, rows):
    """The first row of each entry, and the end of all."""
    starts = first + torch.arange(first.shape[0], device=first.device, dtype=torch.int32) * step
    return torch.nn.functional.pad(starts, (0, 1), value=rows)
