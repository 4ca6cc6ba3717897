"""Rotary positions (docs/rotary.md): tables of angles, what calls may be given of them, and rotation in
plain torch operations, for float64 and for what is appended to a cache.
"""

import math
import numbers
from typing import Tuple, Union

import torch

from . import _rules

_BETA_FAST, _BETA_SLOW = 32.0, 1.0  # YaRN's, of the models that it was published with
_SCALINGS = 'None, ("ntk", factor) or ("yarn", factor, original_length)'


def _number(name, value, least):
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < least:
        raise ValueError(f"{name}: {value!r}; must be a finite number from {least}")
    return float(value)


def _whole(name, value, least, most):
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{name}: {value!r}; must be an int from {least} to {most}")
    return value


def _rotary_dim(value):
    _whole("rotary_dim", value, 2, _rules.MAX_HEAD_DIM)
    if value % 2:
        raise ValueError(f"rotary_dim: {value}; must be even")
    return value


def _plain_frequencies(dim, base):
    """Angle per position of each pair of columns, [dim / 2], float64."""
    return base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)


def _yarn_frequencies(dim, base, factor, original_length):
    """Pairs that turn less than _BETA_SLOW times in the original length are slowed down by `factor`,
    those that turn more than _BETA_FAST times are left alone, and a ramp over pairs is between."""
    plain = _plain_frequencies(dim, base)

    def pair_that_turns(times):
        return dim * math.log(original_length / (times * 2 * math.pi)) / (2 * math.log(base))

    low = max(math.floor(pair_that_turns(_BETA_FAST)), 0)
    high = min(math.ceil(pair_that_turns(_BETA_SLOW)), dim - 1)
    width = max(high - low, 0.001)
    slowed = ((torch.arange(dim // 2, dtype=torch.float64) - low) / width).clamp(0, 1)
    return plain / factor * slowed + plain * (1 - slowed)


def _frequencies(dim, base, scaling):
    if scaling is None:
        return _plain_frequencies(dim, base)
    kind = scaling[0] if isinstance(scaling, (tuple, list)) and scaling else None
    if kind == "ntk" and len(scaling) == 2:
        factor = _number("scaling[1]", scaling[1], 1)
        if dim == 2:
            raise ValueError('rotary_dim: 2; must be from 4 with scaling "ntk", which keeps one pair')
        return _plain_frequencies(dim, base * factor ** (dim / (dim - 2)))
    if kind == "yarn" and len(scaling) == 3:
        factor = _number("scaling[1]", scaling[1], 1)
        length = _whole("scaling[2]", scaling[2], 1, _rules.MAX_LENGTH)
        return _yarn_frequencies(dim, base, factor, length)
    raise ValueError(f"scaling: {scaling!r}; must be {_SCALINGS}")


def rotary_tables(
    positions: int,
    rotary_dim: int,
    base: float = 10000.0,
    scaling: "Union[Tuple[str, float], Tuple[str, float, int], None]" = None,
    device: "Union[torch.device, str, None]" = None,
) -> Tuple[torch.Tensor, torch.Tensor]:
    """cos and sin of rotary positions, float32 [positions, rotary_dim / 2], for lssar.attention.

    At position m pair c has the angle m base^(-2c / rotary_dim).

    Args:
        positions: how many, from 0 on: at least the number of keys of the calls.
        rotary_dim: how many columns of q and k are turned: even, 2 to head_dim.
        base: of the angles, above 1. Models of long texts have 500000 and more.
        scaling: for texts longer than a model was trained with. ("ntk", factor): the base becomes
            base factor^(dim / (dim - 2)), so that the slowest pair turns `factor` times slower, and
            the fastest as before. ("yarn", factor, original_length): slow pairs turn `factor` times
            slower, fast ones as before, with YaRN's beta_fast 32 and beta_slow 1. YaRN's factor of
            the attention's temperature is left out: it multiplies q and k, and lssar's scores are of
            directions. Score functions without norms (softmax) have the field `scale` for it.

    Raises ValueError, which names the argument.
    """
    _whole("positions", positions, 0, _rules.MAX_LENGTH)
    dim = _rotary_dim(rotary_dim)
    if _number("base", base, 1) == 1:
        raise ValueError(f"base: {base!r}; must be above 1")
    frequencies = _frequencies(dim, float(base), scaling)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * frequencies
    return angles.cos().float().to(device), angles.sin().float().to(device)


def check(cos, sin, interleaved, q):
    """`q`: of any shape [..., head_dim]."""
    _rules.flag("rotary_interleaved", interleaved)
    wanted = (torch.float32, torch.float64) if q.dtype == torch.float64 else (torch.float32,)
    for name, x in (("rotary_cos", cos), ("rotary_sin", sin)):
        if not isinstance(x, torch.Tensor):
            raise TypeError(
                f"{name}: {type(x).__name__}; must be a torch.Tensor, as the other table is, or "
                "rotary_interleaved is, given"
            )
        if x.dtype not in wanted:
            raise TypeError(f"{name}: dtype {x.dtype}; must be {' or '.join(map(str, wanted))}")
        if x.device != q.device:
            raise ValueError(f"{name}: on device '{x.device}'; must be on that of q, '{q.device}'")
        if x.requires_grad:
            raise ValueError(f"{name}: requires a gradient; must not: it has none")
    _rules.check_rotary_shapes(cos.shape, sin.shape, q.shape[-1])


def rotated(x, cos, sin, interleaved):
    """x, [..., rows, head_dim], with its first columns turned by cos and sin, [..., rows, n], in their
    type."""
    pairs = cos.shape[-1]
    turned, rest = x[..., : 2 * pairs].to(cos.dtype), x[..., 2 * pairs :]
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
        turned = torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)
    else:
        a, b = turned[..., :pairs], turned[..., pairs:]
        turned = torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
    return torch.cat((turned.to(x.dtype), rest), dim=-1)


def rotated_inputs(q, k, cos, sin, interleaved):
    """q and k, [batch, heads, length, dim], of float64."""
    cos, sin = cos.double(), sin.double()
    last, first = k.shape[2], k.shape[2] - q.shape[2]
    q = rotated(q, cos[first:last], sin[first:last], interleaved)
    return q, rotated(k, cos[:last], sin[:last], interleaved)


def rotated_at(x, positions, cos, sin, interleaved):
    """x, [batch, rows, heads, dim], at positions [batch, rows]. One below 0 is turned the other way;
    one beyond the tables, which only a wrong length of a cache gives, is turned by something."""
    at = positions.abs().clamp(max=max(cos.shape[0] - 1, 0))
    direction = torch.where(positions < 0, -1.0, 1.0).to(sin.dtype)
    sin = sin[at] * direction.unsqueeze(-1)
    return rotated(x, cos[at].unsqueeze(2), sin.unsqueeze(2), interleaved)
