"""The attention of a layer, chosen by model.attention and model.p.

    sdpa                     torch's softmax attention
    flex                     torch's FlexAttention, softmax; trains on GPUs only
    lssar, softmax, ...      lssar.attention with this score, re-weighted with model.p
    phi=relu(x)^2,normalizer=sum_abs     any score that lssar.Score takes
"""

from typing import Any, Callable, Optional

import lssar
import torch
import torch.nn.functional as F

from .config import ModelConfig
from .fields import ConfigError

# q [batch, heads, length, dim], k and v [batch, kv_heads, length, dim] -> o as q.
Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

# Names for scores that comparisons need often: the score's text, and p. None: the score's own p.
SCORES: dict[str, tuple[str, Optional[int]]] = {
    "lssa": ("lssar", 0),
    # Softmax with QK norm and log N: the strong baseline.
    "softmax_entropy": ("softmax,scale=log_dim_log_length,qk_norm=true", None),
    "sigmoid_l1": ("sigmoid,normalizer=sum", None),
    "relu_l1": ("scale=inv_sqrt_dim,qk_norm=false,phi=relu,normalizer=sum_abs", None),
}


_OF_TORCH = ("sdpa", "flex")


def score_of(config: ModelConfig, layer: int) -> tuple[str, Optional[int]]:
    """The score function of a layer, and p, as lssar.attention takes them."""
    name, p = config.attention, config.power(layer)
    text, named_p = ("softmax", None) if name in _OF_TORCH else SCORES.get(name, (name, None))
    return text, named_p if p is None else p


def make(config: ModelConfig, layer: int, causal: bool) -> Attend:
    """The attention of a layer. Raises ConfigError where the choice is not possible."""
    name, p = config.attention, config.power(layer)
    if name in _OF_TORCH:
        if p:
            raise ConfigError(f"model.p: {p}; must be null or 0 with model.attention {name}")
        return _sdpa(causal) if name == "sdpa" else _flex(causal)
    text, p = score_of(config, layer)
    try:  # the library reads the score when it is called; float64 needs no kernel
        probe = torch.zeros(1, 1, 1, config.dim, dtype=torch.float64)
        lssar.attention(probe, probe, probe, causal, p, config.offset, score=text)
    except (ValueError, lssar.LssarError) as error:
        names = ", ".join(SCORES)
        raise ConfigError(
            f"model.attention: {name!r} with model.p {p}: {error}; must be sdpa, flex, {names} or a "
            "score of lssar.attention"
        ) from None
    return _lssar(text, p, config.offset, causal)


def _lssar(score: str, p: Optional[int], offset: float, causal: bool) -> Attend:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return lssar.attention(q, k, v, causal=causal, p=p, offset=offset, score=score)

    return attend


def _sdpa(causal: bool) -> Attend:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        grouped = q.shape[1] != k.shape[1]
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)

    return attend


def _flex(causal: bool) -> Attend:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    compiled = torch.compile(flex_attention)
    masks = {}

    def is_visible(batch, head, query, key):
        return query >= key

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        on_gpu, length = q.device.type == "cuda", q.shape[2]
        if not on_gpu and torch.is_grad_enabled() and q.requires_grad:
            raise ConfigError(
                "model.attention: 'flex'; FlexAttention has no backward on the CPU; must be sdpa, "
                "which computes the same, or train.device cuda"
            )
        if causal and (length, q.device) not in masks:
            masks[length, q.device] = create_block_mask(is_visible, None, None, length, length, q.device)
        mask = masks[length, q.device] if causal else None
        run: Any = compiled if on_gpu else flex_attention
        return run(q, k, v, block_mask=mask, enable_gqa=q.shape[1] != k.shape[1])

    return attend
