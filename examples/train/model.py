"""Transformers: GPT-2's block with RoPE, Llama's and Qwen3's block, each for tokens or for points, and a
small ViT of GPT-2's blocks."""

import dataclasses
import math
from typing import Any, Union

import torch
import torch.nn.functional as F
from torch import nn

from . import attention, projection
from .config import ModelConfig
from .rope import Rope


class Attention(nn.Module):
    """Projects to q, k and v, attends, and projects back."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.project = projection.make(config)
        self.out = nn.Linear(config.heads * config.dim, config.width, bias=config.has_bias)
        self.attend = attention.make(config, layer, causal=config.family != "vit")

    def forward(self, x: torch.Tensor, rope: nn.Module) -> torch.Tensor:
        o = self.attend(*self.project(x, rope))
        return self.out(o.transpose(1, 2).flatten(2))


class GeluMlp(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.into = nn.Linear(config.width, config.hidden_width)
        self.out = nn.Linear(config.hidden_width, config.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(F.gelu(self.into(x), approximate="tanh"))


class SwigluMlp(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.into = nn.Linear(config.width, 2 * config.hidden_width, bias=False)
        self.out = nn.Linear(config.hidden_width, config.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = self.into(x).chunk(2, dim=-1)
        return self.out(F.silu(gate) * value)


def _norm(config: ModelConfig) -> nn.Module:
    kind = nn.RMSNorm if config.family == "llama" else nn.LayerNorm
    return kind(config.width, eps=1e-5)


class Block(nn.Module):
    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = _norm(config), _norm(config)
        self.attention = Attention(config, layer)
        self.mlp = SwigluMlp(config) if config.family == "llama" else GeluMlp(config)

    def forward(self, x: torch.Tensor, rope: nn.Module) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x), rope)
        return x + self.mlp(self.mlp_norm(x))


class Transformer(nn.Module):
    """Tokens [batch, length] -> logits [batch, length, vocab]."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.width)
        self.rope = Rope(config.dim, config.rope_base, config.length)
        self.blocks = nn.ModuleList(Block(config, i) for i in range(config.layers))
        self.norm = _norm(config)
        self.head = nn.Linear(config.width, config.vocab, bias=False)
        initialise(self, config.layers)
        if config.tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.rope)
        return self.head(self.norm(x))


class Tracker(nn.Module):
    """Points [batch, length, 2] -> the next ones: what the model gives is added to each point."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Linear(2, config.width)
        self.rope = Rope(config.dim, config.rope_base, config.length)
        self.blocks = nn.ModuleList(Block(config, i) for i in range(config.layers))
        self.norm = _norm(config)
        self.head = nn.Linear(config.width, 2, bias=False)
        initialise(self, config.layers)
        # Norms would take the size of a point away, were it not for the bias.
        nn.init.normal_(self.embedding.weight, std=0.5)
        nn.init.normal_(self.embedding.bias, std=0.5)

    def hidden(self, points: torch.Tensor) -> torch.Tensor:
        """What the last block gives, [batch, length, width]."""
        x = self.embedding(points)
        for block in self.blocks:
            x = block(x, self.rope)
        return x

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        return points + self.head(self.norm(self.hidden(points)))


class Vit(nn.Module):
    """Images [batch, image, image] -> logits [batch, vocab]: the mean over patches, classified."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Linear(config.patch**2, config.width)
        self.position = nn.Parameter(torch.empty(config.length, config.width))
        self.rope = nn.Identity()  # positions are learned
        self.blocks = nn.ModuleList(Block(config, i) for i in range(config.layers))
        self.norm = _norm(config)
        self.head = nn.Linear(config.width, config.vocab, bias=False)
        initialise(self, config.layers)
        nn.init.normal_(self.position, std=0.02)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        patch, side = self.config.patch, self.config.image // self.config.patch
        x = images.view(-1, side, patch, side, patch).transpose(2, 3).flatten(3).flatten(1, 2)
        x = self.embedding(x) + self.position
        for block in self.blocks:
            x = block(x, self.rope)
        return self.head(self.norm(x).mean(dim=1))


def initialise(model: nn.Module, layers: int) -> None:
    """GPT-2's: normal with 0.02; with more layers less, for weights that add to the residual."""
    for name, module in model.named_modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            small = name.endswith(".out")
            std = 0.02 / math.sqrt(2 * layers) if small else 0.02
            nn.init.normal_(module.weight, std=std)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    for module in model.modules():
        if isinstance(module, projection.TensorProduct):
            module.initialise()


Model = Union[Transformer, Tracker, Vit]


def make(config: ModelConfig) -> Model:
    if config.family == "vit":
        return Vit(config)
    return Tracker(config) if config.points else Transformer(config)


def read_with(model: Model, **changes: Any) -> None:
    """Gives every layer another attention or p, for inference: read_with(model, p=15). Weights stay."""
    model.config = dataclasses.replace(model.config, **changes)
    model.config.check()
    for i, block in enumerate(model.blocks):
        assert isinstance(block, Block)
        block.attention.attend = attention.make(model.config, i, causal=model.config.family != "vit")
