"""What a model of orbits knows of the force: from its predictions, and from what its layers hold.

A prediction of the next position is a prediction of the acceleration: the second difference of the
positions, over the squared step. Newton's is r^-2, towards the sun.
"""

from typing import Optional

import numpy as np
import torch

from . import orbits
from .model import Tracker

FIRST = 8  # the places before it are not read: they have seen too little of an orbit
BINS = 16
Orbits = tuple[torch.Tensor, torch.Tensor]  # positions and the next ones, [orbits, length, 2]


def sample(seed: int, count: int, length: int, axes: Optional[tuple[float, float]] = None) -> Orbits:
    """Orbits that no training has seen: the seeds of training have three numbers, these four."""
    rows = [orbits.row(np.random.RandomState([seed, 2, 0, i]), length, axes) for i in range(count)]
    return torch.from_numpy(np.stack([x for x, _ in rows])), torch.from_numpy(np.stack([y for _, y in rows]))


def second_difference(positions: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    """following - 2 positions + the ones before, from the place FIRST on, in float64."""
    now, before = positions[:, FIRST:].double(), positions[:, FIRST - 1 : -1].double()
    return following[:, FIRST:].double() - 2 * now + before


def error(positions: torch.Tensor, following: torch.Tensor, predicted: torch.Tensor) -> float:
    """The predictions' error over that of a planet that goes straight on: 1 is no force, 0 the truth."""
    missed = (predicted - following)[:, FIRST:].double()
    return (missed.norm() / second_difference(positions, following).norm()).item()


def law(positions: torch.Tensor, following: torch.Tensor) -> tuple[float, float]:
    """n and the R^2 of the fit: acceleration towards the sun = C r^-n, through the means of BINS bins of r
    with as many places each. The R^2 is that of the logarithms; NaN and 0 where a mean is not towards it.
    """
    at = positions[:, FIRST:].double().reshape(-1, 2)
    acceleration = second_difference(positions, following).reshape(-1, 2) / orbits.STEP**2
    r = at.norm(dim=-1)
    inwards = -(acceleration * at).sum(dim=-1) / r
    parts = r.argsort().tensor_split(BINS)
    of_r = np.array([r[part].log().mean().item() for part in parts])
    means = np.array([inwards[part].mean().item() for part in parts])
    if not (means > 0).all():
        return float("nan"), 0.0
    found = np.log(means)
    slope, start = np.polyfit(of_r, found, 1)
    rest = found - (slope * of_r + start)
    return -float(slope), 1 - float((rest**2).sum() / ((found - found.mean()) ** 2).sum())


def force(positions: torch.Tensor) -> torch.Tensor:
    """Newton's, [places, 2], from FIRST on, in float64."""
    at = positions[:, FIRST:].double().reshape(-1, 2)
    return -at / at.norm(dim=-1, keepdim=True) ** 3


def probe(known: torch.Tensor, forces: torch.Tensor, asked: torch.Tensor, wanted: torch.Tensor) -> float:
    """R^2 on new places of the best affine map from features to the force. known and asked: [places, n]."""
    ones = (torch.ones(len(x), 1, dtype=torch.float64) for x in (known, asked))
    fitted, tested = (torch.cat((x.double(), one), dim=1) for x, one in zip((known, asked), ones))
    weights = torch.linalg.lstsq(fitted, forces, driver="gelsd").solution
    rest = wanted - tested @ weights
    return (1 - rest.square().sum() / (wanted - wanted.mean(dim=0)).square().sum()).item()


@torch.no_grad()
def features(model: Tracker, positions: torch.Tensor) -> torch.Tensor:
    """What the last layer holds at each place, [places, width]."""
    return model.hidden(positions)[:, FIRST:].flatten(0, 1)


def probe_of(model: Optional[Tracker], fit: Orbits, test: Orbits) -> float:
    """The probe of a model's last layer, fitted to some orbits and tested on others. Without a model, the
    probe of the position itself."""

    def of(positions: torch.Tensor) -> torch.Tensor:
        return positions[:, FIRST:].reshape(-1, 2) if model is None else features(model, positions)

    return probe(of(fit[0]), force(fit[0]), of(test[0]), force(test[0]))
