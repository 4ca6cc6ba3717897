"""Modules: LSSARAttention, a drop-in for the attention of a GPT block, and its KVCache."""

from typing import Any, Callable, Optional, Union

import torch

from . import _plans, _rules
from ._alibi import alibi_slopes as slopes_of_paper
from ._attention import attention
from ._check import check_is_tensor, sink_dtype


class KVCache:
    """Keys and values of the tokens so far, for generation without gradients.

    One per layer and batch: `LSSARAttention.forward(x, cache=cache)` appends the keys and values of
    x and attends to all. Memory grows by doubling, so that appending a token copies only the token.
    """

    def __init__(self) -> None:
        self._k = self._v = None
        # [length, 0], no memory: torch.compile takes sizes of tensors as dynamic wherever they are
        # kept, but recompiles for each value of an int that is kept in a module.
        self._tokens = None

    @property
    def length(self) -> int:
        return 0 if self._tokens is None else self._tokens.shape[0]

    def append(
        self, k: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Takes [batch, kv_heads, new, dim] each; returns views of all there are."""
        if torch.is_grad_enabled() and (k.requires_grad or v.requires_grad):
            raise RuntimeError("KVCache: keeps no gradients; use it under torch.no_grad()")
        if v.shape[:3] != k.shape[:3]:
            raise ValueError(
                f"KVCache: v has batch, heads, length {tuple(v.shape[:3])}; must be those of k, "
                f"{tuple(k.shape[:3])}"
            )
        start = self.length
        end = start + k.shape[2]
        # Both before either is kept: an error leaves the cache as it was.
        kept_k = self._with_room(self._k, k, "k")
        kept_v = self._with_room(self._v, v, "v")
        kept_k[:, :, start:end] = k
        kept_v[:, :, start:end] = v
        self._k, self._v, self._tokens = kept_k, kept_v, k.new_empty((end, 0))
        return kept_k[:, :, :end], kept_v[:, :, :end]

    def _with_room(self, kept, new, name):
        batch, heads, num_new, dim = new.shape
        length = self.length
        if kept is not None:
            expected = (kept.shape[0], kept.shape[1], kept.shape[3])
            if expected != (batch, heads, dim):
                raise ValueError(
                    f"KVCache: batch, heads, dim {(batch, heads, dim)}; must be {expected}, as in "
                    "the first call"
                )
            if kept.dtype != new.dtype or kept.device != new.device:
                raise ValueError(
                    f"KVCache: {name} is {new.dtype} on '{new.device}'; must be {kept.dtype} on "
                    f"'{kept.device}', as in the first call"
                )
            if length + num_new <= kept.shape[2]:
                return kept
        grown = new.new_empty((batch, heads, max(2 * length, length + num_new), dim))
        if kept is not None:
            grown[:, :, :length] = kept[:, :, :length]
        return grown


class LSSARAttention(torch.nn.Module):
    """Projects [batch, length, embed_dim] to q, k, v, attends, and projects back.

    Args:
        embed_dim: size of a token.
        num_heads: query heads.
        num_kv_heads: kv heads, a divisor of num_heads; default num_heads.
        head_dim: default embed_dim / num_heads.
        causal, p, offset, score: as in lssar.attention. A GPT block needs causal=True.
        bias: whether the projections have biases.
        alibi_slopes: [num_heads], of a score with alibi=per_head. None: those of
            lssar.alibi_slopes(num_heads).

    If the score has a sink ("softmax,sink=per_head"), `sink` is a parameter [num_heads] that is
    learned from 0 on, else None. It is float32 whatever `dtype` is, unless that is float64.

    If the score has ALiBi ("softmax,alibi=per_head"), `alibi_slopes` is a buffer [num_heads] of the
    same type, else None. It is saved with the parameters, and is not learned.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        num_kv_heads: Optional[int] = None,
        head_dim: Optional[int] = None,
        causal: bool = False,
        p: Optional[int] = None,
        offset: float = 1.0,
        bias: bool = True,
        device: Any = None,
        dtype: Optional[torch.dtype] = None,
        score: "Union[str, _rules.Score, None]" = None,
        alibi_slopes: Optional[torch.Tensor] = None,
    ) -> None:
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if num_heads < 1 or num_kv_heads < 1 or num_heads % num_kv_heads != 0:
            raise ValueError(
                f"num_kv_heads: {num_kv_heads}; must divide num_heads, {num_heads}"
            )
        if head_dim is None:
            if embed_dim % num_heads != 0:
                raise ValueError(
                    f"num_heads: {num_heads}; must divide embed_dim, {embed_dim}, or head_dim be "
                    "given"
                )
            head_dim = embed_dim // num_heads
        if _rules.is_no_head_dim(head_dim):
            raise ValueError(f"head_dim: {head_dim}; must be {_rules.HEAD_DIMS}")
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = head_dim
        self.causal = causal
        self.score, self.p = _rules.score_of(score, p)
        self.offset = offset
        _rules.check_scalars(causal, self.p, offset)
        has_sink = _plans.has_sink(self.score, self.p, float(offset))
        self.register_parameter("sink", self._new_sink(device, dtype) if has_sink else None)
        self.register_buffer("alibi_slopes", self._new_slopes(alibi_slopes, device, dtype))
        options = {"bias": bias, "device": device, "dtype": dtype}
        self.qkv = torch.nn.Linear(
            embed_dim, (num_heads + 2 * num_kv_heads) * head_dim, **options
        )
        self.out = torch.nn.Linear(num_heads * head_dim, embed_dim, **options)

    def _new_sink(self, device, dtype):
        dtype = sink_dtype(dtype or torch.get_default_dtype())
        return torch.nn.Parameter(torch.zeros(self.num_heads, device=device, dtype=dtype))

    def _new_slopes(self, given, device, dtype):
        dtype = sink_dtype(dtype or torch.get_default_dtype())
        has_alibi = _plans.has_alibi(self.score)
        if given is None:
            return slopes_of_paper(self.num_heads, device).to(dtype) if has_alibi else None
        check_is_tensor("alibi_slopes", given)
        shape = given.shape
        _rules.check_is_due("alibi_slopes", "alibi", shape, has_alibi, self.num_heads, dtype)
        _rules.check_per_head("alibi_slopes", shape, self.num_heads)
        return torch.empty(self.num_heads, device=device, dtype=dtype).copy_(given.detach())

    def forward(
        self,
        x: torch.Tensor,
        position: Optional[Callable[..., tuple[torch.Tensor, torch.Tensor]]] = None,
        cache: Optional[KVCache] = None,
    ) -> torch.Tensor:
        """[batch, length, embed_dim] to the same.

        `position(q, k, first)` returns q and k with positions applied (RoPE, say); they are
        [batch, heads, length, head_dim], and `first` is the position of their first token.
        `cache`: a KVCache, which x continues; with causal=True only.
        """
        if cache is not None and not self.causal:
            raise ValueError(
                "cache: needs causal=True: without it earlier tokens attend to later ones, so that "
                "what was computed for them would change"
            )
        if x.dim() != 3:
            raise ValueError(f"x: shape {tuple(x.shape)}; must be [batch, length, embed_dim]")
        batch, length, _ = x.shape
        heads = self.qkv(x).view(batch, length, -1, self.head_dim).transpose(1, 2)
        counts = (self.num_heads, self.num_kv_heads, self.num_kv_heads)
        q, k, v = heads.split(counts, dim=1)  # views: nothing is copied
        if position is not None:
            q, k = position(q, k, 0 if cache is None else cache.length)
        if cache is not None:
            k, v = cache.append(k, v)
        wanted = sink_dtype(q.dtype)  # module.to(dtype) changes all parameters and buffers
        options = {"causal": self.causal, "p": self.p, "offset": self.offset}
        options["sink"] = None if self.sink is None else self.sink.to(wanted)
        slopes = self.alibi_slopes
        options["alibi_slopes"] = None if slopes is None else slopes.to(wanted)
        o = attention(q, k, v, **options, score=self.score or None)
        return self.out(o.transpose(1, 2).reshape(batch, length, -1))

    def extra_repr(self) -> str:
        score = f", score={self.score!r}" if self.score else ""
        return (
            f"num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}, "
            f"head_dim={self.head_dim}, causal={self.causal}, p={self.p}, offset={self.offset}{score}"
        )
