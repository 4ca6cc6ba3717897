"""lssar.alibi_slopes: the slopes of ALiBi that its paper gives a number of heads."""

from typing import Any

import torch


def alibi_slopes(num_heads: int, device: Any = None) -> torch.Tensor:
    """The slopes of "Train Short, Test Long" (arXiv 2108.12409), float32 [num_heads]. BLOOM, MPT and
    Falcon have them. For n heads, n a power of two, they are 2^(-8/n), 2^(-16/n), ..., 2^-8. For
    other numbers they are those of the next smaller power of two, m, and behind them the first,
    third, fifth and so on of 2 m.

    Raises ValueError, which names the argument.
    """
    if not isinstance(num_heads, int) or isinstance(num_heads, bool) or num_heads < 1:
        raise ValueError(f"num_heads: {num_heads!r}; must be an int, at least 1")
    power = 2 ** (num_heads.bit_length() - 1)
    whole = [2 ** (-8 * i / power) for i in range(1, power + 1)]
    between = [2 ** (-4 * i / power) for i in range(1, 2 * (num_heads - power), 2)]
    return torch.tensor(whole + between, dtype=torch.float32, device=device)
