"""lssar.attention_stats: how the weights of a row are spread over its keys."""

from typing import NamedTuple, Optional, Sequence, Union

import torch

from . import _check, _plans, _reference, _rules

_LIVE = 2.0**-24  # of a row's largest weight
_NUMBERS_AT_ONCE = 2**22  # scores of some rows, in float64


class AttentionStats(NamedTuple):
    """Each [batch, heads, rows] in float32, of the rows asked for; 0 where o of a row is 0."""

    entropy: torch.Tensor  # -sum_j w_j log w_j, in nats; log N at most
    first: torch.Tensor  # w of the first key
    live: torch.Tensor  # the share of a row's visible keys with w >= 2^-24 max_j w_j
    weights: Optional[torch.Tensor]  # what o sums v with, [batch, heads, rows, length_k]


@torch.no_grad()
def attention_stats(
    q: torch.Tensor,
    k: torch.Tensor,
    causal: bool = False,
    p: Optional[int] = None,
    offset: float = 1.0,
    layout: str = "bhld",
    score: "Union[str, _rules.Score, None]" = None,
    sink: Optional[torch.Tensor] = None,
    rows: Optional[Sequence[int]] = None,
    weights: bool = False,
    alibi_slopes: Optional[torch.Tensor] = None,
) -> AttentionStats:
    """Entropy, share of the first key and share of live weights of the rows of attention.

    w is |weight| / sum |weight| of a row, so that weights of any sign and of any sum can be compared.
    Computes the definition in float64, some rows at a time: memory is linear in the lengths, except
    for `weights`. Plain tensors on the CPU or a CUDA device; torch.autocast is not followed.

    Args:
        q, k, causal, p, offset, layout, score, sink, alibi_slopes: as for lssar.attention.
        rows: the queries to look at, 0 to length_q - 1, in any order. None: all.
        weights: whether to return the weights of these rows, too, in float32.

    Raises TypeError or ValueError, which name the argument, and LssarError.
    """
    for name, x in (("q", q), ("k", k)):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name}: {type(x).__name__}; must be a torch.Tensor")
    text, p = ("", _rules.DEFAULT_POWER if p is None else p) if score is None else _rules.score_of(score, p)
    _rules.check_scalars(causal, p, offset)
    _rules.check_layout(layout, None, {"q": q.shape, "k": k.shape}, text)
    if layout == "blhd":
        q, k = q.transpose(1, 2), k.transpose(1, 2)
    _check.check_tensors(q, k, k, (*_check.KERNEL_DTYPES, torch.float64))
    if q.device.type == "meta":
        raise ValueError("q: on device 'meta', which has no values; must be on a CUDA device or the CPU")
    _check.check_sink(sink, q, text, p, float(offset), alibi_slopes)
    _plans.check_score(text, p, float(offset))
    length = q.shape[2]
    chosen = _rows_of(rows, q)
    n = _reference.visible_keys(q.shape[2], k.shape[2], causal, q.device)[chosen]
    q, k = q[:, :, chosen].double(), _reference.with_all_heads(k, q).double()
    sink = None if sink is None else sink.double()
    slopes = None if alibi_slopes is None else alibi_slopes.double()
    positions = chosen + k.shape[2] - length
    count = max(1, _NUMBERS_AT_ONCE // max(1, q.shape[0] * q.shape[1] * k.shape[2]))
    parts = []
    for q_part, n_part, at in zip(q.split(count, dim=2), n.split(count), positions.split(count)):
        fall = None if slopes is None else _reference.alibi(slopes, at, k.shape[2])
        more = (p, float(offset), text, sink, None, fall)
        parts.append(_stats(_reference.weights(q_part, k, n_part, *more), n_part, weights))
    entropy, first, live, found = zip(*parts)
    kept = torch.cat(found, dim=2) if weights else None
    return AttentionStats(torch.cat(entropy, 2), torch.cat(first, 2), torch.cat(live, 2), kept)


def _rows_of(rows, q):
    """The indices of the rows that were asked for."""
    length = q.shape[2]
    if rows is None:
        return torch.arange(length, device=q.device)
    try:
        rows = list(rows)
    except TypeError:
        raise TypeError(f"rows: {rows!r}; must be whole numbers, as a list, or None") from None
    for row in rows:
        if isinstance(row, bool) or not isinstance(row, int) or not 0 <= row < length:
            raise ValueError(f"rows: {row!r}; must be whole numbers from 0 to {length - 1}, as q has rows")
    return torch.tensor(rows, dtype=torch.int64, device=q.device)


def _stats(weight, n, keeps):
    """Of some rows: entropy, first, live, and the weights if they are kept."""
    size = weight.abs()
    total = size.sum(dim=-1, keepdim=True)
    share = size / torch.where(total == 0, 1.0, total)  # NaN stays
    entropy = -torch.special.xlogy(share, share).sum(dim=-1)
    if weight.shape[-1] == 0:
        first, live = entropy, entropy
    else:
        first = share[..., 0]
        largest = size.amax(dim=-1, keepdim=True)
        is_live = (size >= _LIVE * largest) & (size > 0)
        live = is_live.sum(dim=-1) / n.clamp(min=1)
    return entropy.float(), first.float(), live.float(), weight.float() if keeps else None
