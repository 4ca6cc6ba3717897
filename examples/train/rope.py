"""Rotary positions, and how they are stretched to lengths beyond that of training.

    none   angles as in training
    ntk    a larger base: base * factor^(d / (d - 2)). High frequencies stay, the lowest is divided
           by factor.
    yarn   frequencies that turn fewer than once in the training length are divided by factor, those
           that turn more than 32 times stay, with a ramp between; q and k are multiplied so that
           scores grow by (1 + 0.1 log factor)^2. Scores of normalised q and k do not see the latter.
"""

import contextlib
import math
from typing import Iterator

import torch

from .fields import ConfigError

SCALINGS = ("none", "ntk", "yarn")
_MOST_TURNS, _LEAST_TURNS = 32, 1


class Rope(torch.nn.Module):
    """Turns q and k by their positions. Has no parameters."""

    def __init__(self, dim: int, base: float, length: int) -> None:
        super().__init__()
        self.dim, self.base, self.length = dim, base, length
        self.scaling, self.factor = "none", 1.0
        self._tables: dict[tuple[int, torch.device], tuple[torch.Tensor, torch.Tensor]] = {}

    def stretch(self, scaling: str, factor: float) -> None:
        """For inference at `factor` times the training length."""
        if scaling not in SCALINGS:
            raise ConfigError(f"scaling: {scaling!r}; must be one of {', '.join(SCALINGS)}")
        if not factor >= 1:
            raise ConfigError(f"factor: {factor}; must be 1 or more")
        self.scaling, self.factor = scaling, factor
        self._tables.clear()

    @contextlib.contextmanager
    def stretched(self, scaling: str, factor: float) -> Iterator[None]:
        """Stretched within, and as in training after, whatever happens."""
        self.stretch(scaling, factor)
        try:
            yield
        finally:
            self.stretch("none", 1)

    def frequencies(self) -> torch.Tensor:
        """Radians per position of every pair of dimensions, [dim / 2], in float64."""
        power = torch.arange(0, self.dim, 2, dtype=torch.float64) / self.dim
        base = self.base
        if self.scaling == "ntk":
            base *= self.factor ** (self.dim / (self.dim - 2))
        frequency = base**-power
        if self.scaling != "yarn":
            return frequency
        turns = frequency * self.length / (2 * math.pi)
        kept = ((turns - _LEAST_TURNS) / (_MOST_TURNS - _LEAST_TURNS)).clamp(0, 1)
        return frequency * (kept + (1 - kept) / self.factor)

    def _table(self, length: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        if (length, device) not in self._tables:
            angle = torch.outer(torch.arange(length, dtype=torch.float64), self.frequencies())
            gain = 1 + 0.1 * math.log(self.factor) if self.scaling == "yarn" else 1.0
            cos, sin = (gain * x for x in (angle.cos(), angle.sin()))
            self._tables[length, device] = (cos.float().to(device), sin.float().to(device))
        return self._tables[length, device]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [batch, heads, length, dim], turned by the positions 0, 1, ..."""
        cos, sin = self._table(x.shape[2], x.device)
        a, b = x.float().chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)
