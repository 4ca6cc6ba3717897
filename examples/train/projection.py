"""From a layer's input to q, k and v, with positions: model.projection.

    linear           one matrix
    tensor_product   the contextual factors of "Tensor Product Attention Is All You Need" (arXiv
                     2501.06425), whose transformer is called T6

A tensor product has for each of q, k and v a rank R, and two linear maps of a token x: a(x), [R, heads],
and b(x), [R, dim]. The vector of head h is the sum over r of a[r, h] b[r], over R. Positions turn b, which
turns every head: a cache of keys would keep a and the turned b.
"""

import torch
from torch import nn

from .config import ModelConfig

Qkv = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class Linear(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.dim = config.heads, config.num_kv_heads, config.dim
        self.qkv = nn.Linear(config.width, config.projected, bias=config.has_bias)
        self.q_norm = nn.RMSNorm(self.dim) if config.qk_norm else nn.Identity()
        self.k_norm = nn.RMSNorm(self.dim) if config.qk_norm else nn.Identity()

    def forward(self, x: torch.Tensor, rope: nn.Module) -> Qkv:
        """x [batch, length, width] -> q, k, v [batch, heads or kv_heads, length, dim]."""
        batch, length, _ = x.shape
        qkv = self.qkv(x).view(batch, length, -1, self.dim).transpose(1, 2)
        q, k, v = qkv.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        q, k = (rope(x).to(v.dtype) for x in (self.q_norm(q), self.k_norm(k)))
        return q, k, v


class TensorProduct(nn.Module):
    """Its factors are rows of one matrix: a of q, k and v, [R, heads] each, then b, [R, dim] each."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.ranks, self.dim = config.ranks, config.dim
        heads = (config.heads, config.num_kv_heads, config.num_kv_heads)
        self.rows = [r * h for r, h in zip(self.ranks, heads)] + [r * self.dim for r in self.ranks]
        self.factors = nn.Linear(config.width, config.projected, bias=config.has_bias)

    def initialise(self) -> None:
        """Xavier's for each factor: with 0.02, as elsewhere, their products would nearly vanish."""
        for part in self.factors.weight.split(self.rows):
            nn.init.xavier_uniform_(part)

    def forward(self, x: torch.Tensor, rope: nn.Module) -> Qkv:
        """As Linear.forward."""
        parts = self.factors(x).split(self.rows, dim=-1)
        q, k, v = (self._product(i, parts[i], parts[3 + i], rope) for i in range(3))
        return q, k, v

    def _product(self, which: int, a: torch.Tensor, b: torch.Tensor, rope: nn.Module) -> torch.Tensor:
        """q, k or v (0, 1, 2) from its factors, [batch, length, R heads] and [batch, length, R dim]."""
        rank = self.ranks[which]
        a, b = (x.unflatten(-1, (rank, -1)).transpose(1, 2) for x in (a, b))  # [batch, R, length, ...]
        if which < 2:
            b = rope(b).to(a.dtype)
        return torch.einsum("brlh,brld->bhld", a, b) / rank


def make(config: ModelConfig) -> nn.Module:
    return TensorProduct(config) if config.projection == "tensor_product" else Linear(config)
